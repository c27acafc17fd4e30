package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"oneeffect/emulator/control"
)

// eventsSeen is what was seen of messages so far.
type eventsSeen struct {
	delivered map[string]uint64            // client, entity and number → first delivery
	seen      map[string]time.Time         // entity and key → first delivery to anybody
	told      map[string]map[string]uint64 // execution → client → its newest event or copy
	failures  map[string]bool              // keys of TaskFailed events
	tasks     map[string]int               // execution → messages in the queue of tasks
	sent      map[string]bool              // keys of messages that were not scheduled
	forged    map[string]bool              // keys of messages with another payload than their execution's
	copied    map[string]uint64            // execution and client → its newest copy
}

func newEventsSeen() eventsSeen {
	return eventsSeen{
		delivered: map[string]uint64{}, seen: map[string]time.Time{}, told: map[string]map[string]uint64{}, failures: map[string]bool{},
		tasks: map[string]int{}, sent: map[string]bool{}, forged: map[string]bool{}, copied: map[string]uint64{},
	}
}

func handle(e *control.Event) string {
	return e.Client + " " + e.Entity + " " + strconv.FormatInt(e.SequenceNumber, 10)
}

func isWorker(client string) bool       { return strings.HasPrefix(client, "worker-") }
func isOrchestrator(client string) bool { return strings.HasPrefix(client, "orchestrator-") }
func isProjector(client string) bool    { return strings.HasPrefix(client, "projector-") }

// innocentReasons say nothing about an execution.
var innocentReasons = []string{"IdempotencyKeyReused", "TooOld", "InvalidMessage"}

// message is one event of the broker.
func (i *inspection) message(e *control.Event) {
	id := e.CorrelationID
	switch e.Kind {
	case "delivered":
		i.deliveredAgain(e, id)
		if _, again := i.events.delivered[handle(e)]; !again {
			i.events.delivered[handle(e)] = e.Seq
		}
		if _, again := i.events.seen[e.Entity+" "+e.Key]; !again {
			i.events.seen[e.Entity+" "+e.Key] = i.now.at
		}
		if s := i.claims[id]; e.Entity == "tasks" && s != nil && s.completed {
			i.hold("C2")
		}
	case "enqueued", "scheduled":
		i.sent(e, id)
	case "dead-lettered":
		i.deadLettered(e, id)
	case "duplicate-dropped":
		// A copy that was sent twice is dropped once; one that bears another message's id is lost.
		if e.Entity == "tasks" && e.Client == "" && i.events.sent[e.Key] {
			i.broken("S4", "the copy %s of %s is dropped as a duplicate of what it was made of", e.Key, id)
		}
	case "settled":
		i.settled(e, id)
	}
}

func (i *inspection) sent(e *control.Event, id string) {
	switch e.Entity {
	case "tasks":
		i.events.tasks[id]++
		if strings.Contains(e.Key, "/copy/") && isOrchestrator(e.Client) {
			i.hold("E5")
		}
		if e.Kind == "enqueued" {
			i.events.sent[e.Key] = true
		} else {
			i.hold("W3", "S4")
			i.events.copied[id+" "+e.Client] = e.Seq
		}
	case "task-events":
		s := i.claimOf(id)
		if strings.HasSuffix(e.Key, "/completed") && !s.completed {
			i.broken("D1", "%s announces that %s is completed, and no claim is", e.Client, id)
		}
		if _, fence, failed := strings.Cut(e.Key, "/failed/"); failed {
			i.events.failures[e.Key] = true
			n, _ := strconv.ParseInt(fence, 10, 64)
			if _, stands := s.fences[n]; !stands {
				i.broken("D1", "%s announces %s, and no claim has failed so", e.Client, e.Key)
			}
		}
	default:
		return
	}
	by := i.events.told[id]
	if by == nil {
		by = map[string]uint64{}
		i.events.told[id] = by
	}
	by[e.Client] = e.Seq
}

// deadLettered: claim, then event, then dead letter.
func (i *inspection) deadLettered(e *control.Event, id string) {
	switch {
	case e.Entity == "tasks" && isWorker(e.Client):
		if slices.Contains(innocentReasons, e.Reason) {
			if e.Reason == "IdempotencyKeyReused" {
				i.hold("C7")
			}
			return
		}
		i.hold("D1")
		s := i.claimOf(id)
		if !s.failed[e.Reason] {
			i.broken("D1", "%s dead-letters %s for %s, and no claim has failed so", e.Client, e.Key, e.Reason)
		}
		for fence, reason := range s.fences {
			if reason == e.Reason && i.events.failures[id+"/failed/"+strconv.FormatInt(fence, 10)] {
				return
			}
		}
		i.broken("D1", "%s dead-letters %s for %s, and nobody was told", e.Client, e.Key, e.Reason)
	case e.Entity == subscription && isOrchestrator(e.Client) && e.Reason == "ResultChanged":
		i.broken("E2", "an event of %s contradicts its execution", id)
	case e.Entity == reservations && isProjector(e.Client):
		i.stockDead(e)
	}
}

// settled: what is completed has been told of, or comes again.
func (i *inspection) settled(e *control.Event, id string) {
	switch {
	case e.Entity == "tasks" && isWorker(e.Client) && e.Disposition == "completed":
		told := i.events.told[id][e.Client]
		s := i.claimOf(id)
		withdrawn := s.doc != nil && s.doc.Status == "CANCELLED"
		if told < i.events.delivered[handle(e)] && !withdrawn {
			i.broken("D1", "%s settles %s and has told nobody since its delivery", e.Client, e.Key)
		}
		if i.events.forged[e.Key] && i.events.copied[id+" "+e.Client] < i.events.delivered[handle(e)] {
			i.broken("C7", "%s takes %s, of another payload, for a message of %s", e.Client, e.Key, id)
		}
	case e.Entity == "tasks" && isWorker(e.Client) && e.Disposition == "abandoned":
		if !i.h.gone[e.Client] {
			i.broken("W3", "%s abandons %s, which spends a delivery, and nobody told it to end", e.Client, e.Key)
		}
	case e.Entity == subscription && isOrchestrator(e.Client) && e.Disposition == "completed":
		if x := i.runs[id]; x != nil && strings.HasSuffix(e.Key, "/completed") {
			if x.doc.Status != "COMPLETED" && x.doc.Status != "CANCELLED" {
				i.broken("E1", "%s settles %s, and its execution is %s", e.Client, e.Key, x.doc.Status)
			}
			if x.settledOnce {
				i.hold("E1")
			}
			x.settledOnce = true
		}
	case e.Entity == reservations && isProjector(e.Client):
		i.stockSettled(e)
	}
}

// request is one that the store answered.
func (i *inspection) request(e *control.Event) {
	if e.Entity == "claims" && e.Operation == "replace" && e.Status == 412 && isWorker(e.Client) {
		i.hold("C4")
	}
	if e.Entity == "claims" && e.Operation == "read" {
		i.lookedAfter(e)
	}
}
