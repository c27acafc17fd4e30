package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"log/slog"
)

func get(handler http.Handler, path string) int {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder.Code
}

func TestAProbeSaysReadyWhileEverythingAnswersAndTheProcessGoesOn(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	mux := http.NewServeMux()
	var link, store error
	Probes(ctx, mux, (&Settings{}).Logger(io.Discard), func(context.Context) error { return link }, func(context.Context) error { return store })
	want := func(says string, status int) {
		t.Helper()
		if got := get(mux, "/readyz"); got != status {
			t.Errorf("%s: %d, want %d", says, got, status)
		}
		if got := get(mux, "/livez"); got != http.StatusOK {
			t.Errorf("%s: it lives, and says %d", says, got)
		}
	}
	want("all answer", http.StatusOK)
	store = errors.New("down")
	want("a store that does not", http.StatusServiceUnavailable)
	link, store = store, nil
	want("a link that does not stand", http.StatusServiceUnavailable)
	link = nil
	end()
	want("a process that ends", http.StatusServiceUnavailable)
}

// address waits for the log to tell an address.
type address struct{ found chan string }

func (a address) Write(line []byte) (int, error) {
	if _, rest, ok := strings.Cut(string(line), "address=http://"); ok {
		a.found <- strings.TrimSpace(rest)
	}
	return len(line), nil
}

func TestProfilesAreShownToThisMachineAlone(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, wide := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		if err := (&Settings{profile: wide}).Profile(t.Context(), log); err == nil || !strings.Contains(err.Error(), "no loopback address") {
			t.Errorf("-pprof %s: %v", wide, err)
		}
	}
	if err := (&Settings{}).Profile(t.Context(), log); err != nil {
		t.Errorf("not asked for: %v", err)
	}
	ctx, end := context.WithCancel(t.Context())
	at, ended := address{make(chan string, 1)}, make(chan error, 1)
	go func() {
		ended <- (&Settings{profile: "127.0.0.1:0"}).Profile(ctx, slog.New(slog.NewTextHandler(at, nil)))
	}()
	reply, err := http.Get("http://" + <-at.found + "goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(reply.Body)
	reply.Body.Close()
	if !bytes.Contains(body, []byte("goroutine profile: total")) {
		t.Errorf("the profile is %.80q", body)
	}
	http.DefaultClient.CloseIdleConnections()
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestALogIsJSONOrText(t *testing.T) {
	for format, want := range map[logFormat]string{formatJSON: `"msg":"settled"`, formatText: "msg=settled"} {
		var out strings.Builder
		(&Settings{ID: "p", format: format}).Logger(&out).Info("settled")
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s", format, out.String())
		}
	}
	var f logFormat
	if err := f.Set("xml"); err == nil || f != "" {
		t.Errorf("xml: %v, %q", err, f)
	}
}
