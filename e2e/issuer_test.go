package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// What the orchestrator is known by at the issuer.
const (
	client   = "page"
	audience = "api://oneeffect"
)

// user is somebody whom the issuer knows.
type user struct {
	roles []string
	life  time.Duration // of a token
}

// issuer is an OpenID Connect issuer over TLS: it asks who somebody is, sends the
// browser back with a code, and gives a token for the code to whoever began.
type issuer struct {
	*httptest.Server
	t         *testing.T
	authority string // the file of its certificate
	users     map[string]user
	signer    jose.Signer
	public    jose.JSONWebKey

	mu      sync.Mutex
	codes   map[string]asked // by code; each is taken once
	granted map[string]int   // tokens, by user
}

// asked is what a browser was sent here with, and who it then said it is.
type asked struct{ user, challenge, redirect string }

func newIssuer(t *testing.T, users map[string]user) *issuer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, users: users, codes: map[string]asked{}, granted: map[string]int{}, authority: filepath.Join(t.TempDir(), "authority.pem")}
	i.public = jose.JSONWebKey{Key: private.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}
	if i.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private, KeyID: "1"}}, nil); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.public}})
	})
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /authorize", i.identified)
	mux.HandleFunc("POST /token", i.token)
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	if err := os.WriteFile(i.authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

// pinOf is what a browser trusts the certificate of every such issuer by: that of the
// standard library's test servers.
func pinOf(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:])
}

func answer(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document) // the peer may be gone: nothing to do about it
}

var identify = template.Must(template.New("identify").Parse(`<!doctype html><html lang="en"><meta charset="utf-8"><title>The issuer</title>
<form method="post" action="/authorize"><input type="hidden" name="query" value="{{.}}"><label>Who are you? <input id="user" name="user"></label><button>Go on</button></form></html>`))

// authorize asks who somebody is.
func (i *issuer) authorize(w http.ResponseWriter, r *http.Request) {
	for name, want := range map[string]string{"client_id": client, "response_type": "code", "scope": audience, "code_challenge_method": "S256"} {
		if got := r.URL.Query().Get(name); got != want {
			i.t.Errorf("the browser comes with %s %q, want %q", name, got, want)
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = identify.Execute(w, r.URL.RawQuery) // the peer may be gone: nothing to do about it
}

// identified sends somebody back with a code.
func (i *issuer) identified(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.PostFormValue("query"))
	who := r.PostFormValue("user")
	if _, known := i.users[who]; err != nil || !known {
		http.Error(w, "nobody", http.StatusForbidden)
		return
	}
	code := rand.Text()
	i.mu.Lock()
	i.codes[code] = asked{user: who, challenge: query.Get("code_challenge"), redirect: query.Get("redirect_uri")}
	i.mu.Unlock()
	back := url.Values{"code": {code}, "state": {query.Get("state")}}
	http.Redirect(w, r, query.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
}

// token gives a token for a code, once, to whoever knows what the challenge was made of.
func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	code := r.PostFormValue("code")
	i.mu.Lock()
	defer i.mu.Unlock()
	began, known := i.codes[code]
	delete(i.codes, code)
	digest := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !known || base64.RawURLEncoding.EncodeToString(digest[:]) != began.challenge || r.PostFormValue("redirect_uri") != began.redirect || began.challenge == "" {
		i.t.Errorf("a token is asked for by somebody who has not begun, or twice: %v", r.PostForm)
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	i.granted[began.user]++
	u := i.users[began.user]
	claims, err := json.Marshal(map[string]any{"iss": i.URL, "aud": audience, "sub": began.user, "roles": u.roles, "exp": time.Now().Add(u.life).Unix()})
	if err != nil {
		i.t.Error(err)
	}
	object, err := i.signer.Sign(claims)
	if err != nil {
		i.t.Error(err)
		return
	}
	token, err := object.CompactSerialize()
	if err != nil {
		i.t.Error(err)
	}
	answer(w, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": int(u.life / time.Second)})
}

func (i *issuer) grants(who string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.granted[who]
}

// at reports whether an address is the issuer's.
func (i *issuer) at(address string) bool { return strings.HasPrefix(address, i.URL+"/") }
