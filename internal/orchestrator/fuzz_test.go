package orchestrator_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
	"oneeffect/internal/orchestrator"
)

// fuzzed is a request. In it, the id running or failed stands for an execution that is
// so when the request is sent, and "etag" in a header for its ETag.
type fuzzed struct{ method, target, header, value, body string }

// seeds are where FuzzAPI begins, with the status that each is answered with: all
// resources and methods, what is done and what is refused.
var seeds = map[fuzzed]int{
	{"POST", "/v1/executions", "Idempotency-Key", "k", `{"type":"t","payload":{}}`}:                                  201,
	{"POST", "/v1/executions", "X", "y", `{"tasks":[{"type":"t"},{"type":"u","payload":[1,"\u00e9"]}]}`}:             201,
	{"POST", "/v1/executions", "X", "y", `{"executionId":"failed","type":"letter.print","payload":{"to":"Ada"}}`}:    201,
	{"POST", "/v1/executions", "Content-Type", "text/plain", `{`}:                                                    415,
	{"POST", "/v1/executions", "Content-Type", "application/json;charset=UTF-8", `{"type":"a b"}`}:                   422,
	{"GET", "/v1/executions", "X", "y", ""}:                                                                          200,
	{"GET", "/v1/executions?status=FAILED&type=letter.print&q=e&limit=2", "Accept", "*/*", ""}:                       200,
	{"GET", "/v1/executions?limit=201", "X", "y", ""}:                                                                400,
	{"GET", "/v1/executions/running", "X", "y", ""}:                                                                  200,
	{"HEAD", "/v1/executions/failed", "If-None-Match", `"a", W/"etag"`, ""}:                                          304,
	{"GET", "/v1/executions/82f3", "If-None-Match", `"a","b"`, ""}:                                                   404,
	{"GET", "/v1/executions/failed/timeline", "Accept", "text/html;q=0, */*;q=0.1", ""}:                              200,
	{"POST", "/v1/executions/running/cancel", "If-Match", `"a", "etag"`, `{"reason":"x"}`}:                           200,
	{"POST", "/v1/executions/running/cancel", "If-Match", `W/"etag"`, ""}:                                            412,
	{"POST", "/v1/executions/82f3/cancel", "If-Match", `W/"a", *`, `{"reason":"x"}`}:                                 400,
	{"POST", "/v1/executions/failed/replay", "If-Match", `"etag"`, `{"reason":"x","assertNothingApplied":true}`}:     200,
	{"POST", "/v1/executions/running/replay", "If-Match", "*", `{"reason":"x"}`}:                                     409,
	{"POST", "/v1/executions/82f3/replay", "Content-Encoding", "gzip", `{"reason":"x","assertNothingApplied":true}`}: 415,
	{"POST", "/v1/executions/failed/resolve", "If-Match", "*", `{"reason":"x","resultRef":"y"}`}:                     200,
	{"POST", "/v1/executions/running/resolve", "If-Match", `"etag"`, `{"reason":"x","resultRef":"y"}`}:               409,
	{"GET", "/v1/executions/a%2f..%2Fb", "Accept", "application/xml", ""}:                                            406,
	{"GET", "//v1//executions/../%00", "Origin", "http://evil.example", ""}:                                          404,
	{"GET", "/v1/dead-letters?from=1&limit=1", "X", "y", ""}:                                                         200,
	{"GET", "/v1/dead-letters?from=1&limit=x", "X", "y", ""}:                                                         400,
	{"GET", "/v1/dead-letters?from=%zz;a", "X", "y", ""}:                                                             400,
	{"DELETE", "/v1/executions/running", "X", "y", ""}:                                                               405,
	{"OPTIONS", "*", "X", "y", ""}:                                                                                   404,
	{"CONNECT", "/livez", "X", "y", ""}:                                                                              405,
	{"GET", "/openapi.json", "X", "y", ""}:                                                                           200,
	{"GET", "/readyz", "X", "y", ""}:                                                                                 204,
	{"GET", "/", "X", "y", ""}:                                                                                       200,
}

// FuzzAPI: no request, however bad, is answered with a panic or blamed on us, every
// error is a problem document, and every answer is one that openapi.json describes.
func FuzzAPI(f *testing.F) {
	b := &bench{hub: control.New()}
	server := emulator.New(b.hub, emulator.Options{})
	db, err := cosmos.Open(cosmos.Options{Endpoint: "http://fuzz.example", Key: emulator.EmulatorKey, ApplicationID: "orchestrator", Transport: server.Transport()})
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	f.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			f.Error(err)
		}
		db.Close()
		b.hub.Close()
		if err := server.Close(); err != nil {
			f.Error(err)
		}
	})
	if err := db.Setup(f.Context()); err != nil {
		f.Fatal(err)
	}
	listed := make(chan struct{})
	once := sync.OnceFunc(func() { close(listed) })
	b.Orchestrator = &orchestrator.Orchestrator{
		Store: db.Executions(), Views: db.Executions(), Send: func(context.Context, message.Message) error { return nil }, DeadLetters: &b.dead,
		Claims: &claim.Desk{
			Store: db.Claims(), Process: "orchestrator/1", Timeout: 10 * time.Second,
			Terms: claim.Terms{Lease: lease, ChallengerMargin: 5 * time.Second, Keep: time.Hour},
		},
		SendTimeout: time.Second, MaxMessage: 8 << 10, FollowPeriod: time.Hour, FollowWindow: time.Hour,
		ReplaySettle: -time.Hour, // no replay has to wait
		Changed:      func([]execution.Summary) { once() },
		Log:          slog.New(slog.DiscardHandler),
	}
	b.dead.all = []message.Dead{{Sequence: 7, Body: []byte(`{}`)}}
	go func() { ended <- b.Follow(ctx) }()
	<-listed
	for s := range seeds {
		f.Add(s.method, s.target, s.header, s.value, []byte(s.body))
	}
	f.Fuzz(func(t *testing.T, method, target, header, value string, body []byte) {
		b.t = t
		b.fuzz(fuzzed{method, target, header, value, string(body)})
	})
}

// fuzz sends a request, if the server would have let it come so far.
func (b *bench) fuzz(f fuzzed) {
	asked := f
	for _, state := range []string{"running", "failed"} {
		if strings.Contains(f.target, "/"+state) {
			id, etag := b.standing(state)
			f.target, f.value = strings.Replace(f.target, "/"+state, "/"+id, 1), strings.ReplaceAll(f.value, `"etag"`, etag)
		}
	}
	at, err := url.ParseRequestURI(f.target)
	if err != nil || f.method == "" || strings.ContainsAny(f.method, " \r\n\t") {
		return
	}
	r := httptest.NewRequestWithContext(b.t.Context(), http.MethodGet, "/", strings.NewReader(f.body))
	r.Method, r.URL, r.RequestURI = f.method, at, f.target
	r.Header[http.CanonicalHeaderKey(f.header)] = []string{f.value}
	w := httptest.NewRecorder()
	b.API().ServeHTTP(w, r)
	said := fmt.Sprintf("%s %s with %s %q and %q: %d %s", f.method, f.target, f.header, f.value, f.body, w.Code, w.Body)
	if w.Code >= 500 {
		b.t.Fatal(said)
	}
	if want, is := seeds[asked]; is && w.Code != want {
		b.t.Errorf("%s, want %d", said, want)
	}
	if w.Code >= 400 {
		problemOf(b.t, w)
	}
	if f.method != strings.ToUpper(f.method) || at.EscapedPath() != path.Clean(at.Path) {
		return // no resource or method of the document, though it may look like one
	}
	if f.method != http.MethodPost {
		f.body = ""
	}
	describes(b.t, r, f.body, w)
	if b.t.Failed() {
		b.t.Log(said)
	}
}

// standing is an execution that nobody knows yet, as it stands in a state.
func (b *bench) standing(state string) (id, etag string) {
	b.t.Helper()
	id = rand.Text()
	if w := b.ask(http.MethodPost, "/v1/executions", strings.Replace(created82f3, "82f3", id, 1)); w.Code != http.StatusCreated {
		b.t.Fatalf("%d: %s", w.Code, w.Body)
	}
	if state == "failed" {
		b.failedOf(id, message.DownstreamRejected)
	}
	return id, string(b.load(b.t, id).ETag)
}
