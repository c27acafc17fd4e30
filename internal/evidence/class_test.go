package evidence

import (
	"errors"
	"strings"
	"testing"
)

func TestARecordWithoutOneOfItsTenFieldsIsIncomplete(t *testing.T) { // V1
	run, err := NewRun(t.TempDir(), about("test"))
	if err != nil {
		t.Fatal(err)
	}
	for name, remove := range map[string]func(*Fields){
		"Event Key":          func(f *Fields) { f.EventKey = "" },
		"Business Entity":    func(f *Fields) { f.BusinessEntity = " " },
		"Version":            func(f *Fields) { f.Version = 0 },
		"Delivery Attempt":   func(f *Fields) { f.DeliveryAttempt = nil },
		"Receipt State":      func(f *Fields) { f.ReceiptState = "" },
		"Side Effect":        func(f *Fields) { f.SideEffect = "\t" },
		"Duplicate Decision": func(f *Fields) { f.DuplicateDecision = "" },
		"Ordering Decision":  func(f *Fields) { f.OrderingDecision = "" },
		"Evidence":           func(f *Fields) { f.Evidence.LocalObservations = nil },
		"Residual Risk":      func(f *Fields) { f.ResidualRisk = []string{""} },
	} {
		r := records(t)[0]
		remove(&r.Fields)
		if err := run.Append(r); !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), string(Incomplete)) || !strings.HasSuffix(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	if _, err := run.Close(); err != nil {
		t.Fatal(err)
	}
	if report := verified(t, run.Dir(), ""); len(report.Records) != 1 {
		t.Errorf("%d records stand, want the run's own", len(report.Records))
	}
	if err := run.Append(records(t)[0]); err == nil {
		t.Error("a run that has ended takes another record")
	}
}

func TestTheClassFollowsFromWhatTheStoreHeld(t *testing.T) { // V2
	c := Cases()[0]
	opened := State{Version: 9, Stock: 100}
	receipt := seen(c, "applied", 9, "delivery-A")
	with := func(version, stock int64, receipts ...ReceiptSeen) State {
		return State{Version: version, Stock: stock, Receipts: receipts}
	}
	other, stale := receipt, seen(c, "stale", 10, "delivery-A")
	other.Writer = "w2"
	content := receipt
	content.Digest = strings.Replace(someDigest, "aa", "bb", 1)
	two := c
	two.Deliveries = []string{"delivery-A", "delivery-A"}
	b := c
	b.Deliveries = []string{"delivery-B"}
	for _, row := range []struct {
		says     string
		c        Case
		reported Class
		states   []State
		want     Class
	}{
		{"receipt and effect", c, Applied, []State{opened, with(10, 97, receipt)}, Applied},
		{"the projector says something else", c, Duplicate, []State{opened, with(10, 97, receipt)}, Unclassified},
		{"a receipt without its effect", c, Applied, []State{opened, with(9, 100, receipt)}, Unclassified},
		{"an effect without its receipt", c, Applied, []State{opened, with(10, 97)}, Unclassified},
		{"the effect of another event", c, Applied, []State{opened, with(10, 96, receipt)}, Unclassified},
		{"another version than the event's", c, Applied, []State{opened, with(11, 97, receipt)}, Unclassified},
		{"two receipts of one key", c, Applied, []State{opened, with(10, 97, receipt, other)}, Unclassified},
		{"the same again under another id", b, Duplicate, []State{with(10, 97, receipt), with(10, 97, receipt)}, Duplicate},
		{"the same again under the same id, delivered first", c, Duplicate, []State{with(10, 97, receipt), with(10, 97, receipt)}, Unclassified},
		{"the effect again", b, Duplicate, []State{with(10, 97, receipt), with(10, 94, receipt)}, Unclassified},
		{"the receipt written anew", b, Duplicate, []State{with(10, 97, receipt), with(10, 97, other)}, Unclassified},
		{"other content", b, Conflict, []State{with(10, 97, content), with(10, 97, content)}, Conflict},
		{"stale", c, Stale, []State{with(10, 97), with(10, 97, stale)}, Stale},
		{"stale and with an effect", c, Stale, []State{with(10, 97), with(10, 94, stale)}, Unclassified},
		{"said to be stale and is not", c, Stale, []State{with(9, 100), with(9, 100, seen(c, "stale", 9, "delivery-A"))}, Unclassified},
		{"the effect twice, at first without a receipt", two, "", []State{opened, with(9, 97), with(10, 94, receipt)}, NonAtomic},
		{"the effect twice, always with a receipt", two, "", []State{opened, with(10, 97, receipt), with(10, 94, receipt)}, Unclassified},
		{"the effect once, at first without a receipt", two, "", []State{opened, with(9, 97), with(10, 97, receipt)}, Unclassified},
		{"the product does what the broken variant does", two, Applied, []State{opened, with(9, 97), with(10, 94, receipt)}, Unclassified},
		{"killed after the batch, then delivered again", two, Duplicate, []State{opened, with(10, 97, receipt), with(10, 97, receipt)}, Duplicate},
		{"only one look", c, Applied, []State{opened}, Unclassified},
	} {
		r := stockRecord(row.c, row.reported, row.states...)
		if got := r.Class(); got != row.want {
			t.Errorf("%s: %s, want %s", row.says, got, row.want)
		}
		for i := range r.DeliveryAttempt {
			r.DeliveryAttempt[i].Ended = "abandon"
		}
		if got := r.Class(); got != Unclassified {
			t.Errorf("%s, and no attempt has ended as it must: %s, want %s", row.says, got, Unclassified)
		}
	}
}

func TestEveryForbiddenConclusionIsContradictedByAProbe(t *testing.T) {
	names := map[string]bool{}
	senses := map[Sense]bool{}
	for _, c := range Cases() {
		names[c.Name], senses[c.Sense] = true, true
	}
	if len(names) != 6 || len(senses) != 3 {
		t.Errorf("%d probes of %d senses, want 6 of 3", len(names), len(senses))
	}
	forbidden := ForbiddenConclusions()
	if len(forbidden) != 5 {
		t.Errorf("%d forbidden conclusions, want 5", len(forbidden))
	}
	for _, f := range forbidden {
		if len(f.Probes) == 0 || f.Because == "" {
			t.Errorf("%q is contradicted by nothing", f.Conclusion)
		}
		for _, name := range f.Probes {
			if !names[name] {
				t.Errorf("%q is contradicted by %q, which is no probe", f.Conclusion, name)
			}
		}
	}
}
