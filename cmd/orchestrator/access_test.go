package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// asOrchestrator in the environment makes the test's own program the orchestrator.
const asOrchestrator = "TEST_AS_ORCHESTRATOR"

func TestMain(m *testing.M) {
	if os.Getenv(asOrchestrator) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// issuer is an OpenID Connect issuer over TLS, and the file of its authority.
type issuer struct {
	*httptest.Server
	authority string
	signer    jose.Signer
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{authority: filepath.Join(t.TempDir(), "authority.pem")}
	if i.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private, KeyID: "1"}}, nil); err != nil {
		t.Fatal(err)
	}
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var body any = map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}
		if r.URL.Path == "/keys" {
			body = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}}
		}
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(i.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	if err := os.WriteFile(i.authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *issuer) token(t *testing.T, roles ...string) string {
	t.Helper()
	claims, err := json.Marshal(map[string]any{
		"iss": i.URL, "aud": "api", "sub": "ada", "roles": roles, "exp": time.Now().Add(time.Hour).Unix(),
	})
	if err != nil {
		t.Fatal(err)
	}
	object, err := i.signer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	token, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// child is an orchestrator that runs, and what it writes.
type child struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string
	stderr  *bufio.Scanner
	written strings.Builder
}

// start starts one and returns when it says that it is ready.
func start(t *testing.T, env []string, args ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0], append(args, "-id=o", "-store-timeout=200ms", "-settle-timeout=200ms")...)}
	c.cmd.Env = append(append(os.Environ(), asOrchestrator+"=1"), append(environment, env...)...)
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stderr = bufio.NewScanner(stderr)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // it has ended already, unless the test has failed
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "ready" {
		if address, ok := strings.CutPrefix(lines.Text(), "http "); ok {
			c.address = address
		}
	}
	if c.address == "" {
		c.rest()
		t.Fatalf("it did not start: %v\n%s", c.cmd.Wait(), c.written.String())
	}
	return c
}

// until reads the log up to a line with a text.
func (c *child) until(text string) {
	c.t.Helper()
	for c.stderr.Scan() {
		c.written.WriteString(c.stderr.Text() + "\n")
		if strings.Contains(c.stderr.Text(), text) {
			return
		}
	}
	c.t.Fatalf("the log has nothing of %q:\n%s", text, c.written.String())
}

func (c *child) rest() {
	for c.stderr.Scan() {
		c.written.WriteString(c.stderr.Text() + "\n")
	}
}

// stop ends it as a platform does, and returns its whole log.
func (c *child) stop() string {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	c.rest()
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("it ended with %v\n%s", err, c.written.String())
	}
	return c.written.String()
}

func (c *child) ask(method, path, host, token string) (status int, challenge, body string) {
	c.t.Helper()
	_, port, err := net.SplitHostPort(c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, "http://127.0.0.1:"+port+path, strings.NewReader(`{"type":"t"}`))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Host = host
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return w.StatusCode, w.Header.Get("WWW-Authenticate"), string(text)
}

func TestOffLoopbackItStartsWithAnIssuerOnlyAndAsksForTokens(t *testing.T) {
	if err := run(t.Context(), []string{"-id=o", "-listen=0.0.0.0:0"}, environment, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "-oidc-issuer") {
		t.Fatalf("without an issuer: %v, want an error about -oidc-issuer", err)
	}
	i := newIssuer(t)
	c := start(t, []string{"SSL_CERT_FILE=" + i.authority, "ONEEFFECT_ORCHESTRATOR_OIDC_AUDIENCE=api"}, "-listen=0.0.0.0:0", "-oidc-issuer="+i.URL)
	c.until("the issuer's keys were read")
	reader, submitter := i.token(t, "read"), i.token(t, "submit")
	for _, test := range []struct {
		name, method, path, token string
		status                    int
		body                      string
	}{
		{"nobody", "GET", "/v1/executions/82f3", "", 401, "sign in"},
		{"nobody, alive?", "GET", "/livez", "", 204, ""},
		{"a forged token", "GET", "/v1/executions/82f3", reader[:len(reader)-20] + "AAAAAAAAAAAAAAAAAAAA", 401, "signed"},
		{"a reader looks", "GET", "/v1/executions/82f3", reader, 503, "the store did not answer"},
		{"a reader submits", "POST", "/v1/executions", reader, 403, "the role submit"},
		{"a submitter submits", "POST", "/v1/executions", submitter, 503, "the store did not answer"},
		{"a submitter cancels", "POST", "/v1/executions/82f3/cancel", submitter, 403, "the role operate"},
	} {
		status, challenge, body := c.ask(test.method, test.path, "oneeffect.example", test.token)
		if status != test.status || !strings.Contains(body, test.body) || (challenge != "") != (status == 401 || status == 403) {
			t.Errorf("%s: %d %q, WWW-Authenticate %q; want %d about %q", test.name, status, body, challenge, test.status, test.body)
		}
	}
	log := c.stop()
	for _, token := range []string{reader, submitter} {
		for part := range strings.SplitSeq(token, ".") {
			if strings.Contains(log, part[:12]) {
				t.Errorf("a part of a token is in the log:\n%s", log)
			}
		}
	}
}

// What the guard answers is described, for every operation: that nobody knows who asks,
// that who asks may not, and that an open API was called by another name.
func TestTheGuardsAnswersAreDescribed(t *testing.T) {
	text, err := os.ReadFile("../../internal/orchestrator/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			Responses map[string]any `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	i := newIssuer(t)
	guarded := start(t, []string{"SSL_CERT_FILE=" + i.authority}, "-listen=0.0.0.0:0", "-oidc-issuer="+i.URL, "-oidc-audience=api")
	guarded.until("the issuer's keys were read")
	open := start(t, nil, "-listen=127.0.0.1:0")
	nobody := i.token(t, "nothing")
	asked := 0
	for path, methods := range document.Paths {
		for method, o := range methods {
			for _, ask := range []struct {
				of          *child
				host, token string
				want        int
				problem     string
			}{
				{guarded, "oneeffect.example", "", 401, "unauthenticated"}, {guarded, "oneeffect.example", nobody, 403, "not-permitted"},
				{open, "evil.example", "", 421, "misdirected"},
			} {
				if (path == "/livez" || path == "/readyz") && ask.of == guarded {
					continue // whoever asks these has no token
				}
				asked++
				status, _, body := ask.of.ask(strings.ToUpper(method), strings.Replace(path, "{id}", "82f3", 1), ask.host, ask.token)
				if _, described := o.Responses[strconv.Itoa(status)]; status != ask.want || !described || !strings.Contains(body, `"urn:oneeffect:problem:`+ask.problem+`"`) {
					t.Errorf("%s %s: %d %s, described: %t; want %d %s", method, path, status, body, described, ask.want, ask.problem)
				}
			}
		}
	}
	if asked < 30 {
		t.Errorf("%d answers were looked at", asked)
	}
	guarded.stop()
	open.stop()
}

func TestOnLoopbackItIsOpenToThisMachinesNamesAlone(t *testing.T) {
	c := start(t, nil, "-listen=127.0.0.1:0")
	for host, want := range map[string]int{"": 204, "localhost": 204, "evil.example": 421} {
		if status, _, body := c.ask("GET", "/livez", host, ""); status != want {
			t.Errorf("Host %q: %d %s, want %d", host, status, body, want)
		}
	}
	c.stop()
}
