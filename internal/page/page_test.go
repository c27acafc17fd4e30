package page_test

import (
	"context"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
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
	"oneeffect/internal/page"

	"github.com/go-json-experiment/json/jsontext"
)

// bench is the page in front of an orchestrator on a real store.
type bench struct {
	*orchestrator.Orchestrator
	t    *testing.T
	page *page.Page
	hub  *control.Hub
	who  *orchestrator.Principal
	dead []message.Dead
}

// Browse and Discard are the dead letters.
func (b *bench) Browse(context.Context, int64, int) ([]message.Dead, error) { return b.dead, nil }

func (b *bench) Discard(context.Context, func(message.Dead) bool, int) (int, error) { return 0, nil }

func inBubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub := control.New()
		server := emulator.New(hub, emulator.Options{})
		db, err := cosmos.Open(cosmos.Options{Endpoint: "http://cosmos.example", Key: emulator.EmulatorKey, ApplicationID: "orchestrator", Transport: server.Transport()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			hub.Close()
			db.Close()
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := db.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := &bench{t: t, hub: hub}
		b.Orchestrator = &orchestrator.Orchestrator{
			Store: db.Executions(), Views: db.Executions(), Send: func(context.Context, message.Message) error { return nil },
			ReplaySettle: 21 * time.Minute, FollowPeriod: time.Second, FollowWindow: time.Hour,
			SendTimeout: 20 * time.Second, MaxMessage: 64 << 10,
			Claims: &claim.Desk{Store: db.Claims(), Process: "orchestrator/" + claim.Nonce(), Timeout: 10 * time.Second,
				Terms: claim.Terms{Lease: 5 * time.Minute, ChallengerMargin: 5 * time.Second, Keep: 30 * 24 * time.Hour}},
			Log: slog.New(slog.DiscardHandler),
		}
		b.DeadLetters = b
		if b.page, err = page.New(page.Options{API: b.API(), MaxSubscribers: 3, Log: b.Log}); err != nil {
			t.Fatal(err)
		}
		b.Changed = b.page.Live.Publish
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- b.Follow(ctx) }()
		go func() { ended <- b.page.Live.Run(ctx) }()
		time.Sleep(2 * time.Second)
		test(t, b)
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// ask is a browser's request.
func (b *bench) ask(method, path string, form url.Values, header ...string) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if b.who != nil {
		r = r.WithContext(orchestrator.WithPrincipal(r.Context(), *b.who))
	}
	w := httptest.NewRecorder()
	b.page.Handler().ServeHTTP(w, r)
	return w
}

// submit makes an execution, and waits until the list shows it.
func (b *bench) submit(body string) {
	b.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/executions", strings.NewReader(body))
	w := httptest.NewRecorder()
	b.page.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusCreated {
		b.t.Fatalf("%d %s", w.Code, w.Body)
	}
	time.Sleep(2 * time.Second)
}

// fails ends an execution by an event.
func (b *bench) fails(id, reason string) {
	b.t.Helper()
	event := message.Event{Failed: &message.Failed{ExecutionID: id, Run: 1, Fence: 1, Reason: reason, Description: "it said no", Outcome: "unknown"}}
	m, err := event.Message(time.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	if s := b.Handle(b.t.Context(), message.Delivery{Body: m.Body, MessageID: m.ID, Count: 1}); s != message.Done() {
		b.t.Fatalf("%+v", s)
	}
	time.Sleep(2 * time.Second)
}

func TestExecutionsAreListedFilteredAndFound(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit(`{"executionId":"82f3","type":"customer.create","payload":{"name":"Ada"}}`)
		b.submit(`{"executionId":"82f4","type":"letter.print","payload":{"to":"Ada"}}`)
		b.fails("82f4", message.OutcomeUnknown)
		row := regexp.MustCompile(`data-id="([^"]*)"`)
		for path, want := range map[string]string{
			"/": "82f4 82f3", "/?status=FAILED": "82f4", "/?type=customer.create&q=": "82f3", "/?q=Outcome": "82f4", "/?q=82f": "82f4 82f3", "/?status=CANCELLED": "",
		} {
			w := b.ask(http.MethodGet, path, nil)
			var got []string
			for _, found := range row.FindAllStringSubmatch(w.Body.String(), -1) {
				got = append(got, found[1])
			}
			if w.Code != http.StatusOK || strings.Join(got, " ") != want {
				t.Errorf("%s: %d %q, want %q", path, w.Code, got, want)
			}
		}
		if w := b.ask(http.MethodGet, "/?q=82f3", nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/executions/82f3" {
			t.Errorf("an id: %d to %s", w.Code, w.Header().Get("Location"))
		}
		if w := b.ask(http.MethodGet, "/?status=DONE", nil); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `role="alert"`) || !strings.Contains(w.Body.String(), "no execution has the status") {
			t.Errorf("no such state: %d %s", w.Code, w.Body)
		}
		if w := b.ask(http.MethodGet, "/", nil, "Accept", "*/*"); !strings.HasPrefix(w.Body.String(), "oneeffect orchestrator") {
			t.Errorf("for a program: %s", w.Body)
		}
		if w := b.ask(http.MethodGet, "/executions/nobody", nil); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "no execution has this id") {
			t.Errorf("nobody's: %d", w.Code)
		}
	})
}

func TestWhatIsAskedForByAFormIsDoneByTheAPI(t *testing.T) { // P2
	inBubble(t, func(t *testing.T, b *bench) {
		for _, id := range []string{"cancelled", "sure", "unsure", "resolved"} {
			b.submit(`{"executionId":"` + id + `","type":"letter.print","payload":{}}`)
		}
		b.fails("sure", message.DownstreamRejected)
		b.fails("unsure", message.OutcomeUnknown)
		b.fails("resolved", message.OutcomeUnknown)
		time.Sleep(30 * time.Minute)
		tag := func(id string) string {
			found := regexp.MustCompile(`name="etag" value="([^"]*)"`).FindStringSubmatch(b.ask(http.MethodGet, "/executions/"+id, nil).Body.String())
			if found == nil {
				t.Fatalf("%s has no form", id)
			}
			return strings.ReplaceAll(found[1], "&#34;", `"`)
		}
		for _, test := range []struct {
			path, id string
			form     url.Values
			status   int
			says     string
		}{
			{"cancel", "cancelled", url.Values{"reason": {"x"}}, http.StatusPreconditionRequired, "If-Match"},
			{"cancel", "cancelled", url.Values{"reason": {"x"}, "etag": {`"another"`}}, http.StatusPreconditionFailed, "has changed"},
			{"cancel", "cancelled", url.Values{"reason": {"x"}, "etag": {tag("cancelled")}}, http.StatusSeeOther, "/executions/cancelled?done=cancel"},
			{"replay", "cancelled", url.Values{"reason": {"x"}}, http.StatusConflict, "only what is FAILED can be replayed"},
			{"replay", "sure", url.Values{}, http.StatusBadRequest, "there is no reason"},
			{"replay", "sure", url.Values{"reason": {"x"}, "etag": {tag("sure")}}, http.StatusSeeOther, "/executions/sure?done=replay"},
			{"replay", "unsure", url.Values{"reason": {"I think so"}}, http.StatusConflict, "either assert that there is none, or resolve it"},
			{"replay", "unsure", url.Values{"reason": {"x"}, "assertNothingApplied": {"yes"}, "back": {"/dead-letters"}}, http.StatusSeeOther, "/dead-letters?done=unsure"},
			{"resolve", "resolved", url.Values{"reason": {"x"}}, http.StatusBadRequest, "say in 1 to 2048 where the effect is"},
			{"resolve", "nobody", url.Values{"reason": {"x"}, "resultRef": {"y"}}, http.StatusNotFound, "no execution has this id"},
		} {
			w := b.ask(http.MethodPost, "/executions/"+test.id+"/"+test.path, test.form)
			if w.Code != test.status || !strings.Contains(w.Body.String()+w.Header().Get("Location"), test.says) {
				t.Errorf("%s %s %v: %d %q, want %d and %q", test.path, test.id, test.form, w.Code, w.Header().Get("Location"), test.status, test.says)
			}
		}
		if w := b.ask(http.MethodGet, "/executions/cancelled", nil); !strings.Contains(w.Body.String(), "cancelled by anonymous · x") || !strings.Contains(w.Body.String(), ">Operator</text>") {
			t.Error("the picture does not show who has cancelled")
		}
	})
}

// Somebody who looked at a dead letter has not looked at what came of a run since.
func TestAReplayOfADeadLetterIsOfTheVersionThatWasSeen(t *testing.T) { // P2
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit(`{"executionId":"82f3","type":"letter.print","payload":{}}`)
		b.fails("82f3", message.OutcomeUnknown)
		task := message.Task{ExecutionID: "82f3", Run: 1, Type: "letter.print", Payload: jsontext.Value(`{}`), Deadline: time.Now(), NotAfter: time.Now()}
		m, err := task.Message("82f3", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		b.dead = []message.Dead{{Sequence: 1, MessageID: m.ID, Body: m.Body, Reason: message.OutcomeUnknown}}
		time.Sleep(30 * time.Minute)
		form := func() url.Values {
			sent := url.Values{"reason": {"x"}, "assertNothingApplied": {"yes"}}
			for _, hidden := range regexp.MustCompile(`type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(b.ask(http.MethodGet, "/dead-letters", nil).Body.String(), -1) {
				sent.Set(hidden[1], html.UnescapeString(hidden[2]))
			}
			return sent
		}
		old := form()
		stands, err := b.Store.Load(t.Context(), "82f3")
		if err != nil {
			t.Fatal(err)
		}
		seen := execution.Change{From: execution.Failed, Status: execution.Failed, EndedAt: stands.Execution.EndedAt, Note: execution.Note{At: time.Now(), What: "seen"}}
		if _, err := b.Store.Change(t.Context(), "82f3", seen, stands.ETag); err != nil {
			t.Fatal(err)
		}
		if w := b.ask(http.MethodPost, "/executions/82f3/replay", old); w.Code != http.StatusPreconditionFailed {
			t.Errorf("as it was before: %d to %q", w.Code, w.Header().Get("Location"))
		}
		if w := b.ask(http.MethodPost, "/executions/82f3/replay", form()); w.Header().Get("Location") != "/dead-letters?done=82f3" {
			t.Errorf("as it is: %d to %q", w.Code, w.Header().Get("Location"))
		}
	})
}

// A form of another origin changes nothing, nor does one that is no form.
func TestAPageOfAnotherOriginChangesNothing(t *testing.T) { // P2
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit(`{"executionId":"82f3","type":"customer.create","payload":{}}`)
		for _, header := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "null"}} {
			for _, path := range []string{"/executions/82f3/cancel", "/v1/executions/82f3/cancel"} {
				w := b.ask(http.MethodPost, path, url.Values{"etag": {"*"}}, header...)
				if w.Code != http.StatusForbidden || w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(w.Body.String(), "urn:oneeffect:problem:"+string(orchestrator.CrossOrigin)) {
					t.Errorf("%s, %q: %d %s", path, header, w.Code, w.Body)
				}
			}
		}
		if w := b.ask(http.MethodPost, "/executions/82f3/cancel", url.Values{"etag": {"*"}}, "Content-Type", "text/plain"); w.Code != http.StatusBadRequest {
			t.Errorf("as text: %d", w.Code)
		}
		if w := b.ask(http.MethodPost, "/executions/82f3/cancel", url.Values{"reason": {strings.Repeat("x", 20<<10)}}); w.Code != http.StatusBadRequest {
			t.Errorf("too long: %d", w.Code)
		}
		if w := b.ask(http.MethodGet, "/executions/82f3", nil); !strings.Contains(w.Body.String(), ">RUNNING<") {
			t.Error("it does not run any more")
		}
		if w := b.ask(http.MethodPost, "/executions/82f3/cancel", url.Values{"etag": {"*"}, "back": {"//evil.example"}}, "Sec-Fetch-Site", "same-origin"); w.Header().Get("Location") != "/executions/82f3?done=cancel" {
			t.Errorf("its own: %d to %s", w.Code, w.Header().Get("Location"))
		}
	})
}

// Whoever may only read is shown no form. That they may not is the guard's to say.
func TestWhoMayNotOperateIsShownNoForm(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit(`{"executionId":"82f3","type":"customer.create","payload":{}}`)
		b.who = &orchestrator.Principal{Name: "ada", Roles: []orchestrator.Role{orchestrator.Read}}
		w := b.ask(http.MethodGet, "/executions/82f3", nil)
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "/cancel") || !strings.Contains(w.Body.String(), "ada") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

func TestEveryPageHasTheSamePolicyAndLoadsItsOwnFilesOnly(t *testing.T) { // P1
	inBubble(t, func(t *testing.T, b *bench) {
		const hostile = `</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>`
		b.submit(`{"executionId":"82f3","type":"letter.print","payload":{"<script>":"` + hostile + `"}}`)
		b.fails("82f3", message.DownstreamRejected)
		b.dead = []message.Dead{{Sequence: 1, MessageID: hostile, Reason: hostile, Description: hostile, Body: []byte(hostile)}}
		for _, path := range []string{"/", "/executions/82f3", "/dead-letters", "/executions/nobody", "/?q=%3Cscript%3Ealert(1)", "/executions/82f3?done=%3Cscript%3E", "/dead-letters?done=%3Cscript%3E"} {
			w := b.ask(http.MethodGet, path, nil)
			text := w.Body.String()
			if p := w.Header().Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: policy %q", path, p)
			}
			if strings.Count(text, "<script") != 1 || strings.Contains(text, "<img src=x") || strings.Contains(text, " style=") || strings.Contains(text, "onerror=alert(1)>") || strings.Contains(text, "ZgotmplZ") {
				t.Errorf("%s:\n%s", path, text)
			}
			for _, loaded := range regexp.MustCompile(`(?:src|href|action)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
				if loaded[1] != "" && loaded[1][0] != '/' && loaded[1][0] != '#' {
					t.Errorf("%s leads to %q", path, loaded[1])
				}
			}
		}
		assets := regexp.MustCompile(`/assets/[0-9a-f]{16}/`).FindString(b.ask(http.MethodGet, "/", nil).Body.String())
		for name, want := range map[string]string{"page.css": "text/css", "page.js": "javascript", "icon.svg": "image/svg+xml"} {
			path := assets + name
			if w := b.ask(http.MethodGet, path, nil); w.Header().Get("Cache-Control") != "private, max-age=31536000, immutable" || w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Type"), want) {
				t.Errorf("%s: %d %s", path, w.Code, w.Header().Get("Content-Type"))
			}
		}
		for _, path := range []string{"/assets/", assets, assets + "../page.go", assets + "nothing", "/assets/page.js", "/assets/0123456789abcdef/page.js", "/evidence/", "/executions/82f3/timeline", "/nowhere"} {
			if w := b.ask(http.MethodGet, path, nil); w.Code != http.StatusNotFound {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
	})
}
