package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// guarded starts another orchestrator on the same broker and store, which asks who
// somebody is. It returns its address, with its scheme.
func (s *system) guarded(i *issuer) string {
	s.t.Helper()
	address := free(s.t)
	program, err := filepath.Abs("../bin/orchestrator")
	if err != nil {
		s.t.Fatal(err)
	}
	o := exec.Command(program, "-id=guarded", "-listen="+address, "-page-url=http://"+address, "-cosmos-endpoint="+s.store, "-follow-period=100ms", "-log-level=error",
		"-oidc-issuer="+i.URL, "-oidc-audience="+audience, "-oidc-client="+client, "-oidc-scope="+audience)
	o.Env = append(os.Environ(), "COSMOS_KEY="+accountKey, "SSL_CERT_FILE="+i.authority,
		"SERVICEBUS_CONNECTION_STRING=Endpoint=sb://"+s.broker+";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true")
	o.Stderr = os.Stderr
	out, err := o.StdoutPipe()
	if err == nil {
		err = o.Start()
	}
	if err != nil {
		s.t.Fatalf("%v (make build makes it)", err)
	}
	s.t.Cleanup(func() {
		_ = o.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, out)
		_ = o.Wait() // what it says of its own end is its own tests' business
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "ready" {
			s.answersAt("http://" + address)
			return "http://" + address
		}
	}
	s.t.Fatal("the orchestrator that asks for tokens did not start")
	return ""
}

// answersAt waits until an orchestrator sends browsers to sign in: one that listens may not
// have read the issuer's keys yet, and answers everybody with 503 until it has.
func (s *system) answersAt(page string) {
	s.t.Helper()
	last := "nothing"
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, page+"/", nil)
		if err != nil {
			s.t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		answer, err := http.DefaultTransport.RoundTrip(r) // which follows no redirect
		if err != nil {
			s.t.Fatal(err)
		}
		answer.Body.Close()
		if last = answer.Status; answer.StatusCode != http.StatusServiceUnavailable {
			return
		}
	}
	s.t.Fatalf("%s answers %s for half a minute", page, last)
}

// free is an address of this machine that nobody listens at.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// signIn is what somebody does at the issuer, which the page has sent them to.
func (b *browser) signIn(i *issuer, who string) {
	b.t.Helper()
	b.until(`document.querySelector("#user")`)
	if at := evaluate[string](b, "location.href"); !i.at(at) {
		b.t.Fatalf("signed in at %s, which is not the issuer", at)
	}
	b.do(chromedp.SendKeys(chromedp.CSS("#user"), who), chromedp.Click(chromedp.CSS("button")))
}

// signedIn: where tokens are required a browser is sent to sign in, comes back to the
// page that it wanted, and may do there what its roles say, until it signs out or its
// token has expired.
func (s *system) signedIn() {
	i := newIssuer(s.t, map[string]user{
		"grace": {[]string{"read", "operate"}, time.Hour}, "ada": {[]string{"read"}, time.Hour},
		"brief": {[]string{"read"}, 5 * time.Second}, "nobody": {[]string{}, time.Hour},
	})
	page := s.guarded(i)
	b := open(s.t, page+"/executions/letter-9")
	b.signIn(i, "grace")
	b.until(`location.pathname === "/executions/letter-9" && document.querySelector("h1 .status.failed")`)
	b.says("form.who", "grace")
	if forms := evaluate[int](b, `document.querySelectorAll("form.act").length`); forms != 2 {
		s.t.Errorf("an operator is offered %d forms, want replay and resolve", forms)
	}
	b.until(`document.querySelector("#live.on")`) // the stream takes the sign-in along
	if kept := evaluate[string](b, "document.cookie"); kept != "" {
		s.t.Errorf("scripts can read the sign-in: %d characters", len(kept))
	}
	b.shoot("signed-in")

	b.do(chromedp.Click(chromedp.CSS("form.who button")))
	b.until(`document.body.innerText.includes("You are signed out here")`)
	b.do(chromedp.Navigate(page + "/executions/letter-9"))
	b.signIn(i, "ada")
	b.until(`document.querySelector("h1 .status.failed")`)
	b.says("form.who", "ada")
	if forms := evaluate[int](b, `document.querySelectorAll("form.act").length`); forms != 0 {
		s.t.Errorf("who may only read is offered %d forms", forms)
	}
	b.shoot("reader")
	for _, act := range []string{"/executions/letter-9/replay", "/v1/executions/letter-9/replay", "/executions/letter-9/resolve"} {
		evaluate[bool](b, `(window.answer = 0, fetch("`+act+`", {method: "POST", body: new URLSearchParams({reason: "all the same", assertNothingApplied: "yes"})}).then(r => { window.answer = r.status; document.body.append("") }), true)`)
		b.until("window.answer")
		if got := evaluate[int](b, "window.answer"); got != 403 {
			s.t.Errorf("POST %s by who may only read: %d, want 403", act, got)
		}
	}
	b.do(chromedp.Navigate(page + "/executions/letter-9"))
	b.says("h1 .status", "FAILED")
	b.do(chromedp.Click(chromedp.CSS("form.who button")))
	b.until(`document.body.innerText.includes("You are signed out here")`)
	s.expiry(i, page)
}

// expiry: a sign-in whose token has expired is begun anew, and somebody without a role
// is told so instead of being sent around.
func (s *system) expiry(i *issuer, page string) {
	b := open(s.t, page+"/")
	b.signIn(i, "brief")
	b.until(`document.querySelector("form.who") || document.querySelector("#user")?.value === ""`) // signed in, or already asked again
	if i.grants("brief") != 1 {
		s.t.Errorf("%d tokens were given, want 1", i.grants("brief"))
	}
	for !i.at(evaluate[string](b, "location.href")) { // each look takes its time, and the token has five seconds
		b.do(chromedp.Navigate(page + "/"))
	}
	b.signIn(i, "nobody")
	b.until(`document.body.innerText.includes("this takes the role read")`)
	if at := evaluate[string](b, "location.href"); !strings.HasPrefix(at, page) {
		s.t.Errorf("who has no role is at %s", at)
	}
}
