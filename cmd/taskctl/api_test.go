package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"oneeffect/cmd/internal/process"
	"oneeffect/emulator/identity"

	"github.com/go-json-experiment/json"
)

// answering is an API that always says the same, and what it was asked.
func answering(t *testing.T, status int, contentType, body string) (env process.Environment, asked *atomic.Pointer[http.Request]) {
	t.Helper()
	asked = &atomic.Pointer[http.Request]{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r)
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // to a test's own client
	}))
	t.Cleanup(server.Close)
	return process.Environment{"ONEEFFECT_TASKCTL_ORCHESTRATOR_URL=" + server.URL}, asked
}

func problemDocument(kind string, status int, detail string) string {
	text, _ := json.Marshal(map[string]any{"type": "urn:oneeffect:problem:" + kind, "title": "t", "status": status, "detail": detail}) // of strings and a number, which always works
	return string(text)
}

func TestEveryProblemIsSaidWithItsDetailAndWhatToDo(t *testing.T) {
	for kind, c := range map[string]struct{ status, code int }{
		"invalid-request": {400, exitUsage}, "unauthenticated": {401, exitUsage}, "not-permitted": {403, exitFailed}, "no-such-resource": {404, exitFailed},
		"not-possible": {409, exitFailed}, "changed": {412, exitFailed}, "misdirected": {421, exitFailed}, "key-reused": {422, exitFailed},
		"invalid-execution": {422, exitFailed}, "body-too-large": {413, exitFailed}, "store-refused": {500, exitFailed}, "of-a-later-version": {418, exitFailed},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			env, _ := answering(t, c.status, "application/problem+json", problemDocument(kind, c.status, "because\x1b[2J of this"))
			got := taskctl(t, env, "get", "82f3")
			want := fmt.Sprintf("taskctl: because\uFFFD[2J of this (%d %s)\nnext: ", c.status, kind)
			if got.code != c.code || !strings.HasPrefix(got.errOut, want) || len(got.errOut) < len(want)+10 || got.out != "" {
				t.Errorf("exit %d, want %d; %q, want %q", got.code, c.code, got.errOut, want)
			}
		})
	}
}

func TestWhatIsNoAnswerOfTheAPIIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		status      int
		media, body string
		code        int
		want        string
	}{
		"a proxy's page": {502, "text/html", "<html>", exitUnreachable, "answered 502 Bad Gateway, and not as the orchestrator's API does"},
		"another server": {404, "text/plain", "nothing", exitFailed, "is http"},
		"a redirect":     {302, "text/html", "", exitFailed, "answered 302 Found"},
		"no JSON":        {200, "text/html", "<html>", exitFailed, "not what its API promises"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, _ := answering(t, c.status, c.media, c.body)
			if got := taskctl(t, env, "get", "82f3"); got.code != c.code || !strings.Contains(got.errOut, c.want) {
				t.Errorf("exit %d, want %d and %q:\n%s", got.code, c.code, c.want, got.errOut)
			}
		})
	}
}

// What is asked for may be asked for again, and is, when the API says "not now".
func TestAnAPIThatIsBusyIsAskedAgain(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, problemDocument("unavailable", 503, "the index is being read")) // to a test's own client
			return
		}
		_, _ = io.WriteString(w, `{"executions":[],"order":"newest first"}`)
	}))
	defer server.Close()
	if got := taskctl(t, process.Environment{"ONEEFFECT_TASKCTL_ORCHESTRATOR_URL=" + server.URL}, "list"); got.code != exitOK || asked.Load() != 2 {
		t.Errorf("asked %d times; %+v", asked.Load(), got)
	}
}

// Nobody knows whether a request came through whose answer is lost: it can be sent again
// under the key that was made up for it.
func TestASubmissionWithoutAnAnswerSaysItsKey(t *testing.T) {
	var asked atomic.Pointer[http.Request]
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Store(r)
		panic(http.ErrAbortHandler) // the answer is lost
	}))
	defer server.Close()
	got := taskctl(t, process.Environment{"ONEEFFECT_TASKCTL_ORCHESTRATOR_URL=" + server.URL}, "submit", "customer.create", "{}")
	key := asked.Load().Header.Get("Idempotency-Key")
	if got.code != exitUnreachable || key == "" || !strings.Contains(got.errOut, "next: submit it again with --idempotency-key "+key+", ") {
		t.Errorf("sent under %q; exit %d\n%s", key, got.code, got.errOut)
	}
}

func TestWhatCannotBeMeantIsAMistakeBeforeAnythingIsAsked(t *testing.T) {
	env, asked := answering(t, http.StatusInternalServerError, "text/plain", "")
	for _, args := range [][]string{
		{"submit"}, {"submit", "a.b", "{}", "more"}, {"submit", "a.b", "--tasks=[]"}, {"submit", "a.b", "{"}, {"submit", "a.b", "@nowhere.json"},
		{"get"}, {"get", "no/id"}, {"timeline", "no id"}, {"watch"}, {"watch", "a", "--for=0s"}, {"list", "--limit=0"}, {"list", "more"},
		{"cancel", "a", "b"}, {"resolve", "a"}, {"resolve", "a", "--reason=r"}, {"claims"}, {"claims", "get", "no id"},
		{"dead-letters"}, {"dead-letters", "list", "--verdict=good"}, {"dead-letters", "list", "--limit=-1"},
		{"dead-letters", "replay", "a"}, {"dead-letters", "replay", "--reason=r"}, {"dead-letters", "replay", "a", "--reason="},
		{"dead-letters", "replay", "a", "--all", "--reason=r"}, {"dead-letters", "replay", "--all", "--assert-not-applied", "--reason=r"},
		{"dead-letters", "replay", "a", "--through=3", "--reason=r"}, {"dead-letters", "replay", "no id", "--reason=r"},
	} {
		if got := taskctl(t, env, args...); got.code != exitUsage || !strings.Contains(got.errOut, "\nnext: ") || got.out != "" {
			t.Errorf("%v: exit %d, %q\n%s", args, got.code, got.out, got.errOut)
		}
	}
	if r := asked.Load(); r != nil {
		t.Errorf("the API was asked for %s", r.URL)
	}
}

// In Azure the token is the identity's, for the audience of the API, and goes nowhere
// where it could be read on the way.
func TestTheAPIIsGivenATokenForItsAudience(t *testing.T) {
	const audience = "api://oneeffect"
	tokens := identity.New(time.Now)
	endpoint := httptest.NewServer(tokens)
	defer endpoint.Close()
	t.Setenv("IDENTITY_ENDPOINT", endpoint.URL+"/msi")
	t.Setenv("IDENTITY_HEADER", "test")
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
	env, asked := answering(t, http.StatusOK, "application/json", `{"executions":[],"order":"newest first"}`)
	if got := taskctl(t, env, "list", "--orchestrator-audience="+audience); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	token, bearer := strings.CutPrefix(asked.Load().Header.Get("Authorization"), "Bearer ")
	if _, err := tokens.Check(token, audience); err != nil || !bearer {
		t.Errorf("the token: %v", err)
	}
	if got := taskctl(t, append(env, tokenVariable+"=as-it-is"), "list"); got.code != exitOK || asked.Load().Header.Get("Authorization") != "Bearer as-it-is" {
		t.Errorf("a token as it is: %+v", got)
	}
	if got := taskctl(t, env, "list"); got.code != exitOK || asked.Load().Header.Get("Authorization") != "" {
		t.Errorf("a token for an open API: %+v", got)
	}
	asked.Store(nil)
	got := taskctl(t, process.Environment{tokenVariable + "=secret"}, "list", "--orchestrator-url=http://api.example")
	if got.code != exitUsage || !strings.Contains(got.errOut, "could be read on the way") || strings.Contains(got.errOut, "secret") {
		t.Errorf("over http: %+v", got)
	}
}

func TestColumnsStandUnderEachOtherWithColoursAndWithout(t *testing.T) {
	got := aligned([][]string{{"A", "STATE", "B"}, {"1", "\x1b[32mCOMPLETED\x1b[0m", "x"}, {"22", "FAILED", ""}})
	want := "A   STATE      B\n1   \x1b[32mCOMPLETED\x1b[0m  x\n22  FAILED\n"
	if got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}
