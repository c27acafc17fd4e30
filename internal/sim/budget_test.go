package sim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
)

// budget is how often one task may do what, by who does it: DESIGN's cost, with so
// many writes of the worker's after the claim's creation, and so many calls.
func budget(replacements, calls int) map[string]int {
	return map[string]int{
		"orchestrator batch": 1, "orchestrator delete": 1, "orchestrator patch": 1, "orchestrator enqueued": 1, "orchestrator settled": 1,
		"worker-1 create": 1, "worker-1 replace": replacements, "worker-1 enqueued": 1, "worker-1 settled": 1, "calls": calls,
	}
}

// spend has one task done from its submission to the settlement of its event, and
// counts at the emulators. before is done when connections are made.
func (w *world) spend(taskType string, before func()) map[string]int {
	w.t.Helper()
	w.orchestrator()
	w.worker("worker-1")
	w.submit(fmt.Sprintf(`{"executionId":"first","type":%q,"payload":{}}`, taskType))
	w.until("the first transition", transitionOf("first"))
	w.until("the first event is settled", onBroker("settled", subscription, "first/completed"))
	synctest.Wait()
	before()
	from := w.hub.Last()
	w.submit(fmt.Sprintf(`{"executionId":"82f3","type":%q,"payload":{"name":"Ada"}}`, taskType))
	w.until("the transition", transitionOf("82f3"))
	w.until("the event is settled", onBroker("settled", subscription, "82f3/completed"))
	synctest.Wait()
	return w.spentSince(from)
}

func (w *world) spentSince(from uint64) map[string]int {
	spent := map[string]int{}
	for _, e := range w.hub.Events(from) {
		switch {
		case e.Service == "cosmos" && e.Kind == "request":
			spent[e.Client+" "+e.Operation]++
		case e.Kind == "enqueued" && e.Entity == subscription: // the topic's copy for it
		case e.Kind == "enqueued" || e.Kind == "settled":
			spent[e.Client+" "+e.Kind]++
		case e.Kind == "call":
			spent["calls"]++
		}
	}
	return spent
}

// differences are where what was spent is not the budget, in words.
func differences(spent, budget map[string]int) (found []string) {
	all := maps.Clone(budget)
	maps.Copy(all, spent)
	for _, what := range slices.Sorted(maps.Keys(all)) {
		if spent[what] != budget[what] {
			found = append(found, fmt.Sprintf("%s: %d times, the budget is %d", what, spent[what], budget[what]))
		}
	}
	return found
}

func TestTheHappyPathCostsItsBudget(t *testing.T) {
	for _, test := range []struct {
		taskType            string
		replacements, calls int
	}{
		{"customer.create", 1, 1},  // two writes
		{"letter.print", 2, 1},     // three: that the call starts is written before it
		{"customer.move", 3, 3},    // one, and one for each step
		{"customer.welcome", 3, 2}, // and one more where a step honours no key
	} {
		t.Run(test.taskType, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				for _, difference := range differences(w.spend(test.taskType, func() {}), budget(test.replacements, test.calls)) {
					t.Error(difference)
				}
			})
		})
	}
}

// A budget that cannot be exceeded says nothing: what costs more is found, and
// exactly that.
func TestABudgetThatIsExceededIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		taskType            string
		replacements, calls int
		rule                control.Rule
		want                []string
	}{
		"a write is throttled, and sent again": {
			"customer.create", 1, 1,
			control.Rule{Match: completionOf("worker-1"), Do: "answer", Status: http.StatusTooManyRequests, RetryAfter: control.Duration(time.Second), Times: 1},
			[]string{"worker-1 replace: 2 times, the budget is 1"},
		},
		"the answer of a write is lost, and read back": {
			"letter.print", 2, 1,
			control.Rule{Match: completionOf("worker-1"), When: "after", Do: "drop", Times: 1},
			[]string{"worker-1 read: 1 times, the budget is 0"},
		},
		"a call is answered with a failure, and made again": {
			"customer.create", 1, 1,
			control.Rule{Match: control.Match{Service: "downstream"}, Do: "answer", Status: http.StatusServiceUnavailable, Times: 1},
			// The claim is given back and taken again by a copy of the message.
			[]string{
				"calls: 2 times, the budget is 1",
				"worker-1 create: 2 times, the budget is 1",
				"worker-1 read: 1 times, the budget is 0",
				"worker-1 replace: 3 times, the budget is 1",
				"worker-1 settled: 2 times, the budget is 1",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				spent := w.spend(test.taskType, func() { w.arm(test.rule) })
				if found := differences(spent, budget(test.replacements, test.calls)); !slices.Equal(found, test.want) {
					t.Errorf("found %q, want %q", found, test.want)
				}
			})
		})
	}
}

// A part of an orchestration costs what every execution does, and one patch for the
// join; the whole costs its batch and its own end. Nothing is read.
func TestAPartCostsOnePatchMore(t *testing.T) {
	const parts = 3
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		w.submit(`{"executionId":"first","type":"customer.create","payload":{}}`)
		w.until("the first event is settled", onBroker("settled", subscription, "first/completed"))
		synctest.Wait()
		from := w.hub.Last()
		w.submit(`{"executionId":"82f3","tasks":[{"type":"customer.create"},{"type":"customer.create"},{"type":"customer.create"}]}`)
		for i := range parts {
			w.until("an event is settled", onBroker("settled", subscription, fmt.Sprintf("82f3:%d/completed", i)))
		}
		synctest.Wait()
		want := map[string]int{"orchestrator batch": 1, "orchestrator patch": 1} // of the whole
		for what, times := range budget(1, 1) {
			want[what] += parts * times
		}
		want["orchestrator patch"] += parts
		for _, difference := range differences(w.spentSince(from), want) {
			t.Error(difference)
		}
	})
}
