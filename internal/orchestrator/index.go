package orchestrator

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"oneeffect/internal/execution"
)

// maxIndexed bounds the index. One entry is about half a KiB.
const maxIndexed = 10_000

// index holds the newest executions, as the change feed showed them: every one that
// was created at floor or later, and none that is older. What changes later in the
// feed than it was created is never missed, since an execution changes last no
// earlier than it begins.
type index struct {
	mu      sync.RWMutex
	entries []*execution.Summary // oldest first
	floor   time.Time            // a whole second
	asOf    time.Time            // when the feed was read to its end last; zero: never
}

func byAge(a, b *execution.Summary) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ExecutionID, b.ExecutionID))
}

// nextSecond is the first whole second after t.
func nextSecond(t time.Time) time.Time { return t.UTC().Truncate(time.Second).Add(time.Second) }

// begin empties the index: from now on it holds what was created at a time or later.
func (x *index) begin(floor time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.entries, x.floor, x.asOf = nil, nextSecond(floor), time.Time{}
}

// apply takes in a page of the feed; news is whether the index was as new as the
// store before, so that the page is what has changed since.
func (x *index) apply(page []execution.Summary) (news bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if news = !x.asOf.IsZero(); len(page) == 0 {
		return news
	}
	for i := range page {
		x.put(&page[i])
	}
	return news
}

func (x *index) put(s *execution.Summary) {
	if s.CreatedAt.Before(x.floor) {
		return
	}
	at, found := slices.BinarySearchFunc(x.entries, s, byAge)
	if found {
		x.entries[at] = s
	} else {
		x.entries = slices.Insert(x.entries, at, s)
	}
	if len(x.entries) > maxIndexed {
		x.raise(nextSecond(x.entries[0].CreatedAt))
	}
}

// raise forgets what is older than a floor.
func (x *index) raise(floor time.Time) {
	kept := slices.IndexFunc(x.entries, func(s *execution.Summary) bool { return !s.CreatedAt.Before(floor) })
	if kept < 0 {
		kept = len(x.entries)
	}
	x.entries, x.floor = slices.Delete(x.entries, 0, kept), floor
}

// caughtUp notes that the feed was read to its end; first is whether that is so for the
// first time since the index began.
func (x *index) caughtUp(at time.Time) (first bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	first, x.asOf = x.asOf.IsZero(), at
	return first
}

// position is a place in the order of the index: before this one, newest first.
type position struct {
	CreatedAt time.Time
	ID        string
}

// page is the newest entries that fit a filter, say a text, and are older than a position (its
// zero: the newest), and the floor that it was cut at; ok is whether the index can
// say anything at all.
func (x *index) page(f execution.Filter, text string, older position, limit int) (page []execution.Summary, floor, asOf time.Time, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	end := len(x.entries)
	if !older.CreatedAt.IsZero() {
		end, _ = slices.BinarySearchFunc(x.entries, &execution.Summary{CreatedAt: older.CreatedAt, ExecutionID: older.ID}, byAge)
	}
	page = make([]execution.Summary, 0, limit)
	for i := end - 1; i >= 0 && len(page) < limit; i-- {
		if s := x.entries[i]; fits(f, s) && says(s, text) {
			page = append(page, *s)
		}
	}
	return page, x.floor, x.asOf, !x.asOf.IsZero()
}

func fits(f execution.Filter, s *execution.Summary) bool {
	return (len(f.Statuses) == 0 || slices.Contains(f.Statuses, s.Status)) && (len(f.Types) == 0 || slices.Contains(f.Types, s.Type))
}

// says reports whether a text stands in what a list shows in words.
func says(s *execution.Summary, text string) bool {
	return text == "" || strings.Contains(s.ExecutionID, text) || strings.Contains(s.Type, text) || strings.Contains(s.Reason, text)
}
