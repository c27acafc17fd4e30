package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// drawn are the arrows of the drawing that the system is built after: from whom, to
// whom, and what stands at each.
var drawn = []struct{ from, to, says string }{
	{"Service Bus", "worker-1", "deliver taskExecutionId 82f3 · attempt 1"},
	{"worker-1", "Idempotency store", "claim 82f3 · IN_PROGRESS · lease"},
	{"worker-1", "Downstream system", "Idempotency-Key: 82f3"},
	{"Downstream system", "worker-1", "answer"},
	{"worker-1", "worker-1", "stopped before recording a result"},
	{"Service Bus", "worker-2", "lock expired · redeliver 82f3"},
	{"worker-2", "Idempotency store", "IN_PROGRESS, lease stale"},
	{"worker-2", "Downstream system", "Idempotency-Key: 82f3"},
	{"Downstream system", "worker-2", "applied"},
	{"worker-2", "Idempotency store", "mark COMPLETED · result"},
	{"worker-2", "Service Bus", "TaskCompleted · complete message"},
	{"Service Bus", "Orchestrator", "completion for 82f3"},
	{"Orchestrator", "Cosmos DB", "transition RUNNING → COMPLETED (ETag)"},
	{"Cosmos DB", "Orchestrator", "already COMPLETED → no-op, message settled"},
}

func TestTheDemosPictureIsTheDrawingArrowByArrow(t *testing.T) {
	t.Parallel()
	s := start(t, "Ctrl-C stops everything", "demo")
	b := open(t, s.page+"/executions/82f3")
	type arrow struct{ Number, From, To, Text string }
	arrows := evaluate[[]arrow](b, `[...document.querySelectorAll("svg.diagram g.arrow:not(.remark)")].map(g => ({Number: g.dataset.number, From: g.dataset.from, To: g.dataset.to, Text: g.querySelector("text.label").textContent}))`)
	if len(arrows) != len(drawn) {
		t.Fatalf("%d arrows, want %d: %+v", len(arrows), len(drawn), arrows)
	}
	for i, want := range drawn {
		if got := arrows[i]; got.Number != fmt.Sprint(i+1) || got.From != want.from || got.To != want.to || !strings.HasPrefix(got.Text, got.Number+". ") || !strings.Contains(got.Text, want.says) {
			t.Errorf("arrow %d is %+v, want %+v", i+1, got, want)
		}
	}
	lifelines := evaluate[[]string](b, `[...document.querySelectorAll("svg.diagram g.lifeline text")].map(t => t.textContent)`)
	if want := []string{"Service Bus", "worker-1", "worker-2", "Idempotency store", "Downstream system", "Orchestrator", "Cosmos DB"}; !slices.Equal(lifelines, want) {
		t.Errorf("lifelines %q, want %q", lifelines, want)
	}
	// No label leaves the picture, and none lies over another.
	if wrong := evaluate[[]string](b, `(() => { const svg = document.querySelector("svg.diagram"), all = [...svg.querySelectorAll("text.label, text.time")].map(t => [t.textContent, t.getBBox()]);
		return all.filter(([, a], i) => a.x < 0 || a.x + a.width > svg.viewBox.baseVal.width || all.some(([, c], j) => j > i && a.x < c.x + c.width && c.x < a.x + a.width && a.y < c.y + c.height && c.y < a.y + a.height)).map(([text]) => text); })()`); len(wrong) > 0 {
		t.Errorf("labels that lie over others, or leave the picture: %q", wrong)
	}
	b.legible("the demo")
	b.shoot("demo")
}

func TestThePageIsLiveAndOperated(t *testing.T) {
	t.Parallel()
	s := up(t)
	t.Run("live", func(t *testing.T) { s.of(t).live() })
	t.Run("replay", func(t *testing.T) { s.of(t).replay() })
	t.Run("refused", func(t *testing.T) { s.of(t).refused() })
	t.Run("signed in", func(t *testing.T) { s.of(t).signedIn() })
	t.Run("hostile", func(t *testing.T) { s.of(t).hostile() })
	t.Run("keyboard", func(t *testing.T) { s.of(t).keyboard() })
	t.Run("very many", func(t *testing.T) { s.of(t).veryMany() })
}

// of is the system in a subtest.
func (s *system) of(t *testing.T) *system {
	own := *s
	own.t = t
	return &own
}

// live: what is created while somebody looks, and how it ends, comes to the page
// without its being loaded again; a filter holds for what comes too.
func (s *system) live() {
	b, filtered := open(s.t, s.page+"/"), open(s.t, s.page+"/?type=letter.print")
	for _, tab := range []*browser{b, filtered} {
		tab.until(`document.querySelector("#live.on")`)
		evaluate[bool](tab, `window.sameDocument = true`)
	}
	s.submit(`{"executionId":"seen-live","type":"customer.create","payload":{"name":"Ada"}}`)
	b.until(`document.querySelector("tr[data-id=seen-live] .status.completed")`)
	s.submit(`{"executionId":"letter-live","type":"letter.print","payload":{"to":"Ada"}}`)
	filtered.until(`document.querySelector("tr[data-id=letter-live] .status.completed")`)
	for _, tab := range []*browser{b, filtered} {
		if !evaluate[bool](tab, `window.sameDocument === true`) {
			s.t.Error("the page was loaded anew")
		}
	}
	if rows := evaluate[int](filtered, `document.querySelectorAll("tr[data-id=seen-live]").length`); rows != 0 {
		s.t.Error("the filter lets through what comes live")
	}
	b.size(390, 900)
	if hidden := evaluate[[]string](b, `[...document.querySelectorAll("#executions .status")].filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.closest("tr").dataset.id)`); len(hidden) > 0 {
		s.t.Errorf("in a narrow window these do not show their state: %q", hidden)
	}
	b.shoot("list")
}

// replay: a dead letter that is safe is replayed from its page, and completes.
func (s *system) replay() {
	s.answers("refused", "/customers", http.StatusBadRequest)
	s.submit(`{"executionId":"customer-9","type":"customer.create","payload":{"name":"Eve"}}`)
	s.dead("customer-9")
	s.ended("customer-9")
	s.ask(http.MethodDelete, s.control+"/control/rules/refused", "")
	b := open(s.t, s.page+"/dead-letters")
	b.says("article .verdict", "safe")
	b.shoot("letters")
	b.do(chromedp.Click(chromedp.CSS("article summary")), chromedp.SendKeys(chromedp.CSS(`article input[name="reason"]`), "the downstream is mended"),
		chromedp.Click(chromedp.CSS("article button")))
	b.until(`document.querySelector(".done")?.innerText.includes("Another run of customer-9")`)
	b.do(chromedp.Navigate(s.page + "/executions/customer-9"))
	b.until(`document.querySelector("h1 .status.completed")`) // live: it may still run when it is opened
	if picture := evaluate[string](b, `document.querySelector("svg.diagram").textContent`); !strings.Contains(picture, "replayed by anonymous · the downstream is mended") {
		s.t.Errorf("the picture does not show the replay: %s", picture)
	}
	b.shoot("replayed")
}

// refused: what may have had an effect is not replayed without an assertion, and not
// while its last call may be on its way; the page says why, and changes nothing.
func (s *system) refused() {
	s.answers("unknown", "/letters", http.StatusInternalServerError)
	s.submit(`{"executionId":"letter-9","type":"letter.print","payload":{"to":"Eve"}}`)
	s.dead("letter-9")
	s.ended("letter-9")
	s.ask(http.MethodDelete, s.control+"/control/rules/unknown", "")
	b := open(s.t, s.page+"/executions/letter-9")
	b.until(`document.querySelector("h1 .status.failed")`)
	reason := chromedp.CSS(`form[action$="/replay"] input[name="reason"]`)
	b.do(chromedp.SendKeys(reason, "I think so"), chromedp.Click(chromedp.CSS(`form[action$="/replay"] button`)))
	b.until(`document.querySelector("[role=alert]")?.innerText.includes("assert that there is none")`)
	if kept := evaluate[string](b, `document.querySelector('form[action$="/replay"] input[name="reason"]').value`); kept != "I think so" {
		s.t.Errorf("the reason that was written is gone: %q", kept)
	}
	b.shoot("refused")
	b.do(chromedp.Click(chromedp.CSS(`form[action$="/replay"] input[type="checkbox"]`)), chromedp.Click(chromedp.CSS(`form[action$="/replay"] button`)))
	b.until(`document.querySelector("[role=alert]")?.innerText.includes("may still be on its way")`)
	b.says("h1 .status", "FAILED")
	s.submit(`{"executionId":"letter-8","type":"unknown.type","payload":{}}`)
	c := open(s.t, s.page+"/executions/letter-8")
	c.do(chromedp.SendKeys(chromedp.CSS(`form[action$="/cancel"] input[name="reason"]`), "nobody can do it"), chromedp.Click(chromedp.CSS(`form[action$="/cancel"] button`)))
	c.until(`document.querySelector(".done")?.innerText.includes("It is cancelled")`)
	c.says("h1 .status", "CANCELLED")
}

// hostile: script in every field that somebody else writes stays text, on the server
// and in what the script makes of live updates.
func (s *system) hostile() {
	const attack = `</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"'><svg onload=window.hacked=1>`
	quoted := strings.ReplaceAll(attack, `"`, `\"`)
	list := open(s.t, s.page+"/")
	list.until(`document.querySelector("#live.on")`)
	s.answers("hostile", "/letters", http.StatusInternalServerError)
	s.submit(`{"executionId":"hostile:1","type":"letter.print","payload":{"`+quoted+`":"`+quoted+`"}}`, "Idempotency-Key", "k")
	s.dead("hostile:1")
	s.ended("hostile:1")
	s.ask(http.MethodDelete, s.control+"/control/rules/hostile", "")
	s.ask(http.MethodPost, s.page+"/v1/executions/hostile:1/resolve", `{"reason":"`+quoted+`","resultRef":"`+quoted+`"}`)
	list.until(`document.querySelector('tr[data-id="hostile:1"] .status.completed')`)
	one := open(s.t, s.page+"/executions/hostile:1")
	if evaluate[bool](one, `document.querySelector("pre.payload").checkVisibility()`) {
		s.t.Error("the payload is not folded")
	}
	if payload := evaluate[string](one, `document.querySelector("pre.payload").textContent`); strings.Count(payload, "onerror=window.hacked=1") != 2 {
		s.t.Errorf("the payload is not shown as it is: %s", payload)
	}
	letters := open(s.t, s.page+"/dead-letters")
	search := open(s.t, s.page+`/?q=%3Cscript%3Ewindow.hacked%3D1%3C/script%3E&type=%22%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.hacked%3D1%3E`)
	for name, b := range map[string]*browser{"list": list, "execution": one, "letters": letters, "search": search} {
		if evaluate[bool](b, `"hacked" in window`) {
			s.t.Errorf("%s: it ran", name)
		}
		if foreign := evaluate[int](b, `document.querySelectorAll("script:not([src^='/assets/']), img:not([src^='/assets/']), [onload], [onerror]").length`); foreign != 0 {
			s.t.Errorf("%s: %d elements of somebody else", name, foreign)
		}
	}
	one.shoot("hostile")
}

// keyboard: the first stop leads past the navigation, every control has a name, and
// what scrolls can be reached.
func (s *system) keyboard() {
	b := open(s.t, s.page+"/executions/letter-9")
	b.do(chromedp.KeyEvent("\t"))
	b.says(":focus", "To the content")
	b.do(chromedp.KeyEvent("\r"))
	if at := evaluate[string](b, "location.hash + document.activeElement.id"); at != "#mainmain" {
		s.t.Errorf("the first stop leads to %q", at)
	}
	for _, path := range []string{"/", "/dead-letters", "/executions/letter-9"} {
		b.do(chromedp.Navigate(s.page + path))
		if nameless := evaluate[[]string](b, `[...document.querySelectorAll("input:not([type=hidden]), button, a, summary, table, nav, [role=region]")].filter(e => !(e.labels?.length || e.textContent.trim() || e.ariaLabel || e.querySelector("caption, [alt]") || e.getAttribute("aria-labelledby"))).map(e => e.outerHTML)`); len(nameless) > 0 {
			s.t.Errorf("%s: without a name: %q", path, nameless)
		}
		if unreachable := evaluate[[]string](b, `[...document.querySelectorAll("*")].filter(e => e.scrollWidth > e.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(e).overflowX) && e.tabIndex < 0).map(e => e.className)`); len(unreachable) > 0 {
			s.t.Errorf("%s: scrolls, and the keyboard cannot get there: %q", path, unreachable)
		}
		b.legible(path)
	}
}

// legible: what can be read is distinct enough for everybody: WCAG AA, 4.5 to 1, by the
// relative luminance of text and what is behind it.
func (b *browser) legible(name string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		if faint := evaluate[[]string](b, contrast); len(faint) > 0 {
			b.t.Errorf("%s, %s: too faint: %q", name, scheme, faint)
		}
	}
	b.scheme("light")
}

const contrast = `(() => {
	const light = c => { const [r, g, b] = c.match(/[\d.]+/g).slice(0, 3).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
	const behind = e => { if (e.matches(".lifeline text")) return getComputedStyle(e.previousElementSibling).fill; for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/rgba\(.*, 0\)|transparent/.test(c)) return c; } return "rgb(255,255,255)"; };
	const ink = e => getComputedStyle(e)[e.matches("svg text") ? "fill" : "color"];
	return [...document.querySelectorAll("main :is(h1, h2, p, a, dt, dd, td, th, label, button, span, li, summary, caption, svg text), nav a")].filter(e => e.checkVisibility() && e.textContent.trim()).filter(e => {
		const [a, b] = [light(ink(e)), light(behind(e))].sort((x, y) => y - x);
		return (a + .05) / (b + .05) < 4.5;
	}).map(e => e.tagName + " " + e.getAttribute("class") + " " + e.textContent.slice(0, 20)).slice(0, 5);
})()`

// opens is how soon the page must be there.
const opens = 200 // milliseconds

// veryMany: with a hundred thousand executions the page opens as fast. The best of
// ten loads is held to the bound: what else this machine does is not the page's.
func (s *system) veryMany() {
	const executions = 100_000
	s.fill(executions)
	b := open(s.t, s.page+"/")
	var took []float64
	for range 10 {
		b.do(chromedp.Navigate(s.page + "/?q=old-0"))
		took = append(took, evaluate[float64](b, `(() => { const n = performance.getEntriesByType("navigation")[0]; return n.domComplete - n.startTime; })()`))
		if rows := evaluate[int](b, `document.querySelectorAll("#executions tbody tr").length`); rows > 50 {
			s.t.Errorf("%d rows", rows)
		}
	}
	var plain []float64
	for range 10 {
		b.do(chromedp.Navigate(s.page + "/"))
		plain = append(plain, evaluate[float64](b, `(() => { const n = performance.getEntriesByType("navigation")[0]; return n.domComplete - n.startTime; })()`))
	}
	slices.Sort(took)
	slices.Sort(plain)
	s.t.Logf("the page of %d executions opens in %.0f ms at best, %.0f ms as a rule; searched %.0f, %.0f", executions, plain[0], plain[5], took[0], took[5])
	if plain[0] >= opens || took[0] >= opens {
		s.t.Errorf("the page opens in %.0f ms, searched in %.0f ms, want less than %d", plain[0], took[0], opens)
	}
	if rows := evaluate[int](b, `document.querySelectorAll("#executions tbody tr").length`); rows != 50 {
		s.t.Errorf("%d rows, want 50", rows)
	}
	b.do(chromedp.Click(chromedp.CSS(`a[rel="next"]`)))
	b.until(`location.search.includes("after=") && document.querySelectorAll("#executions tbody tr").length === 50`)
}
