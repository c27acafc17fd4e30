package evidence

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func page(t *testing.T, r Report, now time.Time) string {
	t.Helper()
	var out strings.Builder
	if err := WritePage(&out, r, now); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var beforeReview = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func TestThePageSaysWhatWasSeenAndWhatWasNotShown(t *testing.T) {
	dir, head := recorded(t, PurposeProbes, records(t))
	report := verified(t, dir, head)
	text := page(t, report, beforeReview)
	for _, want := range []string{
		"Probes: 6 of 6 as expected. Chain intact.", head, EventKey, string(NonAtomic), "The vendor says", "Sent and seen here", "We conclude",
		"Conclusions that nobody may draw", "The decision, and its bounds", "Exactly-once delivery", "an inference", "a risk", "Atomic boundary", "Duplicate rule", "Ordering rule",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no word of %q", want)
		}
	}
	for _, wrong := range []string{"<script", "http-equiv=\"refresh", "src=", "url(", "@import", "<link", "class=\"notice", "Not shown by this run", "not in this run", "ZgotmplZ"} {
		if strings.Contains(text, wrong) {
			t.Errorf("it contains %q", wrong)
		}
	}
	if !strings.Contains(text, `content="default-src &#39;none&#39;; base-uri &#39;none&#39;; form-action &#39;none&#39;; style-src &#39;sha256-`) {
		t.Error("its policy allows more than its own style")
	}
	if late := page(t, report, beforeReview.AddDate(0, 2, 0)); strings.Count(late, `class="notice"`) != 3 || !strings.Contains(late, "6 of 6 as expected") { // V7
		t.Error("past the review it should carry three notices, and be as good as before")
	}
}

func TestThePageConcludesNothingFromWhatDidNotComeOut(t *testing.T) {
	all := records(t)
	all[1].DeliveryAttempt[0].Reported = Applied
	all[2].Evidence.LocalObservations[0].Saw = `<script>alert("x")</script>`
	dir, head := recorded(t, PurposeProbes, all)
	text := page(t, verified(t, dir, head), beforeReview)
	for want, times := range map[string]int{"Probes: 5 of 6 as expected": 1, "Not shown by this run:": 1, "not in this run": 2, "&lt;script&gt;": 1} {
		if got := strings.Count(text, want); got != times {
			t.Errorf("%q is there %d times, want %d", want, got, times)
		}
	}
	report := verified(t, dir, "sha256:0")
	if text := page(t, report, beforeReview); !strings.Contains(text, "Chain broken.") || strings.Count(text, "Not shown by this run:") != 5 {
		t.Error("of a broken chain it concludes something")
	}
}

// flown is a verdict of the preflight.
func flown(reliance string, holds bool) Record {
	return Record{Kind: KindPreflight, Expected: Held, Preflight: &Verdict{Reliance: reliance, Expected: "412", Seen: "sent a batch;\nseen: what was seen", Holds: holds}}
}

// All probes may have come out as expected: what they saw counts for nothing.
func TestAnInvalidRunSaysSoFirstAndDecidesNothing(t *testing.T) { // V8
	const broken, unasked = "batch-rollback: a batch that is refused leaves nothing", "this run did not ask them"
	dir, head := recorded(t, PurposeProbes, append([]Record{flown("etag: ETags change", true), flown(broken, false)}, records(t)...))
	report := verified(t, dir, head)
	want := []Problem{{AspectPreflight, 2, "invalid: what is relied on does not hold where this run was made: " + broken + "; expected: 412; sent a batch; seen: what was seen"}}
	if report.Passes() || !report.Intact() || !slices.Equal(report.Problems, want) {
		t.Errorf("%v, want %v alone", report, want)
	}
	text := page(t, report, beforeReview)
	body := text[strings.Index(text, "<body>"):]
	top, rest, _ := strings.Cut(body, "<header>")
	if !strings.Contains(top, "<strong>Invalid: ") || !strings.Contains(top, broken) || strings.Contains(top, "ETags change") || !strings.Contains(text, "<title>Invalid: ") {
		t.Errorf("the page begins with %s", top)
	}
	for what, times := range map[string]int{
		"Withdrawn: this run is invalid, and decides nothing.": 1, "What this run shows": 0, "takes effect once": 0, "What it does not show": 1, "not in this run": len(ForbiddenConclusions()), unasked: 0,
	} {
		if got := strings.Count(rest, what); got != times {
			t.Errorf("%q is there %d times, want %d", what, got, times)
		}
	}

	for asked, all := range map[bool][]Record{true: append([]Record{flown(broken, true)}, records(t)...), false: records(t)} {
		dir, head := recorded(t, PurposeProbes, all)
		report := verified(t, dir, head)
		text := page(t, report, beforeReview)
		if !report.Passes() || strings.Contains(text, "Invalid") || strings.Contains(text, "Withdrawn") || strings.Contains(text, unasked) == asked {
			t.Errorf("asked %v: %v is shown as invalid", asked, report)
		}
	}
}

func TestThePageShowsCellsAndPreflights(t *testing.T) {
	cell := records(t)[0]
	cell.Kind, cell.Probe, cell.Expected = KindCell, nil, Held
	cell.Cell = &Cell{Row: "completed, event not published", Handler: "keyed", Signal: "SIGKILL", Expected: []Counts{{Effects: 1, Completions: 1}}, Observed: Counts{Effects: 1, Completions: 1}}
	dir, head := recorded(t, "crash matrix", []Record{cell, flown("ETags change", true)})
	text := page(t, verified(t, dir, head), beforeReview)
	for _, want := range []string{"Crash cells: 1 of 1 as expected", "completed, event not published", "effects 1, completions 1", "ETags change", "What is relied on"} {
		if !strings.Contains(text, want) {
			t.Errorf("no word of %q", want)
		}
	}
	if strings.Contains(text, "The decision, and its bounds") {
		t.Error("a run without probes decides nothing about them")
	}
}
