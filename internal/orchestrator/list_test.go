package orchestrator_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/execution"
	"oneeffect/internal/orchestrator"
)

type page struct {
	Executions []execution.Summary `json:"executions"`
	Order      string              `json:"order"`
	AsOf       time.Time           `json:"asOf"`
	Next       string              `json:"next"`
}

// follow keeps the list until it is stopped.
func (b *bench) follow() (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Follow(ctx) }()
	time.Sleep(100 * time.Millisecond)
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	}
}

func (b *bench) page(path string) page {
	b.t.Helper()
	return read[page](b.t, b.ask(http.MethodGet, path, ""), http.StatusOK)
}

func ids(p page) string {
	var list []string
	for _, s := range p.Executions {
		list = append(list, s.ExecutionID)
	}
	return strings.Join(list, " ")
}

func TestTheNewestExecutionsAreListedFirstAsTheyStand(t *testing.T) { // O3
	inBubble(t, func(t *testing.T, b *bench) {
		if w := b.ask(http.MethodGet, "/v1/executions", ""); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("before anything was read: %d %s", w.Code, w.Body)
		}
		b.create(t, "old")
		defer b.follow()()
		time.Sleep(time.Second)
		for _, id := range []string{"a", "b", "c"} {
			b.create(t, id)
			time.Sleep(time.Second)
		}
		b.deliver(t, completion("b", "", "sha256:1"), 1)
		time.Sleep(2 * time.Second)
		all := b.page("/v1/executions")
		if ids(all) != "c b a old" || all.Order != "newest first" || all.Executions[1].Status != execution.Completed || all.Executions[0].ETag != b.load(t, "c").ETag {
			t.Errorf("%+v", all)
		}
		for query, want := range map[string]string{
			"?status=COMPLETED": "b", "?status=RUNNING&status=COMPLETED": "c b a old", "?type=t": "c b a old", "?type=u": "", "?status=FAILED": "", "?limit=2": "c b",
		} {
			if got := ids(b.page("/v1/executions" + query)); got != want {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
		}
		first := b.ask(http.MethodGet, "/v1/executions", "")
		etag := first.Header().Get("ETag")
		time.Sleep(time.Minute)
		if w := b.ask(http.MethodGet, "/v1/executions", "", "If-None-Match", `"x", `+etag); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("nothing has changed: %d %s", w.Code, w.Body)
		}
		b.create(t, "d")
		time.Sleep(2 * time.Second)
		if w := b.ask(http.MethodGet, "/v1/executions", "", "If-None-Match", etag); w.Code != http.StatusOK {
			t.Errorf("one more: %d", w.Code)
		}
	})
}

func TestEveryExecutionIsOnSomePage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		var want []string
		for i := range 9 {
			id := fmt.Sprintf("old-%d", i)
			b.create(t, id)
			want = append(want, id)
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(2 * b.FollowWindow)
		defer b.follow()()
		for i := range 5 {
			id := fmt.Sprintf("new-%d", i)
			b.create(t, id)
			want = append(want, id)
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		var got []string
		orders := map[string]bool{}
		for next := "/v1/executions?limit=2&status=RUNNING&type=t"; next != ""; {
			p := b.page(next)
			orders[p.Order] = true
			for _, s := range p.Executions {
				got = append(got, s.ExecutionID)
			}
			if p.Next != "" && !strings.Contains(b.ask(http.MethodGet, next, "").Header().Get("Link"), "<"+p.Next+`>; rel="next"`) {
				t.Errorf("%s has no link to %s", next, p.Next)
			}
			next = p.Next
		}
		if !slices.Equal(got[:5], []string{"new-4", "new-3", "new-2", "new-1", "new-0"}) || !orders["none"] {
			t.Errorf("%v, orders %v", got, orders)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("listed %v, want %v", got, want)
		}
	})
}

func TestAListOutlivesAnOutageOfTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		defer b.follow()()
		rule, err := b.hub.Arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "change-feed"}, Do: "answer", Status: http.StatusServiceUnavailable})
		if err != nil {
			t.Fatal(err)
		}
		b.create(t, "a")
		time.Sleep(10 * time.Minute)
		if p := b.page("/v1/executions"); ids(p) != "" || time.Since(p.AsOf) < 9*time.Minute {
			t.Errorf("%+v: want what was known, and how old that is", p)
		}
		if err := b.hub.Disarm(rule); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := ids(b.page("/v1/executions")); got != "a" {
			t.Errorf("%q", got)
		}
	})
}

func TestAListIsAskedForExactly(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		defer b.follow()()
		next, err := url.Parse(b.page("/v1/executions").Next)
		if err != nil {
			t.Fatal(err)
		}
		for query, want := range map[string]string{
			"status=DONE": "no execution has the status", "limit=0": "from 1 to 200", "limit=201": "from 1 to 200", "limit=x": "from 1 to 200", "limit=1&limit=2": "one number",
			"type=a+b": "task type contains", "sort=age": `no parameter is called "sort"`, "status=%zz": "cannot be read", "after=x": "follow that link", "after=e30": "follow that link",
			"after=" + next.Query().Get("after") + "&status=FAILED": "other filters", strings.Repeat("type=t&", 21): "more than 20",
			"after=eyJiIjoiMjAyNi0wMS0wMVQwMDowMDowMFoiLCJxIjoibm9uc2Vuc2UiLCJmIjoiMSJ9": "other filters",
		} {
			w := b.ask(http.MethodGet, "/v1/executions?"+query, "")
			if p := problemOf(t, w); w.Code != http.StatusBadRequest || !strings.Contains(p.Detail, want) {
				t.Errorf("%s: %d %q, want 400 about %q", query, w.Code, p.Detail, want)
			}
		}
	})
}

// million is a change feed of that many executions.
type million struct {
	at, ends int
	read     chan struct{} // closed when its end has been read, and looked for again
}

func (m *million) Changed(_ context.Context, _ time.Time, _ string, limit int) ([]execution.Summary, string, bool, error) {
	var page []execution.Summary
	for ; len(page) < limit && m.at < 1_000_000; m.at++ {
		page = append(page, execution.Summary{
			ExecutionID: fmt.Sprintf("e-%d", m.at*7919%1_000_000), Type: "t", Status: execution.Completed, Run: 1,
			CreatedAt: time.Now().Add(time.Duration(m.at*7919%1_000_000-1_000_000) * time.Millisecond),
		})
	}
	if len(page) == 0 {
		if m.ends++; m.ends == 2 && m.read != nil {
			close(m.read)
		}
	}
	return page, "", len(page) == 0, nil
}

func (m *million) Older(context.Context, time.Time, execution.Filter, string, int) ([]execution.Summary, string, error) {
	return nil, "", nil
}

func (m *million) Outbox(context.Context, string) ([]execution.Entry, error) { return nil, nil }

// In a bubble time stands still while something is done, so that this is no
// measurement; BenchmarkNewest is.
func TestTheIndexIsBoundedAndHoldsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &orchestrator.Orchestrator{Views: &million{}, FollowPeriod: time.Second, FollowWindow: time.Hour, Log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- o.Follow(ctx) }()
		synctest.Wait()
		time.Sleep(time.Millisecond)
		seen := 0
		for next := "/v1/executions?limit=200"; next != ""; {
			w := httptest.NewRecorder()
			o.API().ServeHTTP(w, httptest.NewRequest(http.MethodGet, next, nil))
			p := read[page](t, w, http.StatusOK)
			for _, s := range p.Executions {
				if want := fmt.Sprintf("e-%d", 999_999-seen); s.ExecutionID != want {
					t.Fatalf("the %dth newest is %s, want %s", seen, s.ExecutionID, want)
				}
				seen++
			}
			next = p.Next
		}
		if seen > 10_000 || seen < 9_000 { // what is cut off is cut at a whole second
			t.Errorf("%d are held, want nearly 10,000", seen)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkNewest(b *testing.B) {
	views := &million{read: make(chan struct{})}
	o := &orchestrator.Orchestrator{Views: views, FollowPeriod: time.Millisecond, FollowWindow: time.Hour, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Follow(ctx) }()
	<-views.read
	cancel() // the list stands, and following it is not what is measured
	if err := <-ended; err != nil {
		b.Error(err)
	}
	api := o.API()
	ask := func() int {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/executions", nil))
		return w.Code
	}
	for b.Loop() {
		if ask() != http.StatusOK {
			b.Fatal("not listed")
		}
	}
}
