package orchestrator_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

const created82f3 = `{"executionId":"82f3","type":"letter.print","payload":{"to":"Ada"}}`

func (b *bench) submit() (etag string) {
	b.t.Helper()
	w := b.ask(http.MethodPost, "/v1/executions", created82f3)
	if w.Code != http.StatusCreated {
		b.t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Header().Get("ETag")
}

func (b *bench) stands() execution.Stored {
	b.t.Helper()
	return b.load(b.t, "82f3")
}

// claimed is a claim of the execution as a worker would have left it.
func (b *bench) claimed(change func(*claim.Claim)) {
	b.t.Helper()
	b.claimedOf("82f3", change)
}

func (b *bench) claimedOf(id string, change func(*claim.Claim)) {
	b.t.Helper()
	print, err := claim.Fingerprint("letter.print", jsontext.Value(`{"to":"Ada"}`))
	if err != nil {
		b.t.Fatal(err)
	}
	c := claim.Claim{
		ID: id, Status: claim.InProgress, Run: 1, Fence: 1, Owner: "worker-1/5f/77", W: "1", LeaseSeconds: 300, TaskType: "letter.print",
		Fingerprint: print, Starts: 1, FirstCallAt: time.Now(), TTL: 3600, Version: 1,
		Attempts: []claim.Attempt{{Fence: 1, Owner: "worker-1/5f/77", At: time.Now()}},
	}
	change(&c)
	if _, err := b.Claims.Store.Record(id).Create(b.t.Context(), c); err != nil {
		b.t.Fatal(err)
	}
}

// failed has the execution fail as its claim did.
func (b *bench) failed(reason string) {
	b.t.Helper()
	b.failedOf("82f3", reason)
}

func (b *bench) failedOf(id, reason string) {
	b.t.Helper()
	b.claimedOf(id, func(c *claim.Claim) {
		c.Status, c.Failure = claim.Failed, &claim.Failure{Reason: reason, Description: "no paper", Outcome: "unknown"}
	})
	event, err := message.Failed{ExecutionID: id, Run: 1, Fence: 1, Reason: reason, Description: "no paper", Outcome: "unknown"}.Message(time.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	if s := b.Handle(b.t.Context(), message.Delivery{Body: event.Body, Count: 1}); s.Action != message.Complete {
		b.t.Fatalf("%+v", s)
	}
}

func TestCancelTakesTheVersionThatWasSeen(t *testing.T) { // E8
	inBubble(t, func(t *testing.T, b *bench) {
		etag := b.submit()
		for _, test := range []struct {
			match  []string
			status int
			kind   string
		}{
			{nil, http.StatusPreconditionRequired, "precondition-required"},
			{[]string{"If-Match", `"another"`}, http.StatusPreconditionFailed, "changed"},
			{[]string{"If-Match", "W/" + etag}, http.StatusPreconditionFailed, "changed"}, // a weak tag never matches
			{[]string{"If-Match", "another"}, http.StatusBadRequest, "invalid-request"},
			{[]string{"If-Match", ""}, http.StatusBadRequest, "invalid-request"},
		} {
			w := b.ask(http.MethodPost, "/v1/executions/82f3/cancel", "", test.match...)
			if p := problemOf(t, w); w.Code != test.status || p.Type != "urn:oneeffect:problem:"+test.kind {
				t.Errorf("%v: %d %s, want %d %s", test.match, w.Code, w.Body, test.status, test.kind)
			}
		}
		if e := b.stands(); string(e.ETag) != etag {
			t.Fatalf("what was refused has written: %+v", e)
		}
		w := b.ask(http.MethodPost, "/v1/executions/82f3/cancel", `{"reason":"ordered twice"}`, "If-Match", `"another", `+etag)
		cancelled := read[execution.Execution](t, w, http.StatusOK)
		stands := b.stands()
		last := stands.Execution.History[len(stands.Execution.History)-1]
		if cancelled.Status != execution.Cancelled || w.Header().Get("ETag") != string(stands.ETag) || last.By != "anonymous" || last.Detail != "ordered twice" {
			t.Errorf("answered %+v with ETag %s, stands %+v", cancelled, w.Header().Get("ETag"), stands)
		}
		if c := b.claim(t, "82f3"); c.Status != claim.Cancelled { // nobody can take the task any more
			t.Errorf("the claim is %s", c.Status)
		}
		again := b.ask(http.MethodPost, "/v1/executions/82f3/cancel", "", "If-Match", etag)
		if again.Code != http.StatusOK || b.stands().ETag != stands.ETag {
			t.Errorf("again, as after a lost answer: %d %s", again.Code, again.Body)
		}
	})
}

// Once the execution is cancelled, what follows from that is done, whoever wrote it.
func TestACancelWhoseAnswerWasLostWithdrawsTheClaimToo(t *testing.T) { // E8
	inBubble(t, func(t *testing.T, b *bench) {
		etag := b.submit()
		b.arm(t, control.Rule{Match: control.Match{Operation: "patch"}, When: "after", Do: "drop", Times: 1})
		cancelled := read[execution.Execution](t, b.ask(http.MethodPost, "/v1/executions/82f3/cancel", "", "If-Match", etag), http.StatusOK)
		if c := b.claim(t, "82f3"); cancelled.Status != execution.Cancelled || c.Status != claim.Cancelled {
			t.Errorf("the execution is %s, its claim %q", cancelled.Status, c.Status)
		}
	})
}

func TestCancelLeavesAClaimUnderWhichACallMayHaveBeenMade(t *testing.T) { // E8
	inBubble(t, func(t *testing.T, b *bench) {
		etag := b.submit()
		b.claimed(func(c *claim.Claim) { c.CallStarted = true })
		if w := b.ask(http.MethodPost, "/v1/executions/82f3/cancel", "", "If-Match", etag); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if e, c := b.stands().Execution, b.claim(t, "82f3"); e.Status != execution.Cancelled || c.Status != claim.InProgress || c.Fence != 1 {
			t.Errorf("the execution is %s, its claim %+v", e.Status, c)
		}
	})
}

func TestOnlyWhatRunsCanBeCancelled(t *testing.T) { // E8
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit()
		b.failed(message.DownstreamRejected)
		w := b.ask(http.MethodPost, "/v1/executions/82f3/cancel", "", "If-Match", "*")
		if p := problemOf(t, w); w.Code != http.StatusConflict || !strings.Contains(p.Detail, "it is FAILED") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

func TestAReplayIsOneMoreRunOfTheSameTraceAndASecondOneIsNone(t *testing.T) { // E7
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit()
		b.failed(message.DownstreamRejected)
		replay := func() execution.Execution {
			return read[execution.Execution](t, b.ask(http.MethodPost, "/v1/executions/82f3/replay", `{"reason":"paper is back"}`), http.StatusOK)
		}
		first, etag := replay(), b.stands().ETag
		if first.Status != execution.Running || first.Run != 2 || first.Failure != nil || !first.EndedAt.IsZero() {
			t.Errorf("%+v", first)
		}
		second := replay()
		if second.Run != 2 || b.stands().ETag != etag || len(b.sent) != 2 {
			t.Errorf("a second replay: run %d, %d tasks", second.Run, len(b.sent))
		}
		task, err := message.ParseTask(b.sent[1].Body)
		if err != nil || b.sent[1].ID != "82f3/run/2" || task.Run != 2 || task.ExecutionETag != string(etag) || task.Asserted {
			t.Errorf("sent %s %+v, %v; want run 2 with the ticket %s", b.sent[1].ID, task, err, etag)
		}
		if !task.NotAfter.Equal(first.NotAfter) || len(first.History) != 3 || first.History[2].By != "anonymous" || first.History[2].Detail != "paper is back" {
			t.Errorf("%+v", first)
		}
	})
}

// Killed at any point: before the batch, nothing; after it, the relay sends.
func TestAReplayWhoseAnswerWasLostIsSentByTheRelay(t *testing.T) { // E6 E7
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.submit()
				b.failed(message.DownstreamRejected)
				if _, err := b.hub.Arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "batch"}, When: when, Do: "drop", Times: 1}); err != nil {
					t.Fatal(err)
				}
				e := read[execution.Execution](t, b.ask(http.MethodPost, "/v1/executions/82f3/replay", `{"reason":"paper is back"}`), http.StatusOK)
				if e.Run != 2 || e.Status != execution.Running {
					t.Errorf("%+v", e)
				}
				b.relayFor(t, 2*time.Minute)
				if len(b.sent) != 2 || b.sent[1].ID != "82f3/run/2" {
					t.Errorf("sent %v, want run 2 once", b.sent)
				}
			})
		})
	}
}

func TestAReplayOfAnUnknownOutcomeNeedsTimeAndAnAssertion(t *testing.T) { // E7
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit()
		b.failed(message.OutcomeUnknown)
		ask := func(body string) (int, string) {
			w := b.ask(http.MethodPost, "/v1/executions/82f3/replay", body)
			return w.Code, w.Body.String()
		}
		const asserted = `{"reason":"the printer's tray is empty","assertNothingApplied":true}`
		for body, want := range map[string]string{
			`{"reason":"again"}`: "may be an effect", asserted: "may still be on its way",
		} {
			if status, text := ask(body); status != http.StatusConflict || !strings.Contains(text, want) {
				t.Errorf("%s: %d %s, want 409 about %q", body, status, text, want)
			}
		}
		for body, want := range map[string]int{
			`{}`: 400, `{"reason":""}`: 400, `{"reason":"x","assert":true}`: 400, `{"reason":"` + strings.Repeat("x", 501) + `"}`: 400, ``: 400, `[]`: 400,
		} {
			if status, text := ask(body); status != want {
				t.Errorf("%.40s: %d %s, want %d", body, status, text, want)
			}
		}
		time.Sleep(b.ReplaySettle + time.Second) // of which the store's clock has whole ones only
		if status, text := ask(asserted); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		task, err := message.ParseTask(b.sent[1].Body)
		if err != nil || !task.Asserted {
			t.Errorf("%+v, %v: want the assertion to travel", task, err)
		}
	})
}

func TestResolveClosesClaimAndExecutionWithoutACall(t *testing.T) { // E7
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit()
		b.failed(message.OutcomeUnknown)
		resolve := func() execution.Execution {
			return read[execution.Execution](t, b.ask(http.MethodPost, "/v1/executions/82f3/resolve", `{"reason":"it lies in the tray","resultRef":"tray/7"}`), http.StatusOK)
		}
		e, c := resolve(), b.claim(t, "82f3")
		if e.Status != execution.Completed || e.Result == nil || e.Result.Ref != "tray/7" || c.Status != claim.Completed || c.Fence != 2 || e.Result.Fence != 2 || e.Result.Digest != c.Result.Digest {
			t.Errorf("execution %+v, claim %+v", e, c)
		}
		etag := b.stands().ETag
		if again := resolve(); again.Status != execution.Completed || b.stands().ETag != etag || len(b.sent) != 1 {
			t.Errorf("again: %+v, %d tasks", again, len(b.sent))
		}
		other := b.ask(http.MethodPost, "/v1/executions/82f3/resolve", `{"reason":"or there","resultRef":"tray/8"}`)
		if p := problemOf(t, other); other.Code != http.StatusConflict || !strings.Contains(p.Detail, "COMPLETED") {
			t.Errorf("another result: %d %s", other.Code, other.Body)
		}
		if w := b.ask(http.MethodPost, "/v1/executions/82f3/resolve", `{"reason":"it lies there"}`); w.Code != http.StatusBadRequest {
			t.Errorf("without a resultRef: %d %s", w.Code, w.Body)
		}
	})
}

// A crash between the two writes leaves a completed claim; the same request goes on.
func TestAResolveThatWasCutOffGoesOn(t *testing.T) { // E7 E4
	for _, at := range []string{"replace", "patch"} {
		for _, when := range []string{"before", "after"} {
			t.Run(at+" "+when, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bench) {
					b.submit()
					b.failed(message.OutcomeUnknown)
					if _, err := b.hub.Arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: at}, When: when, Do: "drop", Times: 1}); err != nil {
						t.Fatal(err)
					}
					e := read[execution.Execution](t, b.ask(http.MethodPost, "/v1/executions/82f3/resolve", `{"reason":"it lies in the tray","resultRef":"tray/7"}`), http.StatusOK)
					if c := b.claim(t, "82f3"); e.Status != execution.Completed || c.Status != claim.Completed || c.Fence != 2 || c.Result.Digest != e.Result.Digest {
						t.Errorf("execution %+v, claim %+v", e, c)
					}
				})
			})
		}
	}
}

func TestResolveRefusesWhatDidNotFail(t *testing.T) { // E7
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit()
		w := b.ask(http.MethodPost, "/v1/executions/82f3/resolve", `{"reason":"x","resultRef":"tray/7"}`)
		if p := problemOf(t, w); w.Code != http.StatusConflict || !strings.Contains(p.Detail, "RUNNING") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		b.failed(message.DownstreamRejected)
		stands, err := b.Claims.Store.Record("82f3").Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stands.Claim.Run = 2
		if _, err := b.Claims.Store.Record("82f3").Replace(t.Context(), stands.Claim, stands.ETag); err != nil {
			t.Fatal(err)
		}
		w = b.ask(http.MethodPost, "/v1/executions/82f3/resolve", `{"reason":"x","resultRef":"tray/7"}`)
		if p := problemOf(t, w); w.Code != http.StatusConflict || !strings.Contains(p.Detail, "want FAILED of run 1") {
			t.Errorf("a claim of another run: %d %s", w.Code, w.Body)
		}
	})
}

func TestOperationsOnNothingAreNotFound(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for path, body := range map[string]string{"cancel": "", "replay": `{"reason":"x"}`, "resolve": `{"reason":"x","resultRef":"y"}`} {
			if w := b.ask(http.MethodPost, "/v1/executions/none/"+path, body, "If-Match", "*"); w.Code != http.StatusNotFound {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		if w := b.ask(http.MethodGet, "/v1/executions/none/timeline", ""); w.Code != http.StatusNotFound {
			t.Errorf("timeline: %d %s", w.Code, w.Body)
		}
	})
}

// What an operation answers from memory is what the store then shows.
func TestAnOperationAnswersWhatStands(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit()
		b.failed(message.DownstreamRejected)
		for _, ask := range []string{`replay {"reason":"x"}`, `cancel {"reason":"y"}`} {
			path, body, _ := strings.Cut(ask, " ")
			answered := b.ask(http.MethodPost, "/v1/executions/82f3/"+path, body, "If-Match", "*")
			shown := b.ask(http.MethodGet, "/v1/executions/82f3", "")
			if answered.Code != http.StatusOK || sorted(t, answered.Body.Bytes()) != sorted(t, shown.Body.Bytes()) || answered.Header().Get("ETag") != shown.Header().Get("ETag") {
				t.Errorf("%s answered %s\nshown    %s", path, answered.Body, shown.Body)
			}
		}
	})
}

func sorted(t *testing.T, text []byte) string {
	t.Helper()
	form, err := message.Canonical(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(form)
}
