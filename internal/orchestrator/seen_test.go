package orchestrator_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/execution"
	"oneeffect/internal/orchestrator"
)

// A second completion is written down nowhere, and its picture has it all the same.
func TestATimelineShowsTheEventsThatChangedNothing(t *testing.T) { // E1 E2
	inBubble(t, func(t *testing.T, b *bench) {
		b.create(t, "82f3")
		b.deliver(t, completion("82f3", "", "sha256:1"), 1)
		entries := func() string {
			line := read[struct {
				Entries []struct{ Source, What string } `json:"entries"`
			}](t, b.ask(http.MethodGet, "/v1/executions/82f3/timeline", ""), http.StatusOK)
			var all []string
			for _, e := range line.Entries {
				all = append(all, e.Source+" "+e.What)
			}
			return strings.Join(all, ", ")
		}
		if got, want := entries(), "execution created, execution completed"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		time.Sleep(time.Second)
		b.deliver(t, completion("82f3", "", "sha256:1"), 2)
		time.Sleep(time.Second)
		b.deliver(t, completion("82f3", "", "sha256:2"), 1)
		if got, want := entries(), "execution created, execution completed, seen no-op, seen contradiction"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		for range 20 {
			b.deliver(t, completion("82f3", "", "sha256:1"), 2)
		}
		if got := strings.Count(entries(), "seen"); got != 8 {
			t.Errorf("%d sights are kept of one execution, want the newest 8", got)
		}
	})
}

// A worker that was refused a write says so with the event that it publishes all the
// same: in the picture that stands once, before what the event came to, whether the
// event changed something or not.
func TestATimelineShowsWhoWasRefusedAWrite(t *testing.T) { // E1
	inBubble(t, func(t *testing.T, b *bench) {
		entries := func(id string) string {
			line := read[struct {
				Entries []struct {
					Source, What, Detail string
					Fence                int64
				} `json:"entries"`
			}](t, b.ask(http.MethodGet, "/v1/executions/"+id+"/timeline", ""), http.StatusOK)
			var all []string
			for _, e := range line.Entries {
				all = append(all, strings.TrimSpace(fmt.Sprint(e.Source, " ", e.What, " ", e.Detail)))
				if e.Source == "seen" && e.Fence > 0 {
					all[len(all)-1] += fmt.Sprint(" of fence ", e.Fence)
				}
			}
			return strings.Join(all, ", ")
		}
		second := completion("82f3", "", "sha256:1")
		second.Completed.Fenced = 1
		b.create(t, "82f3")
		b.deliver(t, completion("82f3", "", "sha256:1"), 1)
		time.Sleep(time.Second)
		for range 2 {
			b.deliver(t, second, 1)
		}
		if got, want := entries("82f3"), "execution created, execution completed, seen fenced TaskCompleted of fence 1, seen no-op, seen no-op"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		first := completion("83f3", "", "sha256:1")
		first.Completed.Fenced = 1
		b.create(t, "83f3")
		b.deliver(t, first, 1)
		if got, want := entries("83f3"), "execution created, execution completed, seen fenced TaskCompleted of fence 1"; got != want {
			t.Errorf("of the event that completes: %s, want %s", got, want)
		}
	})
}

// Who draws pages is told what changes, and not what there was before.
func TestWhatChangesIsToldOnceTheListIsNew(t *testing.T) { // O3
	inBubble(t, func(t *testing.T, b *bench) {
		var mu sync.Mutex
		var told []string
		b.Changed = func(page []execution.Summary) {
			mu.Lock()
			defer mu.Unlock()
			for _, s := range page {
				told = append(told, s.ExecutionID+" "+string(s.Status))
			}
		}
		b.create(t, "before")
		defer b.follow()()
		time.Sleep(3 * time.Second)
		b.create(t, "after")
		time.Sleep(3 * time.Second)
		b.deliver(t, completion("before", "", "sha256:1"), 1)
		time.Sleep(3 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if got, want := strings.Join(told, ", "), "after RUNNING, before COMPLETED"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// Who draws pages shows nothing from before a feed that was begun anew: what has changed
// since is in no page of the feed that is news.
func TestWhoeverIsToldOfChangesLooksAnewWhenTheFeedHasBegunAnew(t *testing.T) { // O3
	inBubble(t, func(t *testing.T, b *bench) {
		told := make(chan []execution.Summary, 100)
		b.Changed = func(page []execution.Summary) { told <- page }
		anew := func() (n int) {
			for len(told) > 0 {
				if page := <-told; len(page) == 0 {
					n++
				}
			}
			return n
		}
		b.create(t, "before")
		defer b.follow()()
		time.Sleep(3 * time.Second)
		if n := anew(); n != 1 {
			t.Errorf("when the list is as new as the store for the first time, it is said %d times that anything may have changed, want 1", n)
		}
		b.arm(t, control.Rule{Match: control.Match{Operation: "change-feed"}, Do: "answer", Status: http.StatusBadRequest, Times: 1})
		b.create(t, "meanwhile")
		time.Sleep(5 * time.Second)
		if n := anew(); n != 1 {
			t.Errorf("after the feed has begun anew it is said %d times that anything may have changed, want 1", n)
		}
		time.Sleep(time.Minute)
		if n := anew(); n != 0 {
			t.Errorf("then it is said %d times more", n)
		}
	})
}

func TestATextIsLookedForInWhatTheListShows(t *testing.T) { // O3
	inBubble(t, func(t *testing.T, b *bench) {
		for i := range 12 {
			b.create(t, fmt.Sprintf("e%02d", i))
		}
		defer b.follow()()
		for query, want := range map[string]string{"q=e0": "e09 e08 e07 e06 e05 e04 e03 e02 e01 e00", "q=e1&status=RUNNING": "e11 e10", "q=nothing": "", "q=e1&status=FAILED": ""} {
			if p := b.page("/v1/executions?" + query); ids(p) != want || p.Next != "" {
				t.Errorf("%s: %q, next %q; want %q", query, ids(p), p.Next, want)
			}
		}
		first := b.page("/v1/executions?q=e0&limit=6")
		if second := b.page(first.Next); ids(first) != "e09 e08 e07 e06 e05 e04" || ids(second) != "e03 e02 e01 e00" {
			t.Errorf("%q, then %q", ids(first), ids(second))
		}
		for _, query := range []string{"q=" + strings.Repeat("x", 101), "q=a&q=b", "q=%ff"} {
			if w := b.ask(http.MethodGet, "/v1/executions?"+query, ""); problemOf(t, w).Type != "urn:oneeffect:problem:"+string(orchestrator.InvalidRequest) {
				t.Errorf("%s: %d", query, w.Code)
			}
		}
		if w := b.ask(http.MethodGet, strings.Replace(first.Next, "q=e0", "q=e1", 1), ""); w.Code != http.StatusBadRequest {
			t.Errorf("another text's page: %d", w.Code)
		}
	})
}
