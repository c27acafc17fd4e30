package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"oneeffect/emulator/control"
	account "oneeffect/emulator/cosmos"
	"oneeffect/internal/cosmos"
)

// A proxy that takes the Date out of every answer: no lease would ever be seen to
// end, so the worker does not start.
func TestAWorkerDoesNotStartWithoutTheStoresClock(t *testing.T) { // C6
	hub := control.New()
	store := account.New(hub, account.Options{})
	server := httptest.NewServer(store)
	t.Cleanup(func() {
		server.Close()
		hub.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	direct, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(direct); r.Out.Host = r.In.Host },
		ModifyResponse: func(r *http.Response) error { r.Header.Del("Date"); return nil },
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil // or the server would tell its own
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	db, err := cosmos.Open(cosmos.Options{Endpoint: server.URL, Key: account.EmulatorKey, ApplicationID: "setup", Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"SERVICEBUS_CONNECTION_STRING=Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=k;SharedAccessKey=a;UseDevelopmentEmulator=true",
		"COSMOS_KEY=" + account.EmulatorKey, "CRM_URL=http://127.0.0.1:1", "PRINT_URL=http://127.0.0.1:1",
	}
	err = run(t.Context(), []string{"-id=worker-1", "-handlers=../../handlers.yaml", "-cosmos-endpoint=" + front.URL}, env, io.Discard, t.Output())
	if !errors.Is(err, cosmos.ErrNoClock) {
		t.Errorf("run ended with %v, want ErrNoClock", err)
	}
}
