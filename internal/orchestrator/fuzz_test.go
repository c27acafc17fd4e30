package orchestrator_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/orchestrator"
)

// FuzzAPI: no request, however bad, is answered with a panic or blamed on us, and
// every error is a problem document.
func FuzzAPI(f *testing.F) {
	hub := control.New()
	server := emulator.New(hub, emulator.Options{})
	db, err := cosmos.Open(cosmos.Options{Endpoint: "http://fuzz.example", Key: emulator.EmulatorKey, ApplicationID: "orchestrator", Transport: server.Transport()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		db.Close()
		hub.Close()
		if err := server.Close(); err != nil {
			f.Error(err)
		}
	})
	if err := db.Setup(f.Context()); err != nil {
		f.Fatal(err)
	}
	b := &bench{}
	o := &orchestrator.Orchestrator{
		Store: db.Executions(), Views: db.Executions(), Send: b.send, DeadLetters: &b.dead,
		Claims: &claim.Desk{
			Store: db.Claims(), Process: "orchestrator/1", Timeout: 10 * time.Second,
			Terms: claim.Terms{Lease: lease, ChallengerMargin: 5 * time.Second, Keep: time.Hour},
		},
		SendTimeout: time.Second, MaxMessage: 8 << 10, ReplaySettle: time.Minute, FollowPeriod: time.Hour, FollowWindow: time.Hour,
		Log: slog.New(slog.DiscardHandler),
	}
	api := o.API()
	for _, seed := range [][5]string{
		{"POST", "/v1/executions", "Idempotency-Key", "k", `{"type":"t","payload":{}}`},
		{"POST", "/v1/executions", "Content-Type", "text/plain", `{`},
		{"POST", "/v1/executions/82f3/cancel", "If-Match", `W/"a", *`, `{"reason":"x"}`},
		{"POST", "/v1/executions/82f3/replay", "Content-Encoding", "gzip", `{"reason":"x","assertNothingApplied":true}`},
		{"POST", "/v1/executions/82f3/resolve", "If-Match", "*", `{"reason":"x","resultRef":"y"}`},
		{"GET", "/v1/executions/82f3", "If-None-Match", `"a","b"`, ""},
		{"HEAD", "/v1/executions/82f3/timeline", "Accept", "text/html;q=0, */*;q=0.1", ""},
		{"GET", "/v1/executions/a%2f..%2Fb", "Accept", "application/xml", ""},
		{"GET", "//v1//executions/../%00", "Origin", "http://evil.example", ""},
		{"GET", "/v1/dead-letters?from=1&limit=x", "X", "y", ""},
		{"GET", "/v1/dead-letters?from=%zz;a", "X", "y", ""},
		{"OPTIONS", "*", "X", "y", ""},
		{"CONNECT", "/livez", "X", "y", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], []byte(seed[4]))
	}
	f.Fuzz(func(t *testing.T, method, target, header, value string, body []byte) {
		at, err := url.ParseRequestURI(target)
		if err != nil || method == "" || strings.ContainsAny(method, " \r\n\t") {
			return // the server itself refuses it
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", strings.NewReader(string(body)))
		r.Method, r.URL, r.RequestURI = method, at, target
		r.Header[http.CanonicalHeaderKey(header)] = []string{value}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		unread := at.Path == "/v1/executions" && w.Code == http.StatusServiceUnavailable && (method == http.MethodGet || method == http.MethodHead) // nobody follows here
		if w.Code >= 500 && !unread {
			t.Fatalf("%s %s with %s %q: %d %s", method, target, header, value, w.Code, w.Body)
		}
		if w.Code >= 400 {
			problemOf(t, w)
		}
	})
}
