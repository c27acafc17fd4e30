package probe

import (
	"strings"
	"testing"

	"oneeffect/internal/evidence"
)

// What a record says in words follows from what was seen, also where that is not what
// was expected.
func TestTheWordsOfARecordFollowFromWhatWasSeen(t *testing.T) {
	c := evidence.Cases()[0]
	r := evidence.ReceiptSeen{Key: c.EventKey, Digest: "d", Outcome: "applied", Version: 10, Delivery: "delivery-A"}
	with := func(version, stock int64, receipts ...evidence.ReceiptSeen) evidence.State {
		return evidence.State{Version: version, Stock: stock, Receipts: receipts}
	}
	for _, row := range []struct {
		says     string
		reported evidence.Class
		states   []evidence.State
		want     []string
	}{
		{"applied", evidence.Applied, []evidence.State{with(9, 100), with(10, 97, r)},
			[]string{"none → applied, version 10, written for delivery-A", "was 100 and is 97, which is 1 times -3", "no duplicate", "in order: version 10 is greater than 9"}},
		{"again", evidence.Duplicate, []evidence.State{with(10, 97, r), with(10, 97, r)},
			[]string{"none: the stock stays 97", "a duplicate: the receipt that delivery delivery-A left", "not asked"}},
		{"stale", evidence.Stale, []evidence.State{with(11, 97), with(11, 97, r)},
			[]string{"stale: version 10 is not greater than 11", "no duplicate"}},
		{"changed", evidence.Duplicate, []evidence.State{with(10, 97, r), with(10, 95, evidence.ReceiptSeen{Key: c.EventKey})},
			[]string{"was 97 and is 95", "the receipt under this key was changed"}},
		{"gone", evidence.Duplicate, []evidence.State{with(10, 97, r), with(10, 97)}, []string{"is gone"}},
	} {
		f := found(c)
		f.event = evidence.Sent{EventKey: c.EventKey, Entity: c.Entity, Version: 10, Digest: "d", Delta: -3}
		f.states = row.states
		f.attempt(evidence.Attempt{Transport: "servicebus", ID: "delivery-B", Count: 1, Process: "p", Ended: "complete", Reported: row.reported})
		record := f.record()
		text := strings.Join([]string{record.ReceiptState, record.SideEffect, record.DuplicateDecision, record.OrderingDecision}, "\n")
		for _, want := range row.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no word of %q in\n%s", row.says, want, text)
			}
		}
	}
}
