package orchestrator_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

const oneRound = time.Minute

// Every row of E4: what a dead letter of a running execution comes to.
func TestADeadLetterIsAHintToReadTheClaim(t *testing.T) { // E4
	const broken = "MaxDeliveryCountExceeded"
	for _, test := range []struct {
		what   string
		run    int // of the execution; 0: 1
		letter int // run of the dead letter; 0: the same
		reason string
		stands func(*claim.Claim)
		later  time.Duration // from the claim's last write to the look

		status  execution.Status
		failure string // of the execution
		outcome string
		claim   claim.Status // afterwards
		fence   int64
	}{
		{"completed", 0, 0, broken, completed, 0, execution.Completed, "", "", claim.Completed, 3},
		{"failed", 0, 0, broken, failed, 0, execution.Failed, "DownstreamRejected", "none", claim.Failed, 3},
		{"the lease stands", 0, 0, broken, held, lease, execution.Running, "", "", claim.InProgress, 3},
		{"released, and its time is to come", 0, 0, broken, waits, time.Hour, execution.Running, "", "", claim.InProgress, 3},
		{"none", 0, 0, "TTLExpiredException", nil, 0, execution.Failed, "TTLExpiredException", "none", claim.Failed, 1},
		{"stale, keyed", 0, 0, broken, held, 2 * lease, execution.Failed, broken, "unknown", claim.Failed, 4},
		{"stale, keyless, no call", 0, 0, broken, keyless, 2 * lease, execution.Failed, broken, "none", claim.Failed, 4},
		{"stale, keyless, the call began", 0, 0, broken, called, 2 * lease, execution.Failed, message.OutcomeUnknown, "unknown", claim.Failed, 4},
		{"released", 0, 0, broken, released, 0, execution.Failed, broken, "unknown", claim.Failed, 4},
		{"failed of an earlier run", 2, 0, broken, failed, 0, execution.Failed, broken, "none", claim.Failed, 4},
		{"by hand, without a reason", 0, 0, "", nil, 0, execution.Failed, "DeadLettered", "none", claim.Failed, 1},
		{"of an earlier run", 2, 1, broken, failed, 0, execution.Running, "", "", claim.Failed, 3},
		{"a key reused", 0, 0, message.IdempotencyKeyReused, nil, 0, execution.Running, "", "", "", 0},
		{"invalid", 0, 0, message.InvalidMessage, nil, 0, execution.Running, "", "", "", 0},
		{"too old", 0, 0, message.TooOld, nil, 0, execution.Running, "", "", "", 0},
		{"too old, and completed", 0, 0, message.TooOld, completed, 0, execution.Running, "", "", claim.Completed, 3},
	} {
		t.Run(test.what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				run := max(test.run, 1)
				b.runs(t, "82f3", run)
				b.claims(t, "82f3", test.stands)
				time.Sleep(test.later)
				b.bury(t, "82f3", cmp.Or(test.letter, run), test.reason)
				b.ReconcileAge = 24 * time.Hour
				b.reconcileFor(t, 2*b.ReconcilePeriod) // more than once, which changes nothing
				e := b.load(t, "82f3").Execution
				if e.Status != test.status || e.Failure != nil && (e.Failure.Reason != test.failure || e.Failure.Outcome != test.outcome) || (e.Failure == nil) != (test.failure == "") {
					t.Errorf("the execution is %s, %+v, want %s %s", e.Status, e.Failure, test.status, test.failure)
				}
				c := b.claim(t, "82f3")
				if c.Status != test.claim || c.Fence != test.fence || c.Status == claim.Failed && e.Status == execution.Failed && c.Run != run {
					t.Errorf("the claim is %s, fence %d, of run %d, want %s, %d", c.Status, c.Fence, c.Run, test.claim, test.fence)
				}
				if len(b.sent) > 0 {
					t.Errorf("sent %v for a dead letter", b.sent)
				}
			})
		})
	}
}

// What says nothing about an execution, and what looks like a hint and is none.
func TestADeadLetterOfNobodyKnowsWhatEndsNothing(t *testing.T) { // E4
	inBubble(t, func(t *testing.T, b *bench) {
		b.ReconcileAge = 24 * time.Hour
		b.runs(t, "82f3", 1)
		b.runs(t, "done", 1)
		b.claims(t, "done", completed)
		b.dead.all = []message.Dead{
			{Sequence: 1, CorrelationID: "82f3", Body: []byte("no event"), Reason: "MaxDeliveryCountExceeded"}, // the innocent one's name, and nobody's message
			{Sequence: 2, CorrelationID: "done", Body: nil, Reason: "TTLExpiredException"},
			{Sequence: 3, CorrelationID: "not an id", Body: []byte("{}"), Reason: "TTLExpiredException"},
			{Sequence: 4, CorrelationID: "unknown", Body: []byte("{}"), Reason: "TTLExpiredException"},
		}
		b.buryTask(t, message.Task{ExecutionID: "82f3", Run: 1, Type: "t", Payload: jsontext.Value(`{"a":2}`), Deadline: time.Now(), NotAfter: time.Now()}, "TTLExpiredException")
		b.bury(t, "unknown", 1, "TTLExpiredException")
		b.reconcileFor(t, oneRound)
		if e := b.load(t, "82f3").Execution; e.Status != execution.Running || b.claim(t, "82f3").ID != "" {
			t.Errorf("the innocent execution is %s with the claim %+v", e.Status, b.claim(t, "82f3"))
		}
		if e := b.load(t, "done").Execution; e.Status != execution.Completed {
			t.Errorf("the execution whose claim is completed is %s", e.Status)
		}
		if c := b.claim(t, "unknown"); c.ID != "" {
			t.Errorf("a claim of no execution: %+v", c)
		}
	})
}

// Every row of E5: what becomes of an execution that has been running for long.
func TestAnOldExecutionIsEndedByItsClaimOrSentAgain(t *testing.T) { // E5
	const notAfter = execution.NotAfterAfter + time.Hour
	for _, test := range []struct {
		what    string
		run     int
		stands  func(*claim.Claim)
		after   time.Duration // from creation to the claim's last write
		later   time.Duration // from there to the look
		status  execution.Status
		failure string
		claim   claim.Status
		fence   int64
		sent    int
	}{
		{"completed", 1, completed, 0, 0, execution.Completed, "", claim.Completed, 3, 0},
		{"failed", 1, failed, 0, 0, execution.Failed, "DownstreamRejected", claim.Failed, 3, 0},
		{"the lease stands", 1, held, 14 * time.Minute, 4 * time.Minute, execution.Running, "", claim.InProgress, 3, 0},
		{"released, and its time is to come", 1, waits, 0, 0, execution.Running, "", claim.InProgress, 3, 0},
		{"keyless, the call began", 1, called, 0, 0, execution.Failed, message.OutcomeUnknown, claim.Failed, 4, 0},
		{"past notAfter, none", 1, nil, notAfter, 0, execution.Failed, message.TooOld, claim.Failed, 1, 0},
		{"past notAfter, stale", 1, held, notAfter, 2 * lease, execution.Failed, message.TooOld, claim.Failed, 4, 0},
		{"none", 1, nil, 0, 0, execution.Running, "", "", 0, 1},
		{"failed of an earlier run", 2, failed, 0, 0, execution.Running, "", claim.Failed, 3, 1},
		{"released", 1, released, 0, 0, execution.Running, "", claim.InProgress, 3, 1},
		{"stale, keyed", 1, held, 0, 0, execution.Running, "", claim.InProgress, 3, 1},
		{"stale, keyless, no call", 1, keyless, 0, 0, execution.Running, "", claim.InProgress, 3, 1},
		{"cancelled, which its execution must have been", 1, cancelled, 0, 0, execution.Running, "", claim.Cancelled, 3, 0},
	} {
		t.Run(test.what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				ticket := b.runs(t, "82f3", test.run).ETag
				time.Sleep(test.after)
				b.claims(t, "82f3", test.stands)
				time.Sleep(test.later)
				if rest := b.ReconcileAge - test.after - test.later; rest > 0 {
					b.reconcileFor(t, time.Second)
					if len(b.sent) > 0 || b.load(t, "82f3").ETag != ticket {
						t.Errorf("younger than %v, it was looked at", b.ReconcileAge)
					}
					time.Sleep(rest)
				}
				b.reconcileFor(t, oneRound)
				e := b.load(t, "82f3").Execution
				if e.Status != test.status || e.Failure != nil && e.Failure.Reason != test.failure || (e.Failure == nil) != (test.failure == "") {
					t.Errorf("the execution is %s, %+v, want %s %s", e.Status, e.Failure, test.status, test.failure)
				}
				if c := b.claim(t, "82f3"); c.Status != test.claim || c.Fence != test.fence {
					t.Errorf("the claim is %s, fence %d, want %s, %d", c.Status, c.Fence, test.claim, test.fence)
				}
				if len(b.sent) != test.sent {
					t.Fatalf("sent %d tasks, want %d", len(b.sent), test.sent)
				}
				for _, m := range b.sent {
					task, err := message.ParseTask(m.Body)
					if err != nil || task.Run != test.run || task.ExecutionETag != string(ticket) || task.Type != "t" || !task.Deadline.Equal(e.Deadline) || !task.NotAfter.Equal(e.NotAfter) {
						t.Errorf("%v: %+v, want run %d under the ticket %s", err, task, test.run, ticket)
					}
					if !strings.HasPrefix(m.ID, "82f3/copy/") || m.CorrelationID != "82f3" {
						t.Errorf("sent as %s of %s", m.ID, m.CorrelationID)
					}
				}
			})
		})
	}
}

func TestATaskIsSentAgainAtDoublingAgesAndByOneOfSeveral(t *testing.T) { // E5
	inBubble(t, func(t *testing.T, b *bench) {
		b.ReconcilePeriod = time.Minute
		begun := time.Now()
		ticket := b.runs(t, "82f3", 1).ETag
		var ages []time.Duration
		b.Send = func(ctx context.Context, m message.Message) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			ages = append(ages, time.Since(begun).Round(time.Minute))
			b.sent = append(b.sent, m)
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		for range 3 {
			go func() { done <- b.Reconcile(ctx) }()
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		cancel()
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		want := []time.Duration{15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour}
		if len(ages) != len(want) {
			t.Fatalf("sent at the ages %v, want about %v", ages, want)
		}
		ids := map[string]bool{}
		for i, m := range b.sent {
			if late := ages[i] - want[i]; late < 0 || late > time.Duration(i+2)*time.Minute {
				t.Errorf("sent at the age %v, want %v", ages[i], want[i])
			}
			ids[m.ID] = true
		}
		if len(ids) != len(want) {
			t.Errorf("one id for several copies: %v", ids)
		}
		if b.load(t, "82f3").ETag != ticket {
			t.Error("counting has changed the ticket")
		}
		if left := b.unsent(t); len(left) > 0 {
			t.Errorf("the relay would take %v", left)
		}
	})
}

// A dead letter of a run that its execution does not know, as after a restore of the
// store, keeps none of those behind it waiting.
func TestADeadLetterThatNothingFitsKeepsNoOtherWaiting(t *testing.T) { // E4
	inBubble(t, func(t *testing.T, b *bench) {
		b.runs(t, "restored", 1)
		b.runs(t, "82f3", 1)
		b.bury(t, "restored", 5, "MaxDeliveryCountExceeded")
		b.bury(t, "82f3", 1, "MaxDeliveryCountExceeded")
		b.reconcileFor(t, oneRound)
		if s := b.load(t, "82f3").Execution.Status; s != execution.Failed {
			t.Errorf("it is %s, want the dead letter behind the other seen", s)
		}
		if s := b.load(t, "restored").Execution.Status; s != execution.Running {
			t.Errorf("what was restored is %s", s)
		}
	})
}

// All of them have read that it was never sent again before the first one counts.
func TestOfSeveralProcessesAtOnceOneSendsAgain(t *testing.T) { // E5
	inBubble(t, func(t *testing.T, b *bench) {
		b.runs(t, "82f3", 1)
		time.Sleep(b.ReconcileAge)
		b.arm(t, control.Rule{Match: control.Match{Operation: "create"}, Do: "delay", Delay: control.Duration(time.Second)})
		before := b.hub.Last()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		for range 3 {
			go func() { done <- b.Reconcile(ctx) }()
		}
		time.Sleep(oneRound)
		synctest.Wait()
		cancel()
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		refused := 0
		for _, e := range b.hub.Events(before) {
			if e.Operation == "create" && e.Status == http.StatusConflict {
				refused++
			}
		}
		if len(b.sent) != 1 || refused != 2 {
			t.Errorf("sent %d times, and %d were too late to count, want 1 and 2", len(b.sent), refused)
		}
	})
}

func TestNoExecutionIsFailedWhoseClaimIsCompleted(t *testing.T) { // E4
	inBubble(t, func(t *testing.T, b *bench) {
		for _, id := range []string{"healed", "letter", "failed", "gone"} {
			b.runs(t, id, 1)
			b.fails(t, id, "AttemptsExhausted")
		}
		b.claims(t, "healed", completed)
		b.claims(t, "letter", completed)
		b.claims(t, "failed", failed)
		b.bury(t, "letter", 1, "MaxDeliveryCountExceeded")
		stands := b.load(t, "failed").ETag
		b.reconcileFor(t, 2*b.ReconcilePeriod)
		for _, id := range []string{"healed", "letter"} {
			if e := b.load(t, id).Execution; e.Status != execution.Completed || e.History[len(e.History)-1].What != "recovered" {
				t.Errorf("%s is %s, %+v", id, e.Status, e.History)
			}
		}
		if b.load(t, "failed").ETag != stands || b.load(t, "gone").Execution.Status != execution.Failed || b.claim(t, "gone").ID != "" {
			t.Error("a failed execution was touched whose claim says nothing else")
		}
	})
}

// More failed executions than one round looks at, and the last one is to be healed.
func TestFailedExecutionsAreLookedAtInTurn(t *testing.T) { // E4
	inBubble(t, func(t *testing.T, b *bench) {
		for i := range 130 {
			id := fmt.Sprintf("e%03d", i)
			b.runs(t, id, 1)
			b.fails(t, id, "AttemptsExhausted")
		}
		last := "" // of the listing, whatever its order
		for from := execution.Cursor(""); last == "" || from != ""; {
			ids, next, err := b.Store.Unchanged(t.Context(), execution.Failed, 0, time.Hour, from)
			if err != nil {
				t.Fatal(err)
			}
			last, from = ids[len(ids)-1], next
		}
		b.claims(t, last, completed)
		b.reconcileFor(t, oneRound)
		if e := b.load(t, last).Execution; e.Status != execution.Failed {
			t.Errorf("%s in the first round", e.Status)
		}
		b.reconcileFor(t, oneRound+b.ReconcilePeriod)
		if e := b.load(t, last).Execution; e.Status != execution.Completed {
			t.Errorf("%s after two rounds", e.Status)
		}
	})
}

// A round in which there is nothing to do costs one look at the dead letters, and
// one query for each of the two states.
func TestARoundWithNothingToDoCostsThreeLooks(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		before := b.hub.Last()
		b.reconcileFor(t, oneRound)
		requests := 0
		for _, e := range b.hub.Events(before) {
			if e.Kind == "request" {
				requests++
			}
		}
		if requests != 2 || b.dead.browse != 1 {
			t.Errorf("%d requests of the store and %d looks at the dead letters, want 2 and 1", requests, b.dead.browse)
		}
	})
}

// What a round could not look at, since the store was away, the next one does.
func TestADeadLetterIsNotForgottenWhileTheStoreIsAway(t *testing.T) { // E4
	inBubble(t, func(t *testing.T, b *bench) {
		b.ReconcileAge = 24 * time.Hour
		b.runs(t, "82f3", 1)
		b.bury(t, "82f3", 1, "TTLExpiredException")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		b.arm(t, control.Rule{Name: "away", Match: control.Match{Operation: "read"}, Do: "answer", Status: http.StatusTooManyRequests})
		go func() { done <- b.Reconcile(ctx) }()
		time.Sleep(b.ReconcilePeriod / 2)
		if err := b.hub.Disarm("away"); err != nil {
			t.Fatal(err)
		}
		if e := b.load(t, "82f3").Execution; e.Status != execution.Running {
			t.Errorf("%s while the store is away", e.Status)
		}
		time.Sleep(b.ReconcilePeriod)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if e := b.load(t, "82f3").Execution; e.Status != execution.Failed {
			t.Errorf("%s, want FAILED", e.Status)
		}
		if b.dead.browse != 2 {
			t.Errorf("%d looks", b.dead.browse)
		}
	})
}
