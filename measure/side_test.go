package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const greet = "greet"

// The test's program is also the server that the test starts.
func TestMain(m *testing.M) {
	if !slices.Equal(os.Args[1:], []string{greet}) {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := Serve(ctx, "control", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/greeting" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "hello") // the test says what is missing
	}), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestThisProgramIsAlsoAServer(t *testing.T) {
	s, err := LaunchSelf(t.Context(), greet)
	if err != nil {
		t.Fatal(err)
	}
	got, err1 := s.Ask(t.Context(), http.MethodGet, "/greeting", "")
	_, err2 := s.Ask(t.Context(), http.MethodGet, "/nothing", "")
	memory, err3 := s.Memory("VmRSS")
	if err := errors.Join(err1, err3); err != nil || string(got) != "hello" || memory <= 0 {
		t.Errorf("it says %q and takes %v MB: %v", got, memory, err)
	}
	if err2 == nil || !strings.Contains(err2.Error(), "404") {
		t.Errorf("a refusal is taken for an answer: %v", err2)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "ended before") {
		t.Errorf("its end was not noticed: %v", err)
	}
}

func TestAProgramThatDoesNotBecomeReadyIsNoServer(t *testing.T) {
	if s, err := LaunchSelf(t.Context(), "-no-such-flag"); err == nil || !strings.Contains(err.Error(), "did not become ready") {
		t.Errorf("%+v, %v", s, err)
	}
}
