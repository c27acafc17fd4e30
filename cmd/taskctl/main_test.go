package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"oneeffect/cmd/internal/process"
	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
	"oneeffect/internal/message"
)

// outcome is what a run of the program left behind.
type outcome struct {
	code        int
	out, errOut string
}

func taskctl(t *testing.T, env process.Environment, args ...string) outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	code := run(t.Context(), args, env, &out, &errOut)
	return outcome{code, out.String(), errOut.String()}
}

// nowhere is an address of this machine at which nobody listens.
func nowhere(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestEveryMistakeIsSaidWithWhatToDoNext(t *testing.T) {
	gone := nowhere(t)
	for _, c := range []struct {
		args []string
		env  process.Environment
		code int
		want string
	}{
		{args: []string{"nonsense"}, code: exitUsage, want: `unknown command "nonsense"`},
		{args: []string{"vershon"}, code: exitUsage, want: "version"}, // a suggestion
		{args: []string{"version", "more"}, code: exitUsage, want: `unknown command "more"`},
		{args: []string{"timeline"}, code: exitUsage, want: "next: give taskctl timeline ID [flags]; taskctl timeline --help says more"},
		{args: []string{"get", "82f3", "82f4"}, code: exitUsage, want: "next: give taskctl get ID [flags]; taskctl get --help says more"},
		{args: []string{"dead-letters", "replay", "82f3"}, code: exitUsage, want: "next: give taskctl dead-letters replay [ID...] [flags]; taskctl dead-letters replay --help says more"},
		{args: []string{"version", "--nonsense"}, code: exitUsage, want: "unknown flag: --nonsense"},
		{args: []string{"version", "--output=xml"}, code: exitUsage, want: "give table or json"},
		{args: []string{"version", "--orchestrator-url=localhost:8080"}, code: exitUsage, want: "give http://host:port"},
		{args: []string{"version"}, env: process.Environment{"ONEEFFECT_TASKCTL_NONSENSE=1"}, code: exitUsage, want: "ONEEFFECT_TASKCTL_NONSENSE is no setting"},
		{args: []string{"setup"}, env: process.Environment{"ONEEFFECT_TASKCTL_SERVICEBUS_NAMESPACE=n.servicebus.windows.net"}, code: exitUsage, want: "no Cosmos DB"},
		{args: []string{"setup", "--cosmos-endpoint=https://a.example", "--id=much-too-long-to-be-an-id-"}, code: exitUsage, want: "-id"},
		{args: []string{"setup", "--store-timeout=300ms", "--cosmos-endpoint=http://" + gone}, code: exitUnreachable, want: "no answer from http://" + gone},
	} {
		got := taskctl(t, c.env, c.args...)
		if got.code != c.code || !strings.Contains(got.errOut, c.want) || !strings.Contains(got.errOut, "\nnext: ") {
			t.Errorf("%v: exit %d, want %d; it says\n%s\nwant %q and what to do next", c.args, got.code, c.code, got.errOut, c.want)
		}
		if strings.Contains(got.errOut, "\x1b") || got.out != "" {
			t.Errorf("%v: colours %q, or output %q", c.args, got.errOut, got.out)
		}
	}
}

func TestWhatAnEndpointSaysBecomesAnExitCode(t *testing.T) {
	for err, want := range map[error]int{
		message.ErrTransient: exitUnreachable, message.ErrUnknown: exitUnreachable,
		message.ErrRefused: exitFailed, message.ErrNotFound: exitFailed, errors.New("else"): exitFailed,
	} {
		met, ok := errors.AsType[*problem](met("there", fmt.Errorf("read: %w", err)))
		if !ok || met.code != want || met.next == "" {
			t.Errorf("%v: %+v, want code %d and what to do next", err, met, want)
		}
	}
}

func TestVersionIsReadByPeopleAndByPrograms(t *testing.T) {
	if got := taskctl(t, nil, "version"); got.code != exitOK || !strings.Contains(got.out, "revision") {
		t.Errorf("as a table: %+v", got)
	}
	if got := taskctl(t, process.Environment{}, "version", "-o", "json"); got.code != exitOK || !strings.Contains(got.out, `"go": "go1.`) {
		t.Errorf("as JSON: %+v", got)
	}
}

func TestShellsAreToldHowToComplete(t *testing.T) {
	if got := taskctl(t, nil, "completion", "bash"); got.code != exitOK || !strings.Contains(got.out, "__start_taskctl") {
		t.Errorf("bash: exit %d, %s", got.code, got.errOut)
	}
	if got := taskctl(t, nil, "__complete", "version", "--output", ""); !strings.Contains(got.out, "table\njson") {
		t.Errorf("values of --output: %q", got.out)
	}
}

// account is a Cosmos DB account on loopback.
func account(t *testing.T) (url string) {
	t.Helper()
	hub := control.New()
	store := cosmos.New(hub, cosmos.Options{})
	server := httptest.NewServer(store)
	t.Cleanup(func() {
		server.Close()
		hub.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.URL
}

func TestSetupCreatesOnceAndThenCompares(t *testing.T) {
	at := account(t)
	for range 2 {
		got := taskctl(t, process.Environment{"ONEEFFECT_TASKCTL_COSMOS_ENDPOINT=" + at}, "setup")
		if got.code != exitOK || strings.Count(got.out, "as it must be") != 4 || !strings.Contains(got.out, "inventory") {
			t.Fatalf("exit %d\n%s%s", got.code, got.out, got.errOut)
		}
	}
	if got := taskctl(t, process.Environment{"COSMOS_KEY=a2V5"}, "setup", "--cosmos-endpoint="+at); got.code != exitFailed || !strings.Contains(got.errOut, "correct the account's key") {
		t.Errorf("with another key: exit %d\n%s", got.code, got.errOut)
	}
}
