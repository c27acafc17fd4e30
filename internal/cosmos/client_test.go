package cosmos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
)

func TestOpenSaysEveryMistakeAtOnce(t *testing.T) {
	_, err := cosmos.Open(cosmos.Options{
		Endpoint: "account.example/path", Key: "%", Credential: token{}, Timeout: -1,
		ApplicationID: "a name that is longer than allowed",
	})
	if err == nil {
		t.Fatal("no mistake was found")
	}
	for _, want := range []string{"endpoint", "base64", "either a key or a credential", "application id", "timeout"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q says nothing of the %s", err, want)
		}
	}
}

func TestOpenDoesNoIO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAccount(t)
		if operations, discoveries := w.wire.requests(); len(operations)+len(discoveries) != 0 {
			t.Errorf("%d requests were sent", len(operations)+len(discoveries))
		}
	})
}

func TestAProcessMayStartBeforeItsDatabase(t *testing.T) { // K7
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, c := range map[string]struct {
		down func(*http.Request) (*http.Response, error)
		want error
	}{
		"refuses connections": {func(*http.Request) (*http.Response, error) { return nil, refused }, message.ErrTransient},
		"is silent":           {silent, message.ErrTransient},
		"is not ready": {func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Status: "503 Service Unavailable", Body: http.NoBody, Header: http.Header{}, Request: r}, nil
		}, message.ErrTransient},
		"is somebody else": {func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 404, Status: "404 Not Found", Body: http.NoBody, Header: http.Header{}, Request: r}, nil
		}, message.ErrRefused},
		"answers with no account": {func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Status: "200 OK", Body: io.NopCloser(strings.NewReader("<html>")), Header: http.Header{}, Request: r}, nil
		}, message.ErrTransient},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				db := w.open(nil)
				defer db.Close()
				w.wire.cut(c.down)
				w.wire.forget()
				asked := time.Now()
				_, err := db.Claims().Record("82f3").Create(t.Context(), sample("82f3"))
				wantError(t, err, c.want)
				if took := time.Since(asked); took > 10*time.Second {
					t.Errorf("the first operation took %v, want at most its timeout", took)
				}
				w.wire.wantOperations(t, 0)
				w.wire.cut(nil)
				if _, err := db.Claims().Record("82f3").Create(t.Context(), sample("82f3")); err != nil {
					t.Errorf("the database is there now, and still: %v", err)
				}
			})
		})
	}
}

func TestOperationsThatWaitForOneDiscoveryShareItsEnd(t *testing.T) { // K7
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var logged strings.Builder
		db := w.open(func(o *cosmos.Options) { o.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
		defer db.Close()
		w.wire.cut(silent)
		w.wire.forget()
		var waiting sync.WaitGroup
		for i := range 8 {
			waiting.Go(func() {
				if _, err := db.Claims().Record(fmt.Sprint(i)).Read(t.Context()); !errors.Is(err, message.ErrTransient) {
					t.Errorf("got %v, want %v", err, message.ErrTransient)
				}
			})
		}
		waiting.Wait()
		if _, discoveries := w.wire.requests(); len(discoveries) != 1 {
			t.Errorf("%d discoveries were made, want one for all", len(discoveries))
		}
		if n := strings.Count(logged.String(), "account not discovered"); n != 1 {
			t.Errorf("it was logged %d times:\n%s", n, logged.String())
		}
	})
}

func TestARefreshInTheBackgroundEndsWithTheDatabase(t *testing.T) { // K3
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		db := w.open(nil)
		record := db.Claims().Record("82f3")
		if _, err := record.Create(t.Context(), sample("82f3")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Minute) // the SDK refreshes the account document beside the next request
		w.wire.cut(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/" || r.URL.Path == "" {
				return silent(r)
			}
			return nil, nil
		})
		if _, err := record.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wire.forget()
		asked := time.Now()
		db.Close()
		if took := time.Since(asked); took != 0 {
			t.Errorf("closing took %v, want it to end the refresh", took)
		}
		_, err := record.Read(t.Context())
		wantError(t, err, message.ErrRefused)
	})
}

func TestTheMemoryOfSessionsIsBounded(t *testing.T) { // K5
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create("e1")
		session := func() string {
			w.wire.forget()
			w.load("e1")
			return w.wire.wantOperations(t, 1)[0].Header.Get("X-Ms-Session-Token")
		}
		if session() == "" {
			t.Error("a session was forgotten at once")
		}
		absent := answer(404, "", "")
		w.wire.cut(func(r *http.Request) (*http.Response, error) {
			response, err := absent(r)
			response.Header.Set("X-Ms-Session-Token", "0:-1#7")
			return response, err
		})
		for i := range 1024 {
			_, err := w.db.Executions().Load(t.Context(), fmt.Sprintf("other-%04d", i))
			wantError(t, err, message.ErrNotFound)
		}
		w.wire.cut(nil)
		if token := session(); token != "" {
			t.Errorf("the session %q is remembered behind 1024 others", token)
		}
	})
}

func TestAWrongKeyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		db := w.open(func(o *cosmos.Options) { o.Key = "d3Jvbmc=" })
		defer db.Close()
		_, err := db.Claims().Record("82f3").Read(t.Context())
		wantError(t, err, message.ErrRefused)
	})
}

func TestAnIsolatedProcessIsToldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hub.Isolate("worker-1")
		_, err := w.db.Claims().Record("82f3").Create(t.Context(), sample("82f3"))
		wantError(t, err, message.ErrUnknown)
		other := w.open(func(o *cosmos.Options) { o.ApplicationID = "worker-2" })
		defer other.Close()
		_, err = other.Claims().Record("82f3").Read(t.Context())
		wantError(t, err, message.ErrNotFound)
	})
}

func TestOverARealConnectionALostAnswerIsUnknownToo(t *testing.T) { // C9, K1, K2
	hub := control.New()
	defer hub.Close()
	account := emulator.New(hub, emulator.Options{})
	var creates atomic.Int32
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/colls/claims/docs") {
			creates.Add(1)
		}
		account.ServeHTTP(w, r)
	}))
	defer listener.Close()
	db, err := cosmos.Open(cosmos.Options{Endpoint: listener.URL, Key: emulator.EmulatorKey, ApplicationID: "worker-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := hub.Arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "create", Entity: "claims"}, When: "after", Do: "drop", Times: 1}); err != nil {
		t.Fatal(err)
	}
	record := db.Claims().Record("82f3")
	_, err = record.Create(t.Context(), sample("82f3"))
	wantError(t, err, message.ErrUnknown)
	if n := creates.Load(); n != 1 {
		t.Errorf("the create was sent %d times, want once", n)
	}
	stored, err := record.Read(t.Context())
	if err != nil || stored.Claim.W != sample("82f3").W {
		t.Errorf("the write does not stand: %v", err)
	}
}

// conn counts what is written to it.
type conn struct {
	net.Conn
	writes *atomic.Int32
}

func (c conn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// ReadFrom is how net/http writes a body that it has not put beside the head.
func (c conn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, r)
}

func TestARequestIsSentInOneWrite(t *testing.T) {
	w := newWorld(t)
	listener := httptest.NewServer(w.server)
	defer listener.Close()
	var writes atomic.Int32
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return conn{c, &writes}, err
	}}
	defer transport.CloseIdleConnections()
	db := w.open(func(o *cosmos.Options) { o.Endpoint, o.Transport = listener.URL, &http.Client{Transport: transport} })
	defer db.Close()
	record := db.Claims().Record("82f3")
	c := sample("82f3")
	etag, err := record.Create(t.Context(), c) // and the first discovery
	if err != nil {
		t.Fatal(err)
	}
	for length, want := range map[int]int32{0: 1, 2 << 10: 1, 32 << 10: 0, 200 << 10: 0} {
		writes.Store(0)
		c.Result = &claim.Result{Value: jsontext.Value(`"` + strings.Repeat("a", length) + `"`)}
		if etag, err = record.Replace(t.Context(), c, etag); err != nil {
			t.Fatal(err)
		}
		if got := writes.Load(); want > 0 && got != want {
			t.Errorf("a claim with a result of %d bytes was sent in %d writes, want %d", length, got, want)
		}
		stands, err := record.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := len(stands.Claim.Result.Value); got != length+2 {
			t.Errorf("a result of %d bytes stands as one of %d", length+2, got)
		}
	}
}
