package sim

import (
	"testing"
	"testing/synctest"

	"oneeffect/emulator/control"
	brokeremulator "oneeffect/emulator/servicebus"
	"oneeffect/internal/message"
	"oneeffect/internal/receipt"
)

// storyBySession is a story whose subscription of reservations requires sessions:
// the broker keeps the order in which the events of each sku were sent.
func storyBySession(t *testing.T, tell func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *brokeremulator.Config) {
			for _, topic := range c.Namespace.Topics {
				if topic.Name == message.Reservations {
					topic.Subscriptions[0].RequiresSession = true
				}
			}
		})
		defer w.end()
		tell(t, w)
	})
}

// With sessions, the outage of the store that has an event overtaken without them
// overtakes nobody. The broker knows no other order than that of sending, so that
// the version rule is needed all the same.
func TestSessionsMakeStaleEventsRareAndTheVersionRuleNoLessNeeded(t *testing.T) { // R3 S11
	storyBySession(t, func(t *testing.T, w *world) {
		w.projector("projector-1")
		w.projector("projector-2")
		w.tell("opening", opening)
		w.settledAs("opening", "completed")
		w.arm(outage("projector-1"))
		w.arm(outage("projector-2"))
		w.tell("ten", reserve(10, 3)) // as they happened
		w.tell("eleven", reserve(11, 5))
		w.tell("twelve", reserve(12, 1))
		w.settledAs("twelve", "completed")
		w.wantStock(91, 12)
		w.wantOutcomes(map[int64]receipt.Outcome{10: receipt.OutcomeApplied, 11: receipt.OutcomeApplied, 12: receipt.OutcomeApplied})

		w.tell("fourteen", reserve(14, 1)) // as their producer got round to it
		w.tell("thirteen", reserve(13, 2))
		w.settledAs("thirteen", "completed")
		w.wantStock(90, 14)
		w.wantOutcomes(map[int64]receipt.Outcome{14: receipt.OutcomeApplied, 13: receipt.OutcomeStale})
	})
}

// An operator sends again what was dead-lettered, long after what was behind it in
// its session: a dead-letter queue has no sessions, and a new message its own place.
func TestADeadLetterThatIsReplayedInItsSessionIsStale(t *testing.T) { // R3 S11 P2
	storyBySession(t, func(t *testing.T, w *world) {
		w.projector("projector-1")
		w.tell("ten", reserve(10, 3)) // before its sku was begun
		w.tell("opening", opening)
		w.tell("eleven", reserve(11, 5))
		w.settledAs("ten", "dead-lettered")
		w.settledAs("eleven", "completed")
		w.wantStock(95, 11)
		w.tell("ten, replayed", reserve(10, 3))
		w.settledAs("ten, replayed", "completed")
		w.wantStock(95, 11)
		w.wantOutcomes(map[int64]receipt.Outcome{10: receipt.OutcomeStale, 11: receipt.OutcomeApplied})
	})
}

// A projector loses its session with an event in hand, whose batch is on its way.
// Another one has the session, and all that is in it, when the batch arrives.
func TestABatchThatOutlivesItsSessionChangesNothing(t *testing.T) { // R2 R3 R4 S11
	storyBySession(t, func(t *testing.T, w *world) {
		w.projector("projector-1")
		w.tell("opening", opening)
		w.settledAs("opening", "completed")
		w.arm(control.Rule{Name: "on-its-way", Match: control.Match{Service: "cosmos", Operation: "batch", Client: "projector-1"}, Do: "hold", Late: true, Nth: 1})
		w.tell("ten", reserve(10, 3))
		w.tell("eleven", reserve(11, 5))
		w.until("the batch is on its way", reached("on-its-way"))
		w.hub.Isolate("projector-1")
		w.projector("projector-2")
		w.settledAs("eleven", "completed")
		w.wantStock(92, 11)
		w.release("on-its-way", "go")
		synctest.Wait()
		w.wantStock(92, 11)
		w.hub.Rejoin("projector-1")
	})
}
