package sim

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
)

// eventBudget is how often the projector may do what for one event about stock.
var eventBudget = map[string]int{"projector-1 read": 1, "projector-1 batch": 1, "projector-1 settled": 1}

// spendOnEvents has an event applied, once connections are made and before is done,
// and counts at the emulators.
func (w *world) spendOnEvents(before func()) map[string]int {
	w.t.Helper()
	w.projector("projector-1")
	w.tell("opening", opening)
	w.settledAs("opening", "completed")
	synctest.Wait()
	before()
	from := w.hub.Last()
	w.tell("ten", reserve(10, 3))
	w.settledAs("ten", "completed")
	synctest.Wait()
	spent := map[string]int{}
	for _, e := range w.hub.Events(from) {
		switch {
		case e.Service == "cosmos" && e.Kind == "request":
			spent[e.Client+" "+e.Operation]++
		case e.Kind == "settled":
			spent[e.Client+" "+e.Kind]++
		}
	}
	return spent
}

func TestAnEventCostsItsBudget(t *testing.T) { // R9 P1
	for way, tell := range map[string]func(*testing.T, func(*testing.T, *world)){"message by message": story, "session by session": storyBySession} {
		t.Run(way, func(t *testing.T) {
			tell(t, func(t *testing.T, w *world) {
				for _, difference := range differences(w.spendOnEvents(func() {}), eventBudget) {
					t.Error(difference)
				}
			})
		})
	}
}

func TestABudgetOfEventsThatIsExceededIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		rule control.Rule
		want []string
	}{
		"a write is throttled, and sent again": {
			control.Rule{Match: control.Match{Service: "cosmos", Operation: "batch"}, Do: "answer", Status: http.StatusTooManyRequests, RetryAfter: control.Duration(time.Second), Times: 1},
			[]string{"projector-1 batch: 2 times, the budget is 1"},
		},
		"the answer of a write is lost, and read back": {
			control.Rule{Match: control.Match{Service: "cosmos", Operation: "batch"}, When: "after", Do: "drop", Times: 1},
			[]string{"projector-1 read: 2 times, the budget is 1"},
		},
		"a race is lost, and decided again": {
			control.Rule{Match: control.Match{Service: "cosmos", Operation: "batch"}, Do: "answer", Status: http.StatusPreconditionFailed, Times: 1},
			[]string{"projector-1 batch: 2 times, the budget is 1", "projector-1 read: 2 times, the budget is 1"},
		},
		"a settlement is lost, and its message comes again": {
			control.Rule{Match: control.Match{Service: "servicebus", Operation: "complete"}, Do: "lose-lock", Nth: 1},
			[]string{"projector-1 read: 2 times, the budget is 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				spent := w.spendOnEvents(func() { w.arm(test.rule) })
				if found := differences(spent, eventBudget); !slices.Equal(found, test.want) {
					t.Errorf("found %q, want %q", found, test.want)
				}
			})
		})
	}
}
