package cosmos_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// wantUnsent says which outbox entries are found.
func (w *world) wantUnsent(age time.Duration, want ...string) {
	w.t.Helper()
	var got []string
	for _, e := range w.unsent(age) {
		got = append(got, e.ExecutionID)
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("entries older than %v are of %v, want %v", age, got, want)
	}
}

// unsent follows the outbox to its end.
func (w *world) unsent(age time.Duration) []execution.Entry {
	w.t.Helper()
	var all []execution.Entry
	for from := execution.Cursor(""); ; {
		entries, next, err := w.db.Executions().Unsent(w.t.Context(), age, from)
		if err != nil {
			w.t.Fatal(err)
		}
		if all = append(all, entries...); next == "" {
			return all
		}
		from = next
	}
}

// A page of a query may end anywhere: what it leaves is on the next one.
func TestAnOutboxIsReadToItsEnd(t *testing.T) { // E6
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const n = 99 // with the execution as many as a batch takes
		entries := make([]execution.Entry, n)
		for i := range entries {
			entries[i] = execution.OutboxEntry("e1", fmt.Sprint("e1/run/", i+1), i+1)
		}
		e, _ := sampleExecution("e1")
		etag, err := w.db.Executions().Create(t.Context(), e, entries...)
		if err != nil {
			t.Fatal(err)
		}
		for run := n + 1; run <= n+2; run++ {
			failed := execution.Change{From: execution.Running, Status: execution.Failed, EndedAt: time.Now(), Failure: &execution.Failure{}}
			if etag, err = w.db.Executions().Change(t.Context(), "e1", failed, etag); err != nil {
				t.Fatal(err)
			}
			again := execution.Change{From: execution.Failed, Status: execution.Running, Reopened: &execution.Reopened{Run: run}}
			if etag, err = w.db.Executions().Reopen(t.Context(), "e1", again, execution.OutboxEntry("e1", fmt.Sprint("e1/run/", run), run), etag); err != nil {
				t.Fatal(err)
			}
		}
		found, err := w.db.Executions().Outbox(t.Context(), "e1")
		if err != nil || len(found) != n+2 {
			t.Errorf("%d entries (%v), want %d", len(found), err, n+2)
		}
	})
}

func TestRemovingAnOutboxEntryThatIsGoneIsNoError(t *testing.T) { // E6
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create("e1")
		_, entry := sampleExecution("e1")
		for range 2 {
			if err := w.db.Executions().Sent(t.Context(), entry); err != nil {
				t.Fatal(err)
			}
		}
		w.wantUnsent(0)

		w.arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "delete"}, Do: "answer", Status: 404, Condition: "NotFound/1002"})
		err := w.db.Executions().Sent(t.Context(), entry)
		wantError(t, err, message.ErrTransient) // a replica that lags knows nothing of it
	})
}

func TestUnsentEntriesAreOldByTheStoresClock(t *testing.T) { // E6, K4
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create("e1")
		time.Sleep(40 * time.Second)
		w.create("e2")
		w.wantUnsent(0, "e1", "e2")
		w.wantUnsent(30*time.Second, "e1")
		w.wantUnsent(time.Minute)
		w.hub.Jump(time.Minute)
		w.wantUnsent(time.Minute, "e1", "e2")
	})
}

// What is young is not asked for. What is young by the clock of the answer that shows it
// is left out all the same, and what stands behind it is found.
func TestUnsentEntriesAreFoundBehindPagesOfYoungOnes(t *testing.T) { // E6, K4
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range listedPage + 20 {
			w.create(fmt.Sprintf("e%03d", i))
		}
		w.wire.forget()
		w.wantUnsent(30 * time.Second)
		w.wire.wantOperations(t, 1)

		time.Sleep(time.Minute)
		w.create("young")
		if entries := w.unsent(30 * time.Second); len(entries) != listedPage+20 {
			t.Errorf("%d entries are older than 30s, want %d", len(entries), listedPage+20)
		}
		pages := 0
		w.wire.cut(func(r *http.Request) (*http.Response, error) {
			response, err := w.wire.next.Do(r)
			if err == nil && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/docs") {
				if pages++; pages == 1 { // by this clock it is a minute ago
					response.Header.Set("Date", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat))
				}
			}
			return response, err
		})
		entries, next, err := w.db.Executions().Unsent(t.Context(), 30*time.Second, "")
		if err != nil || len(entries) != 20 || next != "" || pages != 2 {
			t.Errorf("%d entries of %d pages, next %q, %v; want the 20 of the second", len(entries), pages, next, err)
		}
	})
}

// listedPage is how many entries a page has at most.
const listedPage = 100
