package control

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// do sends one request to the hub's handler and returns what it answered.
func do(t *testing.T, h *Hub, method, target, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body)))
	return w
}

// want sends a request and requires its status.
func want(t *testing.T, h *Hub, status int, method, target, body string) string {
	t.Helper()
	w := do(t, h, method, target, body)
	if kind := w.Header().Get("Content-Type"); status >= 400 && kind != "application/problem+json" {
		t.Errorf("%s %s: a problem of type %q", method, target, kind)
	}
	return wantStatus(t, method+" "+target, w, status)
}

// wantStatus requires the status of an answer, and returns its body. A goroutine of a
// test sends its request by do, and leaves this to the test.
func wantStatus(t *testing.T, what string, w *httptest.ResponseRecorder, status int) string {
	t.Helper()
	if w.Code != status {
		t.Fatalf("%s: %d %s, want %d", what, w.Code, w.Body, status)
	}
	return w.Body.String()
}

func wantContains(t *testing.T, got string, wanted ...string) {
	t.Helper()
	for _, part := range wanted {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in %s", part, got)
		}
	}
}

func TestARuleIsArmedWatchedAndReleasedOverHTTP(t *testing.T) { // H3
	synctest.Test(t, func(t *testing.T) {
		h := New()
		got := want(t, h, 201, "POST", "/control/rules",
			`{"name":"completed","match":{"service":"cosmos","operation":"replace","body":{"/status":"COMPLETED"}},"do":"hold"}`)
		wantContains(t, got, `"name":"completed"`)
		wantContains(t, want(t, h, 408, "GET", "/control/rules/completed?for=reached&wait=30s", ""), "within 30s")

		watched := make(chan *httptest.ResponseRecorder, 1)
		go func() { watched <- do(t, h, "GET", "/control/rules/completed?for=reached&wait=30s", "") }()
		synctest.Wait()
		held := ask(t.Context(), h.Before, claimWrite)
		wantContains(t, wantStatus(t, "wait for the rule", <-watched, 200), `"key":"82f3"`, `"client":"worker-1"`, `"body":{"id":"82f3","status":"COMPLETED","fence":1}`, `"peerGone":false`)
		wantContains(t, want(t, h, 200, "GET", "/control/rules/completed", ""), `"held":1`, `"reached":true`, `"do":"hold"`)
		wantContains(t, want(t, h, 200, "GET", "/control/rules", ""), `"rules":[{"rule":{"name":"completed"`)
		want(t, h, 408, "GET", "/control/rules/completed?for=peer-gone", "")

		want(t, h, 204, "POST", "/control/rules/completed/release", `{"action":"answer","status":503,"retryAfter":"2s"}`)
		if d := <-held; d.Kind != Answer || d.Status != 503 || d.RetryAfter != 2*time.Second {
			t.Errorf("released with %+v", d)
		}
		want(t, h, 409, "POST", "/control/rules/completed/release", `{"action":"go"}`)
		want(t, h, 204, "DELETE", "/control/rules/completed", "")
		want(t, h, 404, "DELETE", "/control/rules/completed", "")
		want(t, h, 404, "GET", "/control/rules/completed", "")
		want(t, h, 404, "GET", "/control/rules/completed?for=reached", "")
	})
}

func TestEveryMistakeInABodyIsNamedAtOnce(t *testing.T) { // H7
	h := New()
	got := want(t, h, 400, "POST", "/control/rules",
		`{"match":{"entitty":"x","body":[]},"do":7,"delay":5,"nth":1.5,"late":"yes","seed":-1,"probability":"half","when":"after"}`)
	wantContains(t, got, `match.entitty: there is no such member; there are body, client`, `match.body: want an object, not []`,
		`do: want a string, not 7`, `delay: want a duration like \"1.5s\", not 5`, `nth: want a whole number`,
		`late: want true or false`, `seed: want a whole number from 0`, `probability: want a number`, `"mistakes":[`)
	for _, test := range []struct{ body, says string }{
		{``, "the body is empty"},
		{`{"do":"drop"`, "not one JSON document"},
		{`{"do":"drop"} {}`, "not one JSON document"},
		{`{"do":"drop","do":"hold"}`, "not one JSON document"},
		{`["do"]`, "the body: must be a JSON object"},
		{`{"do":"drop","match":"all"}`, "match: must be a JSON object"},
		{`{"do":"dorp"}`, `do \"dorp\": say`},
	} {
		wantContains(t, want(t, h, 400, "POST", "/control/rules", test.body), test.says)
	}
	if len(h.Rules()) != 0 {
		t.Error("a refused rule was armed")
	}
	want(t, h, 413, "POST", "/control/rules", `{"name":"`+strings.Repeat("x", bodyLimit)+`"}`)
}

func TestParametersThatAreNotUnderstoodAreRefused(t *testing.T) { // H7
	h := New()
	mustArm(t, h, Rule{Name: "r", Do: "hold"})
	for target, says := range map[string]string{
		"/control/rules/r?for=reached&wait=soon": "wait=",
		"/control/rules/r?for=reached&wait=-1s":  "wait=",
		"/control/rules/r?for=reached&wait=11m":  "at most 10m",
		"/control/rules/r?for=fun":               `say \"reached\" or \"peer-gone\"`,
		"/control/events?after=-1&wait=x":        `after=`,
	} {
		wantContains(t, want(t, h, 400, "GET", target, ""), says)
	}
	wantContains(t, want(t, h, 404, "GET", "/contro/rules", ""), "there is no GET /contro/rules", "/control/events")
	wantContains(t, want(t, h, 404, "PATCH", "/control/rules", ""), "there is no PATCH /control/rules")
}

func TestEventsAreReadAsLinesAndWaitedFor(t *testing.T) { // H6
	synctest.Test(t, func(t *testing.T) {
		h := New()
		start := time.Now()
		if got := want(t, h, 200, "GET", "/control/events?wait=30s", ""); got != "" {
			t.Errorf("nothing happened, and it says %s", got)
		}
		if waited := time.Since(start); waited != 30*time.Second {
			t.Errorf("waited %v, want 30s", waited)
		}
		lines := make(chan *httptest.ResponseRecorder, 1)
		go func() { lines <- do(t, h, "GET", "/control/events?after=0&wait=30s", "") }()
		synctest.Wait()
		until := h.Now().Add(time.Second)
		h.Record(Event{Service: "servicebus", Kind: "delivered", Key: "82f3", Delivery: 2, LockedUntil: &until})
		got := wantStatus(t, "wait for events", <-lines, 200)
		wantContains(t, got, `{"seq":1,"at":"`, `"kind":"delivered"`, `"key":"82f3"`, `"delivery":2`, `"lockedUntil":"`)
		if strings.Contains(got, "etag") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s, want one line without empty fields", got)
		}

		const more = 3 * chunkSize
		for i := range more {
			h.Record(Event{Kind: "request", Status: i})
		}
		answer := want(t, h, 200, "GET", "/control/events?after=1", "")
		decoder, seq := json.NewDecoder(strings.NewReader(answer)), uint64(1)
		for decoder.More() {
			var e Event
			if err := decoder.Decode(&e); err != nil || e.Seq != seq+1 {
				t.Fatalf("after %d comes %d (%v)", seq, e.Seq, err)
			}
			seq = e.Seq
		}
		if seq != more+1 {
			t.Errorf("the last line is %d, want %d", seq, more+1)
		}
	})
}

func TestLongPollsEndWhenTheHubCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		mustArm(t, h, Rule{Name: "r", Do: "hold"})
		start := time.Now()
		ended := make(chan int, 2)
		for _, target := range []string{"/control/events?wait=5m", "/control/rules/r?for=reached&wait=5m"} {
			go func() { ended <- do(t, h, "GET", target, "").Code }()
		}
		synctest.Wait()
		h.Close()
		if codes := <-ended + <-ended; codes != 200+503 {
			t.Errorf("ended with statuses that add up to %d, want 200 and 503", codes)
		}
		if time.Since(start) != 0 {
			t.Error("they waited after the hub was closed")
		}
	})
}

func TestClockSwitchesAndIsolationOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		wantContains(t, want(t, h, 200, "POST", "/control/clock", `{"jump":"5m"}`), `"offset":"5m0s"`)
		wantContains(t, want(t, h, 200, "GET", "/control/clock", ""), `"offset":"5m0s"`, `"now":"2000-01-01T00:05:00Z"`)
		for _, wrong := range []string{`{}`, `{"jump":"0s"}`, `{"jump":"9000h"}`, `{"jump":"tomorrow"}`, `{"jumps":"1s"}`} {
			want(t, h, 400, "POST", "/control/clock", wrong)
		}

		want(t, h, 204, "PUT", "/control/switches/cosmos.if-match/executions", `{"off":true}`)
		if !h.Off("cosmos.if-match/executions") {
			t.Error("the switch is still on")
		}
		wantContains(t, want(t, h, 200, "GET", "/control/switches", ""), `{"name":"cosmos.if-match/executions","off":true,`)
		wantContains(t, want(t, h, 400, "PUT", "/control/switches/cosmos.etag", `{"off":true}`), "there is none of that name")
		wantContains(t, want(t, h, 400, "PUT", "/control/switches/cosmos.ttl", `{}`), "off: say true or false")
		wantContains(t, want(t, h, 400, "PUT", "/control/switches/cosmos.ttl", `{"off":1}`), "off: want true or false, not 1")

		want(t, h, 204, "PUT", "/control/clients/worker-1/isolation", "")
		if !h.Isolated("worker-1") {
			t.Error("worker-1 is not isolated")
		}
		want(t, h, 204, "DELETE", "/control/clients/worker-1/isolation", "")
		if h.Isolated("worker-1") {
			t.Error("worker-1 is still isolated")
		}
		wantContains(t, want(t, h, 200, "GET", "/healthz", ""), "ok")
	})
}

func TestALagStandsUntilItIsEnded(t *testing.T) {
	h := New()
	see := func(claims, others *Lag, listed string) {
		t.Helper()
		for container, want := range map[string]*Lag{"claims": claims, "executions": others} {
			if got := h.LagOf(container); (got == nil) != (want == nil) || got != nil && *got != *want {
				t.Errorf("the lag of %s is %+v, want %+v", container, got, want)
			}
		}
		wantContains(t, want(t, h, 200, "GET", "/control/lag", ""), `{"lags":`+listed+`}`)
	}
	see(nil, nil, `[]`)
	want(t, h, 204, "PUT", "/control/lag/claims", `{"commits":3}`)
	see(&Lag{Commits: 3}, nil, `[{"container":"claims","commits":3}]`)
	want(t, h, 204, "PUT", "/control/lag", `{"duration":"5s"}`)
	see(&Lag{Commits: 3}, &Lag{Duration: Duration(5 * time.Second)}, `[{"container":"","duration":"5s"},{"container":"claims","commits":3}]`)
	want(t, h, 204, "DELETE", "/control/lag/claims", "")
	see(&Lag{Duration: Duration(5 * time.Second)}, &Lag{Duration: Duration(5 * time.Second)}, `[{"container":"","duration":"5s"}]`)
	want(t, h, 204, "DELETE", "/control/lag", "")
	see(nil, nil, `[]`)
}

func TestALagThatMeansNothingIsRefused(t *testing.T) { // H7
	h := New()
	for body, says := range map[string]string{
		`{}`:                            "say either commits",
		`{"commits":0}`:                 "say either commits",
		`{"commits":1,"duration":"1s"}`: "say either commits",
		`{"commits":-1}`:                "cannot be negative",
		`{"duration":"-1s"}`:            "cannot be negative",
		`{"duration":"25h"}`:            "at most 24h",
		`{"duration":"soon"}`:           "duration",
		`{"commit":1}`:                  "commit",
	} {
		wantContains(t, want(t, h, 400, "PUT", "/control/lag/claims", body), says)
	}
	if err := h.SetLag("Claims", Lag{Commits: 1}); err == nil || !strings.Contains(err.Error(), "lower case") {
		t.Errorf("a container in other letters: %v", err)
	}
	if lags := h.Lags(); len(lags) != 0 {
		t.Errorf("the refused lags stand: %+v", lags)
	}
}

func TestAnotherSitesPageCannotArmARule(t *testing.T) {
	h := New()
	r := httptest.NewRequest("POST", "/control/rules", bytes.NewBufferString(`{"do":"drop"}`))
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || len(h.Rules()) != 0 {
		t.Errorf("status %d with %d rules armed, want it refused", w.Code, len(h.Rules()))
	}
}

func TestARuleIsWrittenTheWayItIsRead(t *testing.T) {
	rule := Rule{
		Name: "r", Match: Match{
			Service: "cosmos", Operation: "replace", Entity: "claims", Client: "worker-1", Key: "82f3", Body: map[string]any{"/status": "COMPLETED"},
		}, When: "before",
		Do: "answer", Delay: Duration(time.Hour), Status: 429, Condition: "busy", Description: "slow", RetryAfter: Duration(1500 * time.Millisecond),
		Late: true, Nth: 2, Times: 3, Probability: 0.5, Seed: 1<<63 + 1,
	}
	text, err := json.Marshal(rule)
	if err != nil {
		t.Fatal(err)
	}
	var again Rule
	if err := decode(text, &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, rule) {
		t.Errorf("read %+v, want %+v", again, rule)
	}
}
