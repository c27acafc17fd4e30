package inprocess

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestALongAnswerIsStreamedWithinBounds(t *testing.T) { // T3
	const size = 5*streamSize + 123
	written := 0
	bubble(t, func(w http.ResponseWriter, _ *http.Request) {
		for written < size {
			n, err := w.Write(bytes.Repeat([]byte{byte(written)}, min(1000, size-written)))
			written += n
			if err != nil {
				t.Error(err)
				return
			}
		}
	}, func(t *testing.T, tr *RoundTripper) {
		resp, err := tr.RoundTrip(request(t.Context(), t, "GET", "http://x/", ""))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if written > streamSize+heldBack+1000 {
			t.Errorf("%d bytes written with nobody reading, more than the bound", written)
		}
		if resp.ContentLength != -1 {
			t.Errorf("a length of %d, want it unknown", resp.ContentLength)
		}
		if got := len(readAll(t, resp)); got != size {
			t.Errorf("%d bytes read, want %d", got, size)
		}
	})
}

func TestAReaderWhoHangsUpFreesAHandlerThatIsWriting(t *testing.T) { // T1, T3
	for _, test := range []struct {
		name   string
		hangUp func(resp *http.Response, cancel context.CancelFunc)
		want   error
	}{
		{"by closing the body", func(resp *http.Response, _ context.CancelFunc) { _ = resp.Body.Close() }, http.ErrBodyReadAfterClose},
		{"by ending its context", func(_ *http.Response, cancel context.CancelFunc) { cancel(); synctest.Wait() }, context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(w http.ResponseWriter, r *http.Request) {
				for {
					if _, err := w.Write(make([]byte, 1000)); err != nil {
						<-r.Context().Done()
						return
					}
				}
			}, func(t *testing.T, tr *RoundTripper) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				resp, err := tr.RoundTrip(request(ctx, t, "GET", "http://x/", ""))
				if err != nil {
					t.Fatal(err)
				}
				test.hangUp(resp, cancel)
				tr.Wait()
				if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, test.want) {
					t.Errorf("reading on: %v, want %v", err, test.want)
				}
				_ = resp.Body.Close()
			})
		})
	}
}

func TestBothBodiesMayFlowAtTheSameTime(t *testing.T) { // T3
	bubble(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		buffer := make([]byte, 16)
		for {
			n, err := r.Body.Read(buffer)
			_, _ = w.Write(bytes.ToUpper(buffer[:n]))
			w.(http.Flusher).Flush()
			if err != nil {
				return
			}
		}
	}, func(t *testing.T, tr *RoundTripper) {
		reader, writer := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://x/", reader)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := io.WriteString(writer, "ping"); err != nil {
				t.Fatal(err)
			}
			answer := make([]byte, 4)
			if _, err := io.ReadFull(resp.Body, answer); err != nil || string(answer) != "PING" {
				t.Fatalf("answered %q (%v)", answer, err)
			}
		}
		_ = writer.Close()
		if rest := readAll(t, resp); rest != "" {
			t.Errorf("and then %q", rest)
		}
	})
}

// watched is a request body that knows when it is read after its end.
type watched struct {
	io.Reader
	closed chan struct{}
	t      *testing.T
}

func (b *watched) Read(p []byte) (int, error) {
	select {
	case <-b.closed:
		b.t.Error("read after it was closed")
	default:
	}
	return b.Reader.Read(p)
}

func (b *watched) Close() error {
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
	return nil
}

func TestARequestBodyIsLeftAloneOnceTheCallIsOver(t *testing.T) { // T4
	for _, test := range []struct {
		name   string
		url    string
		closed bool // the transport is closed before the call
		wait   bool // the call ends by its context
		hangUp bool // the answer's body is closed before the handler ends
	}{
		{"answered without reading it", "http://x/", false, false, false},
		{"answered, and hung up on", "http://x/?answer", false, false, true},
		{"given up by its caller", "http://x/?wait", false, true, false},
		{"refused", "http://x/", true, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				goOn := make(chan struct{})
				tr := Transport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch r.URL.RawQuery {
					case "":
						return
					case "answer":
						w.(http.Flusher).Flush()
					}
					<-goOn
					if _, err := r.Body.Read(make([]byte, 1)); err == nil {
						t.Error("the handler could still read")
					}
				}))
				if test.closed {
					tr.Close()
				}
				body := &watched{Reader: strings.NewReader("hello"), closed: make(chan struct{}), t: t}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, "POST", test.url, body)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := tr.RoundTrip(r)
				if (err != nil) != (test.closed || test.wait) {
					t.Errorf("ended with %v", err)
				}
				if test.hangUp {
					_ = resp.Body.Close()
				}
				select {
				case <-body.closed:
				default:
					t.Error("the body is still open")
				}
				close(goOn)
				tr.Close()
				if resp != nil {
					_ = resp.Body.Close()
				}
			})
		})
	}
}
