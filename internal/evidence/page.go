package evidence

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"
)

//go:embed page.html.tmpl
var pageText string

//go:embed page.css
var pageStyle string

// WritePage writes a report as one page that needs nothing else: no script, no font, no
// image, and its policy forbids all of them. It ends with what the run decides, and
// what it does not.
func WritePage(w io.Writer, r Report, now time.Time) error {
	page, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("read the page's template: %w", err)
	}
	sum := sha256.Sum256([]byte(pageStyle))
	return page.Execute(w, pageView{
		Report: r, Style: template.CSS(pageStyle), Policy: "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'",
		Notices: r.Notices(now), Written: now.UTC(),
	})
}

// pageView is what the template reads.
type pageView struct {
	Report
	Style   template.CSS
	Policy  string
	Notices []string
	Written time.Time
}

// probeView is a probe with its cases.
type probeView struct {
	Number     int
	Name       string
	Cases      []Record
	AsExpected bool
}

// ProbeViews are the probes in their order.
func (v pageView) ProbeViews() []probeView {
	var views []probeView
	for _, r := range v.Records {
		if r.Probe == nil {
			continue
		}
		i := slices.IndexFunc(views, func(p probeView) bool { return p.Name == r.Probe.Name })
		if i < 0 {
			views = append(views, probeView{Number: r.Probe.Number, Name: r.Probe.Name, AsExpected: v.shown(r.Probe.Name)})
			i = len(views) - 1
		}
		views[i].Cases = append(views[i].Cases, r)
	}
	slices.SortStableFunc(views, func(a, b probeView) int { return cmp.Compare(a.Number, b.Number) })
	return views
}

// Of are the records of a kind.
func (v pageView) Of(kind Kind) []Record {
	var records []Record
	for _, r := range v.Records {
		if r.Kind == kind {
			records = append(records, r)
		}
	}
	return records
}

// shown says whether all cases of a probe are there and as expected.
func (r Report) shown(probe string) bool {
	found := false
	for _, c := range Cases() {
		if c.Name != probe {
			continue
		}
		i := slices.IndexFunc(r.Records, func(x Record) bool {
			return x.Probe != nil && x.Probe.Name == probe && x.Probe.Case == c.Case
		})
		if i < 0 || !r.Records[i].asExpected() || r.blamed(r.Records[i].Sequence) {
			return false
		}
		found = true
	}
	return found
}

// Parts are what is under test.
func (v pageView) Parts() []Part { return Parts() }

// Contradiction is a forbidden conclusion, and whether this run contradicts it.
type Contradiction struct {
	Forbidden
	Shown bool
}

// Contradictions are those of section 14.
func (v pageView) Contradictions() []Contradiction {
	var all []Contradiction
	for _, f := range ForbiddenConclusions() {
		shown := len(v.Invalid()) == 0 && !slices.ContainsFunc(f.Probes, func(name string) bool { return !v.shown(name) })
		all = append(all, Contradiction{f, shown})
	}
	return all
}

// Statement is one sentence of the decision, and whether the run bears it out.
type Statement struct {
	Text  string
	Holds bool
}

// Decision is what the run can decide (section 18): each sentence holds only if the
// probes that it rests on came out as expected, in a file that nobody has changed. An
// invalid run decides nothing (V8).
func (v pageView) Decision() []Statement {
	rests := []struct {
		text   string
		probes []string
	}{
		{"One event under one stable receipt key takes effect once, also when it is delivered again under another transport id.", []string{Baseline, Redelivery}},
		{"A consumer that applies its effect before its receipt repeats the effect when it dies between the two; with both in one batch the same death does not repeat it.", []string{CrashWindow}},
		{"A stale version must be rejected by a rule of its own: its key is new, so deduplication has nothing to say.", []string{StaleLower}},
		{"A record that does not say what remains unproven is found out.", []string{NoRisk}},
		{"The same two rules hold for a webhook: the request id survives redelivery, and a lower version is rejected under a new one.", []string{Webhook}},
	}
	if len(v.Invalid()) > 0 {
		return nil
	}
	var all []Statement
	for _, r := range rests {
		holds := v.Intact() && !slices.ContainsFunc(r.probes, func(name string) bool { return !v.shown(name) })
		all = append(all, Statement{r.text, holds})
	}
	return all
}

// Undecided is what no run of this kind can show (section 18).
func (v pageView) Undecided() []string {
	all := []string{
		"Exactly-once delivery or processing by the broker, or across systems.",
		"A total order of events, or any order beyond the versions of one entity.",
		"That another topology is safe: several regions, failover, a restore from a backup, receipts that have expired.",
		"That systems downstream of this projection are idempotent.",
		"That the projector which is deployed is the one that was probed, or is configured like it: the probes ran the same code in a process of their own, with a topic and a database of their own.",
	}
	if v.Count(KindPreflight).Of == 0 {
		all = append(all, "That broker and store keep the rules that are relied on: this run did not ask them.")
	}
	return all
}
