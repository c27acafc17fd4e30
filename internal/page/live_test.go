package page_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/page"
)

// browser is the other end of a stream, which takes what comes unless it is held.
type browser struct {
	*httptest.ResponseRecorder
	mu   sync.Mutex
	text strings.Builder
	hold chan struct{} // nil: it takes everything
}

func (*browser) SetWriteDeadline(time.Time) error { return nil }
func (*browser) SetReadDeadline(time.Time) error  { return nil }
func (*browser) Flush()                           {}

func (b *browser) Write(text []byte) (int, error) {
	if b.hold != nil {
		<-b.hold
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *browser) got() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// look opens a stream; ended is closed when it is over.
func look(ctx context.Context, p *page.Page, path string, header ...string) (b *browser, ended chan struct{}) {
	b, ended = &browser{ResponseRecorder: httptest.NewRecorder()}, make(chan struct{})
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	go func() {
		defer close(ended)
		p.Handler().ServeHTTP(b, r)
	}()
	synctest.Wait()
	return b, ended
}

func live(t *testing.T, most int) (*page.Page, context.CancelFunc) {
	t.Helper()
	p, err := page.New(page.Options{API: http.NotFoundHandler(), MaxSubscribers: most, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		if err := p.Live.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	return p, stop
}

// from is the stream of a browser that has a page as it is now.
func from(p *page.Page) string { return fmt.Sprint("/live?after=", p.Live.Now()) }

func changed(ids ...string) []execution.Summary {
	var page []execution.Summary
	for _, id := range ids {
		page = append(page, execution.Summary{ExecutionID: id, Type: "<b>", Status: execution.Running})
	}
	return page
}

func TestChangesAreToldTogetherAndInOrder(t *testing.T) { // P3
	synctest.Test(t, func(t *testing.T) {
		p, stop := live(t, 2)
		ctx, leave := context.WithCancel(t.Context())
		none := p.Live.Now()
		b, ended := look(ctx, p, from(p))
		if got := b.got(); got != "retry: 3000\n\n" {
			t.Errorf("nothing has happened: %q", got)
		}
		p.Live.Publish(changed("a"))
		synctest.Wait()
		p.Live.Publish(changed("b"))
		p.Live.Publish(changed("c", "b"))
		synctest.Wait()
		if got := strings.Count(b.got(), "event: changed"); got != 1 {
			t.Errorf("%d events at once", got)
		}
		time.Sleep(time.Second)
		if got := b.got(); strings.Count(got, "event: changed") != 2 || strings.Count(got, `"executionId":"b"`) != 1 || !strings.Contains(got, fmt.Sprintf("id: %d\n", none+2)) {
			t.Errorf("%s", got)
		}
		var many []string
		for i := range 300 {
			many = append(many, fmt.Sprint(i))
		}
		p.Live.Publish(changed(many...))
		time.Sleep(time.Second)
		if got := b.got(); !strings.HasSuffix(got, fmt.Sprintf("id: %d\nevent: missed\ndata: -\n\n", none+3)) {
			t.Errorf("too much to tell: %s", got[max(len(got)-300, 0):])
		}
		late, lateEnded := look(ctx, p, fmt.Sprint("/live?after=", none+1), "Last-Event-ID", fmt.Sprint(none+2))
		if got := late.got(); !strings.Contains(got, fmt.Sprintf("id: %d\nevent: missed", none+3)) {
			t.Errorf("to who was away: %q", got)
		}
		time.Sleep(time.Minute)
		if !strings.HasSuffix(b.got(), ":\n\n") {
			t.Error("no heartbeat")
		}
		leave()
		<-ended
		<-lateEnded
		stop()
	})
}

func TestBrowsersAreBoundedAndTheSlowOnesDropped(t *testing.T) { // P3
	synctest.Test(t, func(t *testing.T) {
		p, stop := live(t, 2)
		began := from(p)
		slow := &browser{ResponseRecorder: httptest.NewRecorder(), hold: make(chan struct{})}
		slowEnded := make(chan struct{})
		go func() {
			defer close(slowEnded)
			p.Handler().ServeHTTP(slow, httptest.NewRequestWithContext(t.Context(), http.MethodGet, from(p), nil))
		}()
		synctest.Wait()
		quick, quickEnded := look(t.Context(), p, from(p))
		third, thirdEnded := look(t.Context(), p, from(p))
		<-thirdEnded
		if third.Code != http.StatusServiceUnavailable || third.Header().Get("Retry-After") == "" {
			t.Errorf("one too many: %d", third.Code)
		}
		for i := range 20 {
			p.Live.Publish(changed(fmt.Sprint(i)))
			time.Sleep(300 * time.Millisecond)
		}
		if got := strings.Count(quick.got(), "event: changed"); got != 20 {
			t.Errorf("the quick one was told %d of 20", got)
		}
		again, againEnded := look(t.Context(), p, began)
		if !strings.Contains(again.got(), "event: missed") {
			t.Errorf("there is no place for another: %d %q", again.Code, again.got())
		}
		close(slow.hold)
		<-slowEnded
		if got := strings.Count(slow.got(), "event: changed"); got == 0 || got == 20 {
			t.Errorf("the slow one was told %d of 20", got)
		}
		stop() // ends every stream
		<-quickEnded
		<-againEnded
		refused, refusedEnded := look(t.Context(), p, "/live")
		<-refusedEnded
		if refused.Code != http.StatusServiceUnavailable {
			t.Errorf("after the end: %d", refused.Code)
		}
	})
}

// A browser that was away for a moment, or whose page was made a moment before it
// listened, is told what it has missed and need not load its page anew, as long as that
// is remembered.
func TestABrowserIsToldWhatItHasMissed(t *testing.T) { // P3
	synctest.Test(t, func(t *testing.T) {
		p, stop := live(t, 2)
		none := p.Live.Now()
		tell := func(id string) {
			p.Live.Publish(changed(id))
			time.Sleep(300 * time.Millisecond)
		}
		tell("a")
		tell("b")
		b, ended := look(t.Context(), p, fmt.Sprint("/live?after=", none))
		if got := b.got(); strings.Contains(got, "event: missed") || !strings.Contains(got, fmt.Sprintf("id: %d\nevent: changed\ndata: [{\"executionId\":\"a\"", none+1)) ||
			!strings.Contains(got, fmt.Sprintf("id: %d\nevent: changed\ndata: [{\"executionId\":\"b\"", none+2)) {
			t.Errorf("whose page was made before: %q", got)
		}
		again, againEnded := look(t.Context(), p, fmt.Sprint("/live?after=", none), "Last-Event-ID", fmt.Sprint(none+1))
		if got := again.got(); strings.Contains(got, "event: missed") || strings.Contains(got, `"a"`) || !strings.Contains(got, `"b"`) {
			t.Errorf("who was away for one event: %q", got)
		}
		for i := range 15 {
			tell(fmt.Sprint(i))
		}
		stop()
		<-ended
		<-againEnded
	})
}

func TestABrowserThatWasAwayForTooLongLooksAnew(t *testing.T) { // P3
	synctest.Test(t, func(t *testing.T) {
		p, stop := live(t, 1)
		none := p.Live.Now()
		for i := range 17 {
			p.Live.Publish(changed(fmt.Sprint(i)))
			time.Sleep(300 * time.Millisecond)
		}
		for after, want := range map[uint64]string{
			none:      fmt.Sprintf("retry: 3000\n\nid: %d\nevent: missed\ndata: -\n\n", none+17),
			none + 18: fmt.Sprintf("retry: 3000\n\nid: %d\nevent: missed\ndata: -\n\n", none+17), // of another process
			none + 17: "retry: 3000\n\n",
		} {
			ctx, leave := context.WithCancel(t.Context())
			b, ended := look(ctx, p, fmt.Sprint("/live?after=", after))
			if got := b.got(); got != want {
				t.Errorf("after event %d of 17: %q, want %q", after-none, got, want)
			}
			leave()
			<-ended
		}
		stop()
	})
}

// Pages that show what was before the feed began anew look anew, whatever they show.
func TestWhenAnythingMayHaveChangedEveryPageLooksAnew(t *testing.T) { // P3
	synctest.Test(t, func(t *testing.T) {
		p, stop := live(t, 1)
		none := p.Live.Now()
		b, ended := look(t.Context(), p, from(p))
		p.Live.Publish(changed("a"))
		p.Live.Publish(nil)
		p.Live.Publish(changed("b"))
		time.Sleep(time.Second)
		if got, want := b.got(), fmt.Sprintf("id: %d\nevent: missed\ndata: -\n\n", none+1); !strings.Contains(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		stop()
		<-ended
	})
}

// What another process has told, one of before a restart or one beside this, says
// nothing of what this one has: a browser that comes from there looks anew, also if
// both have told as much.
func TestABrowserOfAnotherProcessLooksAnew(t *testing.T) { // P3
	synctest.Test(t, func(t *testing.T) {
		before, stopBefore := live(t, 1)
		after, stopAfter := live(t, 1)
		before.Live.Publish(changed("a"))
		after.Live.Publish(changed("b"))
		time.Sleep(time.Second)
		b, ended := look(t.Context(), after, from(before))
		if !strings.Contains(b.got(), "event: missed") {
			t.Errorf("it is told %q", b.got())
		}
		stopBefore()
		stopAfter()
		<-ended
	})
}

func TestHoweverManyLookTheStoreIsAskedOnce(t *testing.T) { // P3
	inBubble(t, func(t *testing.T, b *bench) {
		asked := func(while func()) int {
			last := b.hub.Last()
			while()
			time.Sleep(time.Minute)
			return len(b.hub.Events(last))
		}
		time.Sleep(500 * time.Millisecond) // between two looks at the store
		nobody := asked(func() {})
		ctx, leave := context.WithCancel(t.Context())
		var all []*browser
		var ended []chan struct{}
		three := asked(func() {
			for range 3 {
				looks, end := look(ctx, b.page, from(b.page))
				all, ended = append(all, looks), append(ended, end)
			}
		})
		if three != nobody || nobody == 0 {
			t.Errorf("the store is asked %d times in a minute while three look, %d times while nobody does", three, nobody)
		}
		b.submit(`{"executionId":"82f3","type":"customer.create","payload":{}}`)
		leave()
		for i, end := range ended {
			if <-end; !strings.Contains(all[i].got(), `"executionId":"82f3"`) {
				t.Errorf("browser %d is told %q", i, all[i].got())
			}
		}
	})
}

// A browser comes again before its sign-in is too long ago.
func TestAStreamEndsAfterTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := live(t, 2)
		began := time.Now()
		_, ended := look(t.Context(), p, from(p))
		<-ended
		if took := time.Since(began); took != 10*time.Minute {
			t.Errorf("after %v", took)
		}
		stop()
	})
}

// BenchmarkHundredBrowsers is one change told to a hundred browsers over loopback,
// their own reading included. At four a second, which is the most, %core is what of a
// processor that takes.
func BenchmarkHundredBrowsers(b *testing.B) {
	p, err := page.New(page.Options{API: http.NotFoundHandler(), MaxSubscribers: 100, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Live.Run(ctx) })
	server := httptest.NewServer(p.Handler())
	told := make(chan struct{}, 100)
	for range 100 {
		r, err := http.Get(server.URL + from(p))
		if err != nil {
			b.Fatal(err)
		}
		running.Go(func() {
			defer r.Body.Close()
			lines := bufio.NewScanner(r.Body)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "data:") {
					told <- struct{}{}
				}
			}
		})
	}
	began := cpu(b)
	for i := 0; b.Loop(); i++ {
		p.Live.Publish(changed(fmt.Sprint(i, "a"), fmt.Sprint(i, "b"), fmt.Sprint(i, "c"), fmt.Sprint(i, "d"), fmt.Sprint(i, "e")))
		for range 100 {
			<-told
		}
	}
	each := (cpu(b) - began) / time.Duration(b.N)
	b.ReportMetric(float64(each.Microseconds()), "cpu-µs/change")
	b.ReportMetric(each.Seconds()*4*100, "%core")
	stop()
	running.Wait()
	server.Close()
}

func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
