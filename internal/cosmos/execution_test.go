package cosmos_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/go-json-experiment/json/jsontext"

	"oneeffect/emulator/control"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

func sampleExecution(id string) (execution.Execution, execution.Entry) {
	at := time.Date(2026, 11, 30, 17, 0, 0, 123456789, time.UTC)
	return execution.Execution{
		ID: id, ExecutionID: id, Kind: execution.KindExecution, Type: "customer.create",
		Payload: jsontext.Value(`{"name":"Ada"}`), Request: "sha256:00", Status: execution.Running, Run: 1,
		CreatedAt: at, Deadline: at.Add(execution.DeadlineAfter), NotAfter: at.Add(execution.NotAfterAfter),
		History: []execution.Note{{At: at, What: "created", To: execution.Running, Run: 1}},
		Unknown: jsontext.Value(`{"parent":"order-1"}`),
	}, execution.OutboxEntry(id, message.TaskMessageID(id, 1), 1)
}

func (w *world) create(id string) execution.ETag {
	w.t.Helper()
	e, entry := sampleExecution(id)
	etag, err := w.db.Executions().Create(w.t.Context(), e, entry)
	if err != nil {
		w.t.Fatal(err)
	}
	return etag
}

func (w *world) load(id string) execution.Stored {
	w.t.Helper()
	stored, err := w.db.Executions().Load(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return stored
}

func TestAnExecutionAndItsOutboxEntryAreOneWrite(t *testing.T) { // E6
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		etag := w.create("e1")
		stored := w.load("e1")
		want, entry := sampleExecution("e1")
		if got := text(t, stored.Execution); got != text(t, want) || stored.ETag != etag {
			t.Errorf("loaded %s under %s\nwant %s under %s", got, stored.ETag, text(t, want), etag)
		}
		if entries := w.unsent(0); len(entries) != 1 || entries[0] != entry {
			t.Errorf("the outbox is %v, want %v", entries, entry)
		}
		for _, r := range w.wire.wantOperations(t, 3)[:1] {
			if r.Header.Get("X-Ms-Cosmos-Batch-Atomic") != "True" {
				t.Error("the execution was not created by an atomic batch")
			}
		}
	})
}

func TestARefusedBatchLeavesNothing(t *testing.T) { // E6
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		etag := w.create("e1")
		again, entry := sampleExecution("e1")
		if err := w.db.Executions().Sent(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
		again.Request = "sha256:another"
		_, err := w.db.Executions().Create(t.Context(), again, entry)
		wantError(t, err, message.ErrExists)
		w.wantUnsent(0)
		if stored := w.load("e1"); stored.ETag != etag || stored.Execution.Request != "sha256:00" {
			t.Errorf("a second create changed the execution: %s", text(t, stored.Execution))
		}

		// An entry without its execution cannot come to be. If it did, the batch
		// that meets it must not leave the execution behind.
		e2, entry := sampleExecution("e2")
		stray := []byte(text(t, entry))
		if _, err := w.sdk("executions").CreateItem(t.Context(), azcosmos.NewPartitionKeyString("e2"), stray, nil); err != nil {
			t.Fatal(err)
		}
		_, err = w.db.Executions().Create(t.Context(), e2, entry)
		wantError(t, err, message.ErrExists)
		_, err = w.db.Executions().Load(t.Context(), "e2")
		wantError(t, err, message.ErrNotFound)
	})
}

func TestALostBatchIsUnknownAndStandsWhole(t *testing.T) { // E6, K1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rule := w.arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "batch"}, When: "after", Do: "hold"})
		wait := w.whileHeld(rule, control.Release{Action: "drop"})
		e, entry := sampleExecution("e1")
		_, err := w.db.Executions().Create(t.Context(), e, entry)
		wait()
		wantError(t, err, message.ErrUnknown)
		w.wire.wantOperations(t, 1)
		if got := w.load("e1"); got.Execution.Status != execution.Running {
			t.Errorf("the execution is %s, want it RUNNING", got.Execution.Status)
		}
		w.wantUnsent(0, "e1")
	})
}

func TestAChangeHappensOnceUnderItsTicket(t *testing.T) { // E1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ticket := w.create("e1")
		at := time.Date(2026, 11, 30, 17, 5, 0, 5, time.UTC)
		change := execution.Change{
			From: execution.Running, Status: execution.Completed, EndedAt: at,
			Result: &execution.Result{Ref: "/customers/<1>", Digest: "sha256:11", Fence: 3},
			Note:   execution.Note{At: at, What: "completed", From: execution.Running, To: execution.Completed, Run: 1, Fence: 3},
		}
		w.wire.forget()
		etag, err := w.db.Executions().Change(t.Context(), "e1", change, ticket)
		if err != nil {
			t.Fatal(err)
		}
		w.wire.wantOperations(t, 1) // no read
		want, _ := sampleExecution("e1")
		want.Status, want.EndedAt, want.Result = change.Status, at, change.Result
		want.History = append(want.History, change.Note)
		stored := w.load("e1")
		if got := text(t, stored.Execution); got != text(t, want) || stored.ETag != etag {
			t.Errorf("loaded %s under %s\nwant %s under %s", got, stored.ETag, text(t, want), etag)
		}

		_, err = w.db.Executions().Change(t.Context(), "e1", change, ticket)
		wantError(t, err, message.ErrConflict)
		if again := w.load("e1"); again.ETag != etag || len(again.Execution.History) != 2 {
			t.Errorf("a refused change left %s", text(t, again.Execution))
		}
		_, err = w.db.Executions().Change(t.Context(), "e1", change, "")
		wantError(t, err, message.ErrRefused)
		_, err = w.db.Executions().Change(t.Context(), "nobody", change, ticket)
		wantError(t, err, message.ErrNotFound)
	})
}

// Whoever has written a change shows it without a look, as With makes it.
func TestWhatStandsAfterAChangeIsWhatItSays(t *testing.T) { // E3 E7
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		etag := w.create("e1")
		want := w.load("e1").Execution
		at := time.Date(2026, 11, 30, 17, 5, 0, 5, time.UTC)
		const running, completed, failed = execution.Running, execution.Completed, execution.Failed
		for _, change := range []execution.Change{
			{From: running, FromRun: 1, Status: running, Note: execution.Note{At: at, What: "seen"}},
			{From: running, FromRun: 1, Status: failed, EndedAt: at, Failure: &execution.Failure{Reason: "TooOld", Fence: 2}, Note: execution.Note{At: at, What: "failed"}},
			{From: failed, FromRun: 1, Status: running, Reopened: &execution.Reopened{Run: 2, Deadline: at.Add(time.Hour), Asserted: true}},
			{From: running, FromRun: 2, Status: failed, EndedAt: at, Failure: &execution.Failure{Reason: "TooOld", Fence: 3}},
			{From: failed, FromRun: 2, Status: running, Reopened: &execution.Reopened{Run: 3, Deadline: at.Add(2 * time.Hour)}},
			{From: running, FromRun: 3, Status: completed, EndedAt: at, Result: &execution.Result{Ref: "/c/1", Digest: "sha256:1", Fence: 4}},
		} {
			var err error
			if change.Reopened == nil {
				etag, err = w.db.Executions().Change(t.Context(), "e1", change, etag)
			} else {
				etag, err = w.db.Executions().Reopen(t.Context(), "e1", change, execution.OutboxEntry("e1", "e1/run", change.Reopened.Run), etag)
			}
			if err != nil {
				t.Fatal(err)
			}
			want = want.With(change)
			if stored := w.load("e1"); text(t, stored.Execution) != text(t, want) || stored.ETag != etag {
				t.Errorf("after %+v there is %s under %s\nwant %s under %s", change, text(t, stored.Execution), stored.ETag, text(t, want), etag)
			}
		}
	})
}

// The first end of a part is one patch and no read, whatever else was written to its
// orchestration meanwhile; the answer shows what stands then.
func TestAPartIsJoinedOnceWithoutALook(t *testing.T) { // E1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		whole, entries, err := execution.NewOrchestration("e1", make([]execution.Part, 12), "sha256:00", time.Now().UTC())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.db.Executions().Create(t.Context(), whole, entries...); err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{11, 0} {
			w.wire.forget()
			end := execution.Part{ExecutionID: fmt.Sprintf("e1:%d", i), Status: execution.Completed, Run: 1, Ref: "/c/<1>", Digest: "sha256:1"}
			joined, note, _ := execution.Unseen("e1", end, time.Now().UTC())
			shown, err := w.db.Executions().Join(t.Context(), "e1", joined, note)
			if err != nil {
				t.Fatal(err)
			}
			w.wire.wantOperations(t, 1)
			stored := w.load("e1")
			if text(t, stored) != text(t, shown) || shown.Execution.Tasks[i].Ref != "/c/<1>" || shown.Execution.History[len(shown.Execution.History)-1] != note {
				t.Errorf("part %d: shown %s\nstored %s", i, text(t, shown), text(t, stored))
			}
			_, err = w.db.Executions().Join(t.Context(), "e1", joined, note)
			wantError(t, err, message.ErrConflict) // it has ended there
			joined.Index++
			_, err = w.db.Executions().Join(t.Context(), "e1", joined, note)
			wantError(t, err, message.ErrConflict) // another stands there
			joined.Part.ExecutionID = "' OR '' = '"
			_, err = w.db.Executions().Join(t.Context(), "e1", joined, note)
			wantError(t, err, message.ErrRefused)
			if again := w.load("e1"); again.ETag != shown.ETag {
				t.Error("a refused join has written")
			}
		}
	})
}

// Whoever brings the ETag of an execution that has ended says that it is running.
func TestAChangeLeavesTheStateThatItSays(t *testing.T) { // E1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ticket := w.create("e1")
		change := execution.Change{From: execution.Running, Status: execution.Completed, Note: execution.Note{What: "completed"}}
		etag, err := w.db.Executions().Change(t.Context(), "e1", change, ticket)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.db.Executions().Change(t.Context(), "e1", change, etag)
		wantError(t, err, message.ErrConflict)
		other := execution.Change{From: execution.Completed, FromRun: 2, Status: execution.Completed}
		_, err = w.db.Executions().Change(t.Context(), "e1", other, etag)
		wantError(t, err, message.ErrConflict) // it is of another run
		change.From = execution.Failed
		_, err = w.db.Executions().Reopen(t.Context(), "e1", change, execution.OutboxEntry("e1", "e1/run/2", 2), etag)
		wantError(t, err, message.ErrConflict)
		w.wantUnsent(0, "e1")
		if stored := w.load("e1"); stored.ETag != etag || len(stored.Execution.History) != 2 {
			t.Errorf("a refused change left %s", text(t, stored.Execution))
		}
		change.From = ""
		_, err = w.db.Executions().Change(t.Context(), "e1", change, etag)
		wantError(t, err, message.ErrRefused)
	})
}

func TestExecutionsAreListedByStateAndLastWrite(t *testing.T) { // E4 E5, K4
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const n = 230 // more than two pages
		for i := range n {
			w.create(fmt.Sprintf("old-%03d", i))
		}
		ended := w.create("ended")
		if _, err := w.db.Executions().Change(t.Context(), "ended", execution.Change{
			From: execution.Running, Status: execution.Failed, Note: execution.Note{What: "failed"},
		}, ended); err != nil {
			t.Fatal(err)
		}
		w.hub.Jump(time.Minute)
		w.create("young")
		unchanged := func(in execution.Status, least, most time.Duration) map[string]bool {
			found := map[string]bool{}
			for from := execution.Cursor(""); ; {
				ids, next, err := w.db.Executions().Unchanged(t.Context(), in, least, most, from)
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range ids {
					if found[id] {
						t.Errorf("%s is listed twice", id)
					}
					found[id] = true
				}
				if from = next; from == "" {
					return found
				}
			}
		}
		if found := unchanged(execution.Running, 30*time.Second, time.Hour); len(found) != n || found["young"] || found["ended"] {
			t.Errorf("%d are running for half a minute, want %d", len(found), n)
		}
		if found := unchanged(execution.Running, 0, 30*time.Second); len(found) != 1 || !found["young"] {
			t.Errorf("written within half a minute: %v, want the young one", found)
		}
		if found := unchanged(execution.Failed, 0, time.Hour); len(found) != 1 || !found["ended"] {
			t.Errorf("failed: %v, want the one that ended", found)
		}
		w.wire.forget()
		if found := unchanged(execution.Running, time.Hour, 24*time.Hour); len(found) > 0 {
			t.Errorf("running for an hour: %v", found)
		}
		w.wire.wantOperations(t, 1)
	})
}

func TestAReDispatchIsCountedOnceBesideItsExecution(t *testing.T) { // E5
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ticket := w.create("e1")
		_, err := w.db.Executions().Redispatched(t.Context(), "e1")
		wantError(t, err, message.ErrNotFound)
		first, _ := execution.Again(w.load("e1").Execution, nil, 0, time.Minute)
		if err := w.db.Executions().Redispatch(t.Context(), first, ""); err != nil {
			t.Fatal(err)
		}
		wantError(t, w.db.Executions().Redispatch(t.Context(), first, ""), message.ErrExists)
		w.hub.Jump(time.Minute)
		counted, err := w.db.Executions().Redispatched(t.Context(), "e1")
		if err != nil || counted.Redispatch != first || counted.Age != time.Minute {
			t.Errorf("%+v, %v, want %+v a minute ago", counted, err, first)
		}
		second := first
		second.Count++
		if err := w.db.Executions().Redispatch(t.Context(), second, counted.ETag); err != nil {
			t.Fatal(err)
		}
		wantError(t, w.db.Executions().Redispatch(t.Context(), second, counted.ETag), message.ErrConflict)
		if stored := w.load("e1"); stored.ETag != ticket {
			t.Errorf("the ticket %s does not fit any more: %s", ticket, stored.ETag)
		}
		w.wantUnsent(0, "e1") // of its creation, and no other
	})
}

func TestAFailureAndThenARecordLeaveTheRestAsItWas(t *testing.T) { // E3
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		etag := w.create("e1")
		at := time.Date(2026, 11, 30, 17, 5, 0, 0, time.UTC)
		failure := &execution.Failure{Reason: "AttemptsExhausted", Description: "8 starts", Outcome: "unknown", Fence: 8}
		etag, err := w.db.Executions().Change(t.Context(), "e1", execution.Change{
			From: execution.Running, Status: execution.Failed, EndedAt: at, Failure: failure,
			Note: execution.Note{At: at, What: "failed", Run: 1},
		}, etag)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.db.Executions().Change(t.Context(), "e1", execution.Change{
			From: execution.Failed, Status: execution.Failed, Note: execution.Note{At: at, What: "seen", Run: 1},
		}, etag); err != nil {
			t.Fatal(err)
		}
		got := w.load("e1").Execution
		if got.Failure == nil || *got.Failure != *failure || !got.EndedAt.Equal(at) || got.Result != nil {
			t.Errorf("a record that names neither end nor failure left %s", text(t, got))
		}
		var what []string
		for _, n := range got.History {
			what = append(what, n.What)
		}
		if !slices.Equal(what, []string{"created", "failed", "seen"}) {
			t.Errorf("the history says %v, want it appended to", what)
		}
	})
}

func TestALoadIsNoOlderThanWhatThisProcessHasSeen(t *testing.T) { // K5
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ticket := w.create("e1")
		other := w.sdk("executions")
		w.wire.forget()
		w.load("e1")
		afterCreate := w.wire.wantOperations(t, 1)[0].Header.Get("X-Ms-Session-Token")
		if afterCreate == "" {
			t.Error("the load after a create passed on no session token")
		}
		// Somebody else changes it, so that the ticket does not fit.
		var patch azcosmos.PatchOperations
		patch.AppendSet("/traceparent", "00-1")
		if _, err := other.PatchItem(t.Context(), azcosmos.NewPartitionKeyString("e1"), "e1", patch, &azcosmos.ItemOptions{IfMatchEtag: new(azcore.ETag(ticket))}); err != nil {
			t.Fatal(err)
		}
		_, err := w.db.Executions().Change(t.Context(), "e1", execution.Change{From: execution.Running, Status: execution.Cancelled}, ticket)
		wantError(t, err, message.ErrConflict)
		w.wire.forget()
		w.load("e1")
		if token := w.wire.wantOperations(t, 1)[0].Header.Get("X-Ms-Session-Token"); token == "" || token == afterCreate {
			t.Errorf("the load after a 412 passed on %q, after the create %q", token, afterCreate)
		}
	})
}

func TestAContextThatHasEndedSendsNothing(t *testing.T) { // K1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		e, entry := sampleExecution("e1")
		_, err := w.db.Executions().Create(ctx, e, entry)
		wantError(t, err, message.ErrTransient)
		w.wire.wantOperations(t, 0)
	})
}
