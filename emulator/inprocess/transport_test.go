package inprocess

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs a test with a transport to a handler, in a synctest bubble, and
// closes the transport at its end: a goroutine that is left fails the test.
func bubble(t *testing.T, h http.HandlerFunc, f func(t *testing.T, tr *RoundTripper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tr := Transport(h)
		defer tr.Close()
		f(t, tr)
	})
}

func request(ctx context.Context, t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAHandlerSeesARequestAsFromASocket(t *testing.T) {
	var seen *http.Request
	var body string
	bubble(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body = string(text)
	}, func(t *testing.T, tr *RoundTripper) {
		r := request(t.Context(), t, "POST", "http://crm.local:8082/a%2Fb?x=1", "hello")
		r.Header.Set("Idempotency-Key", "82f3")
		resp, err := tr.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = readAll(t, resp)
		if seen.Method != "POST" || seen.RequestURI != "/a%2Fb?x=1" || seen.URL.Path != "/a/b" || seen.URL.EscapedPath() != "/a%2Fb" ||
			seen.URL.Host != "" || seen.Host != "crm.local:8082" || seen.URL.RawQuery != "x=1" {
			t.Errorf("saw %s %s at %s", seen.Method, seen.RequestURI, seen.Host)
		}
		if _, _, err := net.SplitHostPort(seen.RemoteAddr); err != nil {
			t.Errorf("remote address %q: %v", seen.RemoteAddr, err)
		}
		if body != "hello" || seen.ContentLength != 5 {
			t.Errorf("body %q of length %d", body, seen.ContentLength)
		}
		if seen.Header.Get("Idempotency-Key") != "82f3" || seen.UserAgent() != "Go-http-client/1.1" {
			t.Errorf("headers %v", seen.Header)
		}
		tr.Wait()
		if seen.Context().Err() == nil {
			t.Error("the request's context lives on after the handler")
		}
	})
}

func TestAShortAnswerComesWithItsLengthAndDate(t *testing.T) { // T3
	bubble(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"id":"1001"}`)
		case "/html":
			_, _ = io.WriteString(w, "<html>")
		case "/none":
			w.WriteHeader(http.StatusNoContent)
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("a body with 204: %v", err)
			}
		}
	}, func(t *testing.T, tr *RoundTripper) {
		for _, test := range []struct {
			method, path string
			status       int
			kind, body   string
			length       int64
		}{
			{"GET", "/json", 201, "application/json", `{"id":"1001"}`, 13},
			{"HEAD", "/json", 201, "application/json", "", 13},
			{"GET", "/html", 200, "text/html; charset=utf-8", "<html>", 6},
			{"GET", "/none", 204, "", "", 0},
			{"GET", "/empty", 200, "", "", 0},
		} {
			resp, err := tr.RoundTrip(request(t.Context(), t, test.method, "http://x"+test.path, ""))
			if err != nil {
				t.Fatal(err)
			}
			body := readAll(t, resp)
			if resp.StatusCode != test.status || body != test.body || resp.ContentLength != test.length ||
				resp.Header.Get("Content-Type") != test.kind {
				t.Errorf("%s %s: %s %q of length %d, %v", test.method, test.path, resp.Status, body, resp.ContentLength, resp.Header)
			}
			if _, err := http.ParseTime(resp.Header.Get("Date")); err != nil {
				t.Errorf("%s: %v", test.path, err)
			}
		}
	})
}

func TestACallerWhoseContextEndsReturnsAtOnceAndTheHandlerLearnsOfIt(t *testing.T) { // T1
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ended := make(chan time.Duration, 1)
		release := make(chan struct{})
		tr := Transport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			ended <- time.Since(start)
			<-release // as a late hold does
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		resp, err := tr.RoundTrip(request(ctx, t, "GET", "http://x/", ""))
		if !errors.Is(err, context.DeadlineExceeded) || resp != nil {
			t.Errorf("%v, %v, want a deadline exceeded", resp, err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("returned after %v, want 3s", took)
		}
		if took := <-ended; took != 3*time.Second {
			t.Errorf("the handler's context ended after %v, want 3s", took)
		}
		waited := make(chan struct{})
		go func() { tr.Wait(); close(waited) }()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("Wait did not wait for the handler")
		default:
		}
		close(release)
		<-waited
	})
}

func TestTheCauseOfACallersContextIsItsError(t *testing.T) { // T1, as of net/http
	lost := errors.New("the lease is lost")
	bubble(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		func(t *testing.T, tr *RoundTripper) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(lost) })
			if _, err := tr.RoundTrip(request(ctx, t, "GET", "http://x/", "")); !errors.Is(err, lost) {
				t.Errorf("%v, want %v", err, lost)
			}
		})
}

func wantBroken(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, want a broken connection", err)
	}
	if network, ok := errors.AsType[net.Error](err); !ok || network.Timeout() {
		t.Errorf("%v, want a net.Error that is no timeout", err)
	}
}

func TestAnAbortedHandlerIsABrokenConnection(t *testing.T) { // T2
	for _, test := range []struct {
		name    string
		handler func(w http.ResponseWriter)
		begins  bool
	}{
		{"before it has written", func(http.ResponseWriter) {}, false},
		{"after a little that is still held back", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "little") }, false},
		{"after it has flushed", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "little")
			w.(http.Flusher).Flush()
		}, true},
		{"after more than is held back", func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, heldBack+1)) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := 0
			bubble(t, func(w http.ResponseWriter, _ *http.Request) {
				calls++
				test.handler(w)
				panic(http.ErrAbortHandler)
			}, func(t *testing.T, tr *RoundTripper) {
				r := request(t.Context(), t, "POST", "http://x/", "{}")
				r.Header.Set("Idempotency-Key", "82f3") // makes http.Transport retry; this one must not
				resp, err := (&http.Client{Transport: tr}).Do(r)
				if test.begins {
					if err != nil {
						t.Fatal(err)
					}
					_, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
				}
				wantBroken(t, err)
				if calls != 1 {
					t.Errorf("called %d times", calls)
				}
			})
		})
	}
}

func TestAnAnswerShorterThanItPromisedIsABrokenConnection(t *testing.T) { // T2
	bubble(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "12345")
		if _, err := io.WriteString(w, "678901"); !errors.Is(err, http.ErrContentLength) {
			t.Errorf("more than promised: %v", err)
		}
	}, func(t *testing.T, tr *RoundTripper) {
		_, err := tr.RoundTrip(request(t.Context(), t, "GET", "http://x/", ""))
		wantBroken(t, err)
	})
}

func TestCallerAndHandlerShareNoHeaders(t *testing.T) { // T5
	changed := make(chan struct{})
	bubble(t, func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Request", "changed")
		w.Header().Set("X-Answer", "first")
		w.WriteHeader(http.StatusOK)
		w.Header().Set("X-Answer", "second")
		w.WriteHeader(http.StatusTeapot)
		w.(http.Flusher).Flush()
		<-changed
		if later := r.Header.Get("X-Later") + w.Header().Get("X-Later"); later != "" {
			t.Errorf("the caller has changed the handler's headers: %s", later)
		}
	}, func(t *testing.T, tr *RoundTripper) {
		r := request(t.Context(), t, "GET", "http://x/", "")
		r.Header.Set("X-Request", "mine")
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Later", "in the request")
		resp.Header.Set("X-Later", "in the answer")
		close(changed)
		_ = readAll(t, resp)
		if r.Header.Get("X-Request") != "mine" {
			t.Error("the handler has changed the caller's request")
		}
		if resp.Header.Get("X-Answer") != "first" || resp.StatusCode != http.StatusOK || resp.Request != r {
			t.Errorf("%s %v, want what stood at the first WriteHeader", resp.Status, resp.Header)
		}
	})
}

func TestCloseBreaksWhatIsUnderWayAndRefusesTheRest(t *testing.T) {
	bubble(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}, func(t *testing.T, tr *RoundTripper) {
		begun, err := tr.RoundTrip(request(t.Context(), t, "GET", "http://x/begun", ""))
		if err != nil {
			t.Fatal(err)
		}
		waits := make(chan error, 1)
		go func() {
			resp, err := tr.RoundTrip(request(t.Context(), t, "GET", "http://x/", ""))
			if err == nil {
				_ = resp.Body.Close()
			}
			waits <- err
		}()
		synctest.Wait()
		tr.Close()
		wantBroken(t, <-waits)
		_, err = io.ReadAll(begun.Body)
		wantBroken(t, err)
		_ = begun.Body.Close()
		resp, err := tr.RoundTrip(request(t.Context(), t, "GET", "http://x/", ""))
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%v, %v, want ErrClosed", resp, err)
		}
	})
}

func TestHandlersAreBoundedAndFurtherCallsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		tr := Transport(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		answered := make(chan error, handlersAtOnce+1)
		call := func(ctx context.Context) {
			resp, err := tr.RoundTrip(request(ctx, t, "GET", "http://x/", ""))
			if err == nil {
				_ = resp.Body.Close()
			}
			answered <- err
		}
		for range handlersAtOnce {
			go call(t.Context())
		}
		synctest.Wait()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go call(impatient)
		if err := <-answered; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the one too many to have waited", err)
		}
		go call(t.Context())
		close(release)
		for range handlersAtOnce + 1 {
			if err := <-answered; err != nil {
				t.Error(err)
			}
		}
		tr.Close()
	})
}

func TestAHandlerThatEndsItsGoroutineIsABrokenConnection(t *testing.T) { // T2: t.FailNow in a handler, for example
	bubble(t, func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, func(t *testing.T, tr *RoundTripper) {
		_, err := tr.RoundTrip(request(t.Context(), t, "GET", "http://x/", ""))
		wantBroken(t, err)
	})
}
