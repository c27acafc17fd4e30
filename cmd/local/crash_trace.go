package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// What the event log says of one cell. It is written by the emulators alone.

// unsettled are the messages that somebody still has to deal with, by the events of
// the broker: those that came, less those that were settled.
func unsettled(events []event) []string {
	open := map[string]bool{}
	for _, e := range events {
		came, gone := cameAndGone(e)
		if came != "" {
			open[came] = true
		}
		delete(open, gone)
	}
	return slices.Sorted(maps.Keys(open))
}

// cameAndGone names the message that there is to be dealt with since an event of the broker,
// and the one that there is no more; either is empty if there is none.
func cameAndGone(e event) (came, gone string) {
	if e.Service != "servicebus" || e.Entity != message.Tasks && !strings.Contains(e.Entity, "/subscriptions/") {
		return "", ""
	}
	lies := fmt.Sprintf("%s in %s, number %d", e.Key, e.Entity, e.Sequence)
	waits := fmt.Sprintf("%s in %s, scheduled", e.Key, e.Entity)
	switch {
	case e.Kind == "enqueued":
		return lies, ""
	case e.Kind == "scheduled":
		return waits, ""
	case e.Kind == "activated": // under a new number
		return lies, waits
	case e.Kind == "dead-lettered", e.Kind == "settled" && (e.Disposition == "completed" || e.Disposition == "dead-lettered"):
		return "", lies
	}
	return "", ""
}

// buried are the reasons of an entity's dead letters, in their order.
func buried(events []event, entity string) []string {
	var reasons []string
	for _, e := range events {
		if e.Kind == "dead-lettered" && e.Entity == entity {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}

// reached says that the rule of the crash point has fired.
func reached(e event) bool { return e.Kind == "rule-reached" && e.Rule == pointRule }

// settledOf is the settlement of one message that leaves nothing to do.
func settledOf(entity, key string) func(event) bool {
	return func(e event) bool {
		return e.Kind == "settled" && e.Entity == entity && e.Key == key && (e.Disposition == "completed" || e.Disposition == "dead-lettered")
	}
}

// endsExecution says that an event is a write that brings an execution to its end, whichever.
func endsExecution(id string) func(event) bool {
	return func(e event) bool {
		return e.Service == "cosmos" && e.Entity == "executions" && e.Operation == "patch" && e.Key == id && e.Status == http.StatusOK &&
			(e.BodyStatus == string(execution.Completed) || e.BodyStatus == string(execution.Failed))
	}
}

// over says that something has happened so often, and that no message is left.
func over(events []event, what func(event) bool, times int) bool {
	for _, e := range events {
		if what(e) {
			times--
		}
	}
	return times <= 0 && len(unsettled(events)) == 0
}

// by adds whose act it is.
func by(client string, what func(event) bool) func(event) bool {
	return func(e event) bool { return e.Client == client && what(e) }
}
