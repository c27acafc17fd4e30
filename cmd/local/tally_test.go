package main

import (
	"strings"
	"testing"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

const (
	aTrace     = "4bf92f3577b34da6a3ce929d0e0e4736"
	theirTrace = "0af7651916cd43dd8448eb211c80319c"
)

var letterCall = event{Service: "downstream", Kind: "effect", Path: "/letters", Traceparent: "00-" + aTrace + "-00f067aa0ba902b7-01"}

func queued(key string, number int64) event {
	return event{Service: "servicebus", Kind: "enqueued", Entity: message.Tasks, Key: key, Sequence: number}
}

func done(key string, number int64) event {
	return event{Service: "servicebus", Kind: "settled", Disposition: "completed", Entity: message.Tasks, Key: key, Sequence: number}
}

func dead(key string, number int64) event {
	return event{Service: "servicebus", Kind: "dead-lettered", Entity: message.Tasks, Key: key, Sequence: number, Reason: claim.OutcomeUnknown}
}

func owned(id, by string, status claim.Status) event {
	return event{Service: "cosmos", Kind: "request", Operation: "replace", Entity: "claims", Key: id, Client: by, Status: 200, BodyStatus: string(status)}
}

func ended(id, status string) event {
	return event{Service: "cosmos", Kind: "request", Operation: "patch", Entity: "executions", Key: id, Status: 200, BodyStatus: status}
}

// whole is the life of a task as it should be.
func whole(id string, effect event) []event {
	return []event{queued(id, 1), owned(id, "w1", claim.InProgress), effect, owned(id, "w1", claim.Completed), done(id, 1), ended(id, "COMPLETED")}
}

func TestATallySaysWhatIsNotAsItMustBe(t *testing.T) {
	customer := event{Service: "downstream", Kind: "effect", Path: "/customers", Key: "c", Traceparent: "00-" + theirTrace + "-00f067aa0ba902b7-01"}
	reply := customer
	reply.Kind = "reply"
	refused := ended("c", "COMPLETED")
	refused.Status = 412
	inLedger := []entry{{Path: "/customers", Key: "c", Calls: 1, Effects: 1}, {Path: "/letters", Calls: 1, Effects: 1}}
	fine := append(whole("c", customer), whole("l", letterCall)...)
	for name, test := range map[string]struct {
		events []event
		ledger []entry
		says   string // "": all is right
	}{
		"as it must be":                 {events: fine, ledger: inLedger},
		"a second transition refused":   {events: append(fine[:len(fine):len(fine)], refused, reply), ledger: inLedger},
		"an effect twice":               {append(fine[:len(fine):len(fine)], customer), []entry{{Path: "/customers", Key: "c", Effects: 2}, inLedger[1]}, "c is doubled"},
		"a letter twice":                {append(fine[:len(fine):len(fine)], letterCall), []entry{inLedger[0], {Path: "/letters", Effects: 2}}, "l is doubled"},
		"two transitions":               {append(fine[:len(fine):len(fine)], ended("c", "COMPLETED")), inLedger, "c ended 2 times"},
		"a copy that lies there":        {append(fine[:len(fine):len(fine)], queued("c/copy/x", 7)), inLedger, "c is lost"},
		"nothing of a task":             {whole("c", customer), inLedger[:1], "l is lost"},
		"an effect under another key":   {append(fine[:len(fine):len(fine)], func() event { e := customer; e.Key = "c/2"; return e }()), inLedger, "c is doubled"},
		"no effect":                     {append(whole("c", reply), whole("l", letterCall)...), inLedger[1:], "c is lost"},
		"an effect of nobody":           {append(fine[:len(fine):len(fine)], event{Service: "downstream", Kind: "effect", Key: "x"}), inLedger, "no task had asked for"},
		"a ledger with more":            {fine, append(inLedger[:2:2], entry{Path: "/customers", Key: "y", Effects: 1}), "the ledger has 1 effect under the key"},
		"a ledger with less":            {fine, inLedger[1:], "the ledger has nothing under the key"},
		"a ledger with another letter":  {fine, []entry{inLedger[0], {Path: "/letters", Effects: 2}}, "the ledger has 2 effects without a key"},
		"a keyed task dead-lettered":    {append(whole("l", letterCall), queued("c", 1), owned("c", "w1", claim.Failed), dead("c", 1), ended("c", "FAILED")), inLedger[1:], "c is lost"},
		"a letter whose claim is whole": {append(whole("c", customer), queued("l", 1), owned("l", "w1", claim.Completed), dead("l", 1), ended("l", "FAILED")), inLedger[:1], "l is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			tally := newTally()
			tally.add("c", theirTrace, true)
			tally.add("l", aTrace, false)
			tally.take(test.events)
			s := tally.sum()
			s.compare(test.ledger)
			if said := strings.Join(s.wrong, "\n"); s.right() != (test.says == "") || !strings.Contains(said, test.says) || test.says == "" && said != "" {
				t.Errorf("right %v, says %q, want %q", s.right(), said, test.says)
			}
		})
	}
}

// A letter of which nobody knows whether it was printed counts apart, and twice never.
func TestDeadLettersCountApart(t *testing.T) {
	for effects, doubled := range map[int]int{0: 0, 1: 0, 2: 1} {
		tally := newTally()
		tally.add("l", aTrace, false)
		tally.take([]event{queued("l", 1), owned("l", "w1", claim.InProgress)})
		for range effects {
			tally.take([]event{letterCall})
		}
		tally.take([]event{owned("l", "w2", claim.Failed), ended("l", "FAILED")})
		if tally.left() != 1 {
			t.Errorf("%d are not over, want the one whose message lies there", tally.left())
		}
		tally.take([]event{dead("l", 1)})
		s := tally.sum()
		if s.tasks != 0 || s.effects != 0 || s.lost != 0 || s.doubled != doubled || s.dead[claim.OutcomeUnknown] != 1 || (s.deadWith > 0) != (effects > 0) {
			t.Errorf("%d effects: %+v", effects, s)
		}
	}
}

func TestATakeoverIsOfAKilledOwnersClaim(t *testing.T) {
	at := time.Now()
	tally := newTally()
	for _, id := range []string{"mine", "finished", "released"} {
		tally.add(id, id, true)
	}
	later := func(e event, by time.Duration) event { e.At = at.Add(by); return e }
	tally.take([]event{owned("mine", "w1", claim.InProgress), owned("finished", "w1", claim.Completed), owned("released", "w2", claim.InProgress)})
	tally.killed("w1", at)
	tally.take([]event{
		later(owned("mine", "w3", claim.InProgress), 7*time.Second), later(owned("mine", "w3", claim.Completed), 9*time.Second),
		later(owned("finished", "w3", claim.Completed), 7*time.Second), later(owned("released", "w3", claim.InProgress), 7*time.Second),
	})
	if got := tally.takeovers; len(got) != 1 || got[0] != (takeover{"mine", "w1", "w3", 7 * time.Second}) {
		t.Errorf("%+v", got)
	}
}
