package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
	"oneeffect/internal/orchestrator"

	"github.com/go-json-experiment/json"
)

// bench is an orchestrator on a real store; what it sends is kept.
type bench struct {
	*orchestrator.Orchestrator
	t    *testing.T
	ctx  context.Context // of the requests; nil: one that says nothing
	hub  *control.Hub
	dead deadLetters

	mu   sync.Mutex // guards the rest against the relay's goroutine
	sent []message.Message
	fail error // what Send answers
}

func (b *bench) send(_ context.Context, m message.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail == nil {
		b.sent = append(b.sent, m)
	}
	return b.fail
}

func (b *bench) failSends(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

func inBubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, hub: control.New()}
		server := emulator.New(b.hub, emulator.Options{})
		db, err := cosmos.Open(cosmos.Options{Endpoint: "http://cosmos.example", Key: emulator.EmulatorKey, ApplicationID: "orchestrator", Transport: server.Transport()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			b.hub.Close()
			db.Close()
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := db.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.Orchestrator = &orchestrator.Orchestrator{
			Store: db.Executions(), Views: db.Executions(), Send: b.send,
			ReplaySettle: 21 * time.Minute, FollowPeriod: time.Second, FollowWindow: time.Hour,
			SendTimeout: 20 * time.Second, RelayAge: 30 * time.Second, RelayPeriod: 30 * time.Second, MaxMessage: 8 << 10,
			Claims: &claim.Desk{
				Store: db.Claims(), Process: "orchestrator/" + claim.Nonce(), Timeout: 10 * time.Second,
				Terms: claim.Terms{Lease: lease, ChallengerMargin: 5 * time.Second, Keep: 30 * 24 * time.Hour},
			},
			DeadLetters:  &b.dead,
			ReconcileAge: 15 * time.Minute, ReconcilePeriod: 5 * time.Minute,
			Log: slog.New(slog.DiscardHandler),
		}
		test(t, b)
	})
}

// problemDocument is what every error is answered with.
type problemDocument struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// problemOf reads the problem document of an answer, which must be one.
func problemOf(t *testing.T, w *httptest.ResponseRecorder) problemDocument {
	t.Helper()
	var p problemDocument
	err := json.Unmarshal(w.Body.Bytes(), &p, json.RejectUnknownMembers(true))
	if err != nil || w.Header().Get("Content-Type") != "application/problem+json" || p.Status != w.Code || p.Title == "" || p.Detail == "" || !strings.HasPrefix(p.Type, "urn:oneeffect:problem:") {
		t.Errorf("not a problem document: %d %v %s (%v)", w.Code, w.Header(), w.Body, err)
	}
	return p
}

// read is the JSON of an answer, whose status must be the one that is wanted.
func read[T any](t *testing.T, w *httptest.ResponseRecorder, status int) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v, json.MatchCaseInsensitiveNames(true)); w.Code != status || err != nil {
		t.Fatalf("%d, want %d: %s (%v)", w.Code, status, w.Body, err)
	}
	return v
}

func (b *bench) ask(method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if b.ctx != nil {
		r = r.WithContext(b.ctx)
	}
	w := httptest.NewRecorder()
	b.API().ServeHTTP(w, r)
	describes(b.t, r, body, w)
	return w
}

func TestARequestCreatesAnExecutionAndItsTaskCarriesTheTicket(t *testing.T) { // O2 E6
	inBubble(t, func(t *testing.T, b *bench) {
		w := b.ask(http.MethodPost, "/v1/executions", `{"executionId":"82f3","type":"customer.create","payload":{"name":"Ada"}}`)
		if w.Code != http.StatusCreated || w.Header().Get("Location") != "/v1/executions/82f3" {
			t.Fatalf("%d, Location %q: %s", w.Code, w.Header().Get("Location"), w.Body)
		}
		if len(b.sent) != 1 || b.sent[0].ID != "82f3" {
			t.Fatalf("sent %v", b.sent)
		}
		task, err := message.ParseTask(b.sent[0].Body)
		if err != nil {
			t.Fatal(err)
		}
		if task.ExecutionETag == "" || task.ExecutionETag != w.Header().Get("ETag") || task.Run != 1 {
			t.Errorf("ticket %q and run %d, the execution's ETag is %q", task.ExecutionETag, task.Run, w.Header().Get("ETag"))
		}
		shown := b.ask(http.MethodGet, "/v1/executions/82f3", "")
		if shown.Code != http.StatusOK || shown.Header().Get("ETag") != task.ExecutionETag {
			t.Errorf("GET: %d with ETag %q", shown.Code, shown.Header().Get("ETag"))
		}
		same := b.ask(http.MethodGet, "/v1/executions/82f3", "", "If-None-Match", task.ExecutionETag)
		if same.Code != http.StatusNotModified || same.Body.Len() > 0 {
			t.Errorf("GET with its ETag: %d, %q", same.Code, same.Body)
		}
		if left := b.unsent(t); len(left) > 0 {
			t.Errorf("outbox: %v", left)
		}
	})
}

func TestAKeyMakesOneExecution(t *testing.T) { // O1
	inBubble(t, func(t *testing.T, b *bench) {
		const body = `{"type":"customer.create","payload":{"name":"Ada","age":36}}`
		var first, again execution.Execution
		for _, step := range []struct {
			body   string
			status int
			into   *execution.Execution
		}{
			{body, http.StatusCreated, &first},
			{`{"payload":{"age":36.0,"name":"Ada"},"type":"customer.create"}`, http.StatusOK, &again}, // the same to RFC 8785
			{`{"type":"customer.create","payload":{"name":"Bob"}}`, http.StatusUnprocessableEntity, nil},
			{`{"type":"letter.print","payload":{"name":"Ada","age":36}}`, http.StatusUnprocessableEntity, nil},
		} {
			w := b.ask(http.MethodPost, "/v1/executions", step.body, "Idempotency-Key", "order 17")
			if w.Code != step.status {
				t.Fatalf("%s: %d, want %d: %s", step.body, w.Code, step.status, w.Body)
			}
			if step.into != nil {
				if err := json.Unmarshal(w.Body.Bytes(), step.into); err != nil {
					t.Fatal(err)
				}
			}
		}
		if first.ExecutionID != again.ExecutionID || len(b.sent) != 1 {
			t.Errorf("executions %s and %s, %d tasks", first.ExecutionID, again.ExecutionID, len(b.sent))
		}
	})
}

func TestWhatCannotBeExecutedIsRefusedWithItsCause(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		long := strings.Repeat("x", message.MaxExecutionID+1)
		for _, test := range []struct {
			body   string
			status int
			cause  string
		}{
			{`{"payload":{}}`, 422, "task type is missing"},
			{`{"type":"a b","payload":{}}`, 422, "task type contains"},
			{`{"type":"t","executionId":"` + long + `"}`, 422, "97 characters, 96 are allowed"},
			{`{"type":"t","executionId":"a/b"}`, 422, "taskExecutionId contains"},
			{`{"type":"t","executionId":".."}`, 422, "which no URL can name"},
			{`{"type":"t","payload":` + strings.Repeat("[", 101) + strings.Repeat("]", 101) + `}`, 422, "nested more than 100 levels"},
			{`{"type":"t","payload":` + strings.Repeat(`{"a":`, 100) + `[]` + strings.Repeat("}", 100) + `}`, 422, "nested more than 100 levels"},
			{`{"type":"t","payload":["}]\\\"]",` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `]}`, 422, "nested more than 100 levels"},
			{`{"type":"t","payload":{"n":9007199254740993}}`, 400, "beyond 2^53"},
			{`{"type":"t","type":"u"}`, 400, "duplicate"},
			{`{"type":"t"} {}`, 400, "after top-level value"},
			{`{"type":"t","paylaod":{}}`, 400, "paylaod"},
			{`{`, 400, "unexpected EOF"},
			{``, 400, "unexpected EOF"},
			{`{"type":"t","payload":"` + strings.Repeat("x", 9<<10) + `"}`, 413, "the queue takes 8192"},
			{`{"type":"t","payload":"` + strings.Repeat("x", 2<<20) + `"}`, 413, "1048576"},
		} {
			w := b.ask(http.MethodPost, "/v1/executions", test.body)
			p := problemOf(t, w)
			if w.Code != test.status || !strings.Contains(p.Detail, test.cause) {
				t.Errorf("%.60s: %d %q, want %d about %q", test.body, w.Code, p.Detail, test.status, test.cause)
			}
		}
		if w := b.ask(http.MethodPost, "/v1/executions", `{"type":"t"}`, "Idempotency-Key", strings.Repeat("k", 257)); w.Code != http.StatusBadRequest {
			t.Errorf("a key of 257 characters: %d", w.Code)
		}
		for path, status := range map[string]int{"/v1/executions/none": 404, "/v1/executions/a%2Fb": 404, "/nowhere": 404} {
			if w := b.ask(http.MethodGet, path, ""); w.Code != status {
				t.Errorf("GET %s: %d, want %d", path, w.Code, status)
			}
		}
		if len(b.sent) > 0 {
			t.Errorf("sent %v", b.sent)
		}
		writes := 0
		for _, e := range b.hub.Events(0) {
			if e.Operation == "batch" {
				writes++
			}
		}
		if writes > 0 {
			t.Errorf("%d batches were written", writes)
		}
	})
}

func TestThePayloadOfMostLevelsIsStored(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for _, payload := range []string{
			strings.Repeat(`{"a":`, 99) + `[]` + strings.Repeat("}", 99),
			`["` + strings.Repeat("[{", 99) + `"]`,                        // what stands in a text is no level
			`{"` + strings.Repeat(`[\"{`, 99) + `\\":["\\",{},"\u005b"]}`, // nor what is in a name, whatever is escaped there
			`[` + strings.Repeat(`[{}],`, 200) + `[]]`,                    // nor what has ended
		} {
			if w := b.ask(http.MethodPost, "/v1/executions", `{"type":"t","payload":`+payload+`}`); w.Code != http.StatusCreated {
				t.Errorf("%.40s…: %d: %s", payload, w.Code, w.Body)
			}
		}
	})
}

func TestAMethodThatIsNotThereIsAnsweredWithThoseThatAre(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for request, allow := range map[string]string{
			"DELETE /v1/executions": "GET, HEAD, POST", "PUT /v1/executions/82f3": "GET, HEAD", "POST /v1/executions/82f3": "GET, HEAD",
			"GET /v1/executions/82f3/cancel": "POST", "PATCH /v1/dead-letters": "GET, HEAD", "OPTIONS /": "GET, HEAD", "PROPFIND /livez": "GET, HEAD",
		} {
			method, path, _ := strings.Cut(request, " ")
			w := b.ask(method, path, "")
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != allow || !strings.Contains(problemOf(t, w).Detail, `not "`+method+`"`) {
				t.Errorf("%s: %d, Allow %q: %s", request, w.Code, w.Header().Get("Allow"), w.Body)
			}
		}
	})
}

func TestAPageOfAnotherOriginCreatesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site", "Content-Type", "text/plain"},
			{"Origin", "http://evil.example"}, // of browsers without Sec-Fetch-Site
		} {
			w := b.ask(http.MethodPost, "/v1/executions", `{"type":"t"}`, header...)
			if w.Code != http.StatusForbidden || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%v: %d %s", header, w.Code, w.Body)
			}
		}
		if len(b.sent) > 0 {
			t.Errorf("sent %v", b.sent)
		}
		if w := b.ask(http.MethodPost, "/v1/executions", `{"type":"t"}`, "Sec-Fetch-Site", "same-origin"); w.Code != http.StatusCreated {
			t.Errorf("our own page: %d %s", w.Code, w.Body)
		}
	})
}

// Whoever is told to try again does. What the store refuses is refused for ever.
func TestOnlyWhatMayEndBetterIsToBeTriedAgain(t *testing.T) {
	for cause, test := range map[string]struct {
		rule   control.Rule
		status int
		retry  string
	}{
		"wrong key": {control.Rule{Do: "answer", Status: http.StatusUnauthorized}, http.StatusInternalServerError, ""},
		"busy":      {control.Rule{Do: "answer", Status: http.StatusTooManyRequests}, http.StatusServiceUnavailable, "1"},
	} {
		t.Run(cause, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				test.rule.Match = control.Match{Service: "cosmos", Entity: "executions"}
				if _, err := b.hub.Arm(test.rule); err != nil {
					t.Fatal(err)
				}
				for _, w := range []*httptest.ResponseRecorder{
					b.ask(http.MethodPost, "/v1/executions", `{"type":"t"}`),
					b.ask(http.MethodGet, "/v1/executions/82f3", ""),
					b.ask(http.MethodGet, "/readyz", ""),
				} {
					if w.Code != test.status || w.Header().Get("Retry-After") != test.retry {
						t.Errorf("%d, Retry-After %q: %s; want %d and %q", w.Code, w.Header().Get("Retry-After"), w.Body, test.status, test.retry)
					}
				}
			})
		})
	}
}

func TestABodyThatComesTooSlowlyIsATimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		r := httptest.NewRequest(http.MethodPost, "/v1/executions", slow{})
		w := httptest.NewRecorder()
		b.API().ServeHTTP(w, r)
		if w.Code != http.StatusRequestTimeout || strings.Contains(w.Body.String(), "127.0.0.1") {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	})
}

// slow is a body whose connection has passed its deadline.
type slow struct{}

func (slow) Read([]byte) (int, error) {
	return 0, &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}, Err: os.ErrDeadlineExceeded}
}

func TestTheRelaySendsWhatTheQueueDidNotTake(t *testing.T) { // E6
	inBubble(t, func(t *testing.T, b *bench) {
		b.failSends(errors.New("no queue today"))
		if w := b.ask(http.MethodPost, "/v1/executions", `{"executionId":"82f3","type":"t"}`); w.Code != http.StatusCreated {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		ctx, cancel := context.WithCancel(t.Context())
		relayed := make(chan error, 1)
		go func() { relayed <- b.Relay(ctx) }()
		time.Sleep(2 * time.Minute)
		b.failSends(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		cancel()
		if err := <-relayed; err != nil {
			t.Error(err)
		}
		if len(b.sent) != 1 || b.sent[0].ID != "82f3" {
			t.Fatalf("sent %v, want the task once", b.sent)
		}
		task, err := message.ParseTask(b.sent[0].Body)
		if etag := b.load(t, "82f3").ETag; err != nil || task.ExecutionETag != string(etag) {
			t.Errorf("ticket %q, the execution's ETag is %q (%v)", task.ExecutionETag, etag, err)
		}
		if left := b.unsent(t); len(left) > 0 {
			t.Errorf("outbox: %v", left)
		}
	})
}

func TestALostAnswerToTheCreationIsAnsweredFromWhatStands(t *testing.T) { // O1 O2
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				if _, err := b.hub.Arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "batch"}, When: when, Do: "drop", Times: 1}); err != nil {
					t.Fatal(err)
				}
				post := func() int {
					return b.ask(http.MethodPost, "/v1/executions", `{"executionId":"82f3","type":"t"}`).Code
				}
				want := map[string]string{"before": "503 201", "after": "201 200"}[when]
				if got := fmt.Sprint(post(), post()); got != want {
					t.Errorf("answers %s, want %s", got, want)
				}
			})
		})
	}
}
