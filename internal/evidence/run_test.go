package evidence

import (
	"sync"
	"testing"
)

func TestARunHasOneWriterAndAFolderOfItsOwn(t *testing.T) { // V5 V3
	dir := t.TempDir()
	all := records(t)
	var heads [2]string
	var dirs [2]string
	for i := range heads {
		run, err := NewRun(dir, about("test"))
		if err != nil {
			t.Fatal(err)
		}
		var writers sync.WaitGroup
		for _, r := range all {
			writers.Go(func() {
				if err := run.Append(r); err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		if heads[i], err = run.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Close(); err == nil {
			t.Error("a run ends twice")
		}
		dirs[i] = run.Dir()
	}
	if dirs[0] == dirs[1] || heads[0] == heads[1] {
		t.Errorf("two runs share %s or %s", dirs[0], heads[0])
	}
	for i, d := range dirs {
		if report := verified(t, d, heads[i]); !report.Passes() || len(report.Records) != 1+len(all) {
			t.Errorf("%s: %v", d, report)
		}
	}
}

// What a broken system leaves behind must be recorded too.
func TestWhatMustNotBeCanBeRecorded(t *testing.T) {
	c := Cases()[0]
	odd := ReceiptSeen{Key: c.EventKey, Digest: someDigest, Outcome: "half", Version: -1, Found: -2, Gap: -3, Writer: "w"}
	r := stockRecord(c, "nonsense", State{Version: -1, Stock: -5}, State{Receipts: []ReceiptSeen{odd, odd}})
	r.DeliveryAttempt[0].Ended = "not settled: gone"
	dir, head := recorded(t, "test", []Record{r})
	report := verified(t, dir, head)
	if report.Passes() || !report.Intact() || report.Records[1].Observed != Unclassified {
		t.Errorf("%v, want it recorded as %s", report, Unclassified)
	}
}
