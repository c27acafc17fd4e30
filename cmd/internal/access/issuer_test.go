package access

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"oneeffect/internal/orchestrator"

	"github.com/go-jose/go-jose/v4"
)

const audience = "api://oneeffect"

// issuer is an OpenID Connect issuer, as much of one as an API meets.
type issuer struct {
	url string // its own

	mu        sync.Mutex
	published []any  // JSON Web Keys, or what takes their place
	answer    int    // status of every answer; 0: as it should be
	claimed   string // the issuer by its own discovery document; "": url
	keysAt    string // its jwks_uri; "": its own
	hold      chan struct{}
	discovery int // requests
	keys      int
	token     func(form url.Values) (status int, answer any) // its token endpoint
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	answer, hold := i.answer, i.hold
	claimed, keysAt := i.claimed, i.keysAt
	var body any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		i.discovery++
		if claimed == "" {
			claimed = i.url
		}
		if keysAt == "" {
			keysAt = i.url + "/keys"
		}
		body = map[string]any{"issuer": claimed, "jwks_uri": keysAt, "authorization_endpoint": i.url + "/authorize?tenant=t", "token_endpoint": i.url + "/token", "id_token_signing_alg_values_supported": []string{"none", "HS256", "RS256"}}
	case "/keys":
		i.keys++
		body = map[string]any{"keys": i.published}
	case "/token":
		if err := r.ParseForm(); err == nil && i.token != nil {
			answer, body = i.token(r.PostForm)
		}
	default:
		answer = http.StatusNotFound
	}
	i.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if answer != 0 {
		w.WriteHeader(answer)
		if body == nil || answer != http.StatusOK {
			return
		}
	}
	_ = json.NewEncoder(w).Encode(body)
}

// set changes the issuer under its lock.
func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// reads is how often its keys were asked for.
func (i *issuer) reads() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys
}

// RoundTrip reaches the issuer inside a bubble, where no network is.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// key is a key pair under an id.
type key struct {
	id      string
	alg     jose.SignatureAlgorithm
	private crypto.Signer
}

func (k key) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.private.Public(), KeyID: k.id, Algorithm: string(k.alg), Use: "sig"}
}

// ownRSA is the RSA key of every issuer here: it takes long to make.
var ownRSA = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func rsaKey(t testing.TB, id string) key {
	t.Helper()
	private, err := ownRSA()
	if err != nil {
		t.Fatal(err)
	}
	return key{id, jose.RS256, private}
}

func ecKey(t testing.TB, id string) key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key{id, jose.ES256, private}
}

// token is the claims of a good token with some changed; a nil one is left out.
func (k key) token(t testing.TB, iss string, change map[string]any) string {
	t.Helper()
	return signed(t, jose.SigningKey{Algorithm: k.alg, Key: jose.JSONWebKey{Key: k.private, KeyID: k.id}}, iss, change)
}

func signed(t testing.TB, by jose.SigningKey, iss string, change map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(by, nil)
	if err != nil {
		t.Fatal(err)
	}
	object, err := signer.Sign(claims(t, iss, change))
	if err != nil {
		t.Fatal(err)
	}
	compact, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return compact
}

func claims(t testing.TB, iss string, change map[string]any) []byte {
	t.Helper()
	now := time.Now()
	all := map[string]any{
		"iss": iss, "aud": audience, "sub": "ada", "roles": []string{"read", "submit", "operate"},
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// bench is a guard before a handler that tells who asked.
type bench struct {
	*issuer
	t     testing.TB
	guard *Guard
	rsa   key
	ec    key
	log   *syncBuffer
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

var offLoopback = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 4), Port: 8080}

// setUp starts a guard that reaches the issuer by transport; nil: without a network,
// in a bubble. The guard has ended when the test has.
func setUp(t testing.TB, i *issuer, transport http.RoundTripper, address net.Addr) *bench {
	t.Helper()
	b := &bench{issuer: i, t: t, rsa: rsaKey(t, "rsa-1"), ec: ecKey(t, "ec-1"), log: &syncBuffer{}}
	i.set(func() { i.published = []any{b.rsa.public(), b.ec.public()} })
	if transport == nil {
		transport = i
	}
	guard, err := New(Options{
		Settings: Settings{Issuer: i.url, Audience: audience, RolesClaim: "roles"}, Address: address,
		Transport: transport, Log: slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	b.guard = guard
	return b
}

// run keeps the keys until the function that it returns has been called.
func (b *bench) run() (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.guard.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	}
}

// served is a guard whose issuer is a TLS server, ready to sign people in.
func served(t *testing.T) *bench {
	t.Helper()
	i := &issuer{}
	server := httptest.NewTLSServer(i)
	t.Cleanup(server.Close)
	i.url = server.URL
	b := setUp(t, i, server.Client().Transport, offLoopback)
	t.Cleanup(b.run())
	b.guard.keys.mu.Lock()
	first := b.guard.keys.next
	known := b.guard.keys.set != nil
	b.guard.keys.mu.Unlock()
	if !known {
		<-first
	}
	return b
}

// who tells as whom a request came through, and with which header.
var who = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	p := orchestrator.PrincipalOf(r.Context())
	_ = json.NewEncoder(w).Encode(map[string]any{"name": p.Name, "roles": p.Roles, "authorization": r.Header.Get("Authorization")})
})

func (b *bench) ask(method, path string, authorization ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(b.t.Context(), method, path, nil)
	for _, value := range authorization {
		r.Header.Add("Authorization", value)
	}
	w := httptest.NewRecorder()
	b.guard.Handler(who).ServeHTTP(w, r)
	return w
}

// bring asks for the executions with a token.
func (b *bench) bring(token string) *httptest.ResponseRecorder {
	return b.ask(http.MethodGet, "/v1/executions", "Bearer "+token)
}

// quiet fails if a part of a token is in the log or in an answer.
func (b *bench) quiet(token string, w *httptest.ResponseRecorder) {
	b.t.Helper()
	answer := w.Body.String()
	for _, values := range w.Header() {
		answer += strings.Join(values, "\n")
	}
	for part := range strings.SplitSeq(token, ".") {
		if len(part) < 12 {
			continue
		}
		if strings.Contains(b.log.String(), part[:12]) || strings.Contains(answer, part[:12]) {
			b.t.Errorf("a part of the token is in the log or in the answer:\n%s\n%s", b.log, answer)
		}
	}
}

// problemOf reads a problem document.
func (b *bench) problemOf(w *httptest.ResponseRecorder) (detail string) {
	b.t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
	}
	body, _ := io.ReadAll(w.Result().Body)
	kind := map[int]string{401: "unauthenticated", 403: "not-permitted", 421: "misdirected", 503: "unavailable"}[w.Code]
	if err := json.Unmarshal(body, &p); err != nil || p.Type != "urn:oneeffect:problem:"+kind || w.Header().Get("Content-Type") != "application/problem+json" || p.Status != w.Code {
		b.t.Errorf("%d %s is no problem document: %s (%v)", w.Code, w.Header().Get("Content-Type"), body, err)
	}
	return p.Detail
}
