package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"oneeffect/cmd/internal/process"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

// tokens are of an OpenID Connect issuer over TLS.
type tokens struct {
	*httptest.Server
	t         *testing.T
	authority string // the file of its certificate
	signer    jose.Signer
}

func newIssuer(t *testing.T) *tokens {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &tokens{t: t, authority: filepath.Join(t.TempDir(), "authority.pem")}
	if i.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private, KeyID: "1"}}, nil); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.MarshalWrite(w, map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}) // to a test's own server
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.MarshalWrite(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}}) // to a test's own server
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	if err := os.WriteFile(i.authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

// token is somebody's, for the orchestrator's API; life may be over.
func (i *tokens) token(life time.Duration, audience string, roles ...string) string {
	i.t.Helper()
	claims, err := json.Marshal(map[string]any{"iss": i.URL, "aud": audience, "sub": "ada", "roles": roles, "exp": time.Now().Add(life).Unix()})
	if err != nil {
		i.t.Fatal(err)
	}
	object, err := i.signer.Sign(claims)
	if err != nil {
		i.t.Fatal(err)
	}
	token, err := object.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}

// An orchestrator that asks for tokens does what the token's roles say, also while it
// tells of changes; without one, or with one that is no good, it is said what to do.
func (p *programs) bringTokens(t *testing.T) {
	i := newIssuer(t)
	asking := *p
	asking.t, asking.env = t, append(asking.env[:len(asking.env):len(asking.env)], "SSL_CERT_FILE="+i.authority)
	guarded := asking.launch("orchestrator", "-cosmos-endpoint=http://"+p.emulator.Cosmos, "-log-level=error", "-id=guarded", "-listen=127.0.0.1:0", "-follow-period=100ms",
		"-oidc-issuer="+i.URL, "-oidc-audience=api")
	at := "--orchestrator-url=http://" + guarded.HTTP
	with := func(token string) process.Environment {
		return append(p.env[:len(p.env):len(p.env)], tokenVariable+"="+token)
	}
	// Until the issuer's keys are read it can only be said to try again, which is done.
	everything := with(i.token(time.Hour, "api", "read", "submit", "operate"))
	if got := taskctl(t, everything, "submit", "customer.create", "--execution-id=by-token", "--watch", at); got.code != exitOK || !strings.Contains(got.out, "RUNNING by ada") || !strings.Contains(got.out, "COMPLETED") {
		t.Fatalf("%+v", got)
	}
	for name, test := range map[string]struct {
		token string
		args  []string
		code  int
		says  string
		next  string
	}{
		"no token":            {"", []string{"get", "by-token"}, exitUsage, "sign in: send a bearer token", "next: sign in: give --orchestrator-audience"},
		"expired":             {i.token(-time.Hour, "api", "read"), []string{"get", "by-token"}, exitUsage, "the token has expired: ask the issuer for a new one", "a token in " + tokenVariable},
		"expired, watched":    {i.token(-time.Hour, "api", "read"), []string{"watch", "by-token"}, exitUsage, "the token has expired", "a token in " + tokenVariable},
		"for somebody else":   {i.token(time.Hour, "another", "read"), []string{"list"}, exitUsage, "the token is for another audience", "a token in " + tokenVariable},
		"no token at all":     {"not-a-token", []string{"list"}, exitUsage, "the token is no JWT", "a token in " + tokenVariable},
		"may read":            {i.token(time.Hour, "api", "read"), []string{"get", "by-token"}, exitOK, "COMPLETED", ""},
		"may watch":           {i.token(time.Hour, "api", "read"), []string{"watch", "by-token"}, exitOK, "COMPLETED", ""},
		"may not submit":      {i.token(time.Hour, "api", "read"), []string{"submit", "customer.create"}, exitFailed, "this takes the role submit", "ask whoever runs the API's application for the role"},
		"may not cancel":      {i.token(time.Hour, "api", "read", "submit"), []string{"cancel", "by-token", "--reason=r"}, exitFailed, "this takes the role operate", "ask whoever runs the API's application for the role"},
		"may not even replay": {i.token(time.Hour, "api", "read"), []string{"dead-letters", "replay", "by-token", "--reason=r"}, exitFailed, "operate", "next: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := taskctl(t, with(test.token), append(test.args, at)...)
			text := got.out + got.errOut
			if got.code != test.code || !strings.Contains(text, test.says) || !strings.Contains(got.errOut, test.next) {
				t.Errorf("exit %d, want %d; it says\n%s\nwant %q and %q", got.code, test.code, text, test.says, test.next)
			}
			for part := range strings.SplitSeq(test.token, ".") {
				if len(part) > 12 && strings.Contains(text, part) {
					t.Error("a part of the token is printed")
				}
			}
		})
	}
}

// nameTheTrace: a request that comes with a trace is found by it, in the picture too.
func (p *programs) nameTheTrace(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	r, err := http.NewRequestWithContext(p.ctx, http.MethodPost, p.env.Get("ONEEFFECT_TASKCTL_ORCHESTRATOR_URL")+"/v1/executions", strings.NewReader(`{"executionId":"traced","type":"customer.create"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Body.Close(); err != nil || w.StatusCode != http.StatusCreated {
		t.Fatalf("%s (%v)", w.Status, err)
	}
	if got := taskctl(t, p.env, "watch", "traced"); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	if got := taskctl(t, p.env, "timeline", "traced"); got.code != exitOK || !strings.Contains(got.out, "\ntrace "+trace+"\n") {
		t.Errorf("%+v", got)
	}
	if got := taskctl(t, p.env, "timeline", "traced", "-o=json"); got.code != exitOK || !strings.Contains(got.out, `"traceId": "`+trace+`"`) {
		t.Errorf("%+v", got)
	}
}
