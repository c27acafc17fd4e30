package main

import (
	"fmt"
	"slices"
	"strings"
)

// What the demo does, by its own ids.
const (
	task   = "82f3" // done by a second worker, since the first is killed
	letter = "82f4" // fails, and is dead-lettered
	killed = "worker-1"
)

const (
	orchestrator = "oneeffect.orchestrator"
	worker       = "oneeffect.worker"
	projector    = "oneeffect.projector"

	cosmos = "azure.cosmosdb"
	bus    = "servicebus"
)

// span is what the operation of the task must have, so many times at least.
type span struct {
	role, name, kind string // kind is a dependency's type; empty: a request
	times            int
}

var story = []span{
	{orchestrator, "POST /v1/executions", "", 1},
	{orchestrator, "execute_batch executions", cosmos, 1},
	{orchestrator, "send tasks", bus, 1},
	{orchestrator, "delete_item executions", cosmos, 1},
	{worker, "process tasks", "", 1}, // by the second; the first was killed in its own
	{worker, "read_item claims", cosmos, 1},
	{worker, "replace_item claims", cosmos, 2},
	{worker, "POST", "HTTP", 1},
	{worker, "send task-events", bus, 1},
	{worker, "complete tasks", bus, 1},
	{orchestrator, "process task-events", "", 1},
	{orchestrator, "patch_item executions", cosmos, 1},
	{orchestrator, "complete task-events", bus, 1},
	{projector, "process reservations", "", 3},
	{projector, "read_item inventory", cosmos, 4},
	{projector, "execute_batch inventory", cosmos, 3},
	{projector, "complete reservations", bus, 3},
}

// metrics are what each role must have measured.
var metrics = map[string][]string{
	orchestrator: {
		"http.server.request.duration", "db.client.operation.duration", "azure.cosmosdb.client.operation.request_charge",
		"messaging.client.sent.messages", "messaging.client.consumed.messages", "messaging.client.operation.duration", "messaging.process.duration",
		"oneeffect.orchestrator.events", "oneeffect.orchestrator.conflicts", "oneeffect.orchestrator.outbox_age",
		"oneeffect.servicebus.settlements", "oneeffect.servicebus.slots",
	},
	worker: {
		"http.client.request.duration", "db.client.operation.duration", "azure.cosmosdb.client.operation.request_charge",
		"messaging.client.sent.messages", "messaging.client.consumed.messages", "messaging.client.operation.duration", "messaging.process.duration",
		"oneeffect.worker.claims", "oneeffect.worker.deliveries", "oneeffect.worker.unknown_outcomes",
		"oneeffect.servicebus.settlements", "oneeffect.servicebus.dead_letters", "oneeffect.servicebus.slots",
	},
	projector: {
		"db.client.operation.duration", "azure.cosmosdb.client.operation.request_charge", "messaging.client.consumed.messages",
		"messaging.client.operation.duration", "messaging.process.duration", "oneeffect.projector.events", "oneeffect.servicebus.settlements",
	},
}

// findings are what was looked at and what is missing.
type findings struct {
	envelopes, operations int
	problems              []string
}

func (f findings) summary() string {
	noun := "operations"
	if f.operations == 1 {
		noun = "operation"
	}
	return fmt.Sprintf("otel-check: %d envelopes, %d %s, %d missing", f.envelopes, f.operations, noun, len(f.problems))
}

func (f *findings) want(holds bool, format string, args ...any) {
	if !holds {
		f.problems = append(f.problems, "missing: "+fmt.Sprintf(format, args...))
	}
}

// examine looks for everything that docs/tracing.md says is there.
func examine(all []envelope) findings {
	f := findings{envelopes: len(all)}
	i := slices.IndexFunc(all, func(e envelope) bool {
		return e.Data.BaseType == "RequestData" && e.Data.BaseData.Name == "POST /v1/executions" && e.Data.BaseData.Properties["oneeffect.task"] == task
	})
	f.want(i >= 0, "the request that creates %s", task)
	if i < 0 {
		return f
	}
	root := all[i]
	var inside []envelope // the spans of the operation
	for _, e := range all {
		if e.isSpan() && e.operation() == root.operation() {
			inside = append(inside, e)
		}
	}
	f.spans(inside, root)
	f.operations = operationsOf(all, root.operation())
	f.links(all, inside, root)
	f.rest(all, root)
	return f
}

// spans holds the operation's spans to the story, and each of them to what Application
// Insights makes a map and a tree of.
func (f *findings) spans(inside []envelope, root envelope) {
	times, known := map[span]int{}, map[string]bool{}
	for _, e := range inside {
		known[e.Data.BaseData.ID] = true
		if e.instance() != killed {
			times[span{role: e.role(), name: e.Data.BaseData.Name, kind: e.Data.BaseData.Type}]++
		}
	}
	for _, s := range story {
		counted := s
		counted.times = 0
		f.want(times[counted] >= s.times, "%d of %d spans %q of %s (type %q)", s.times-times[counted], s.times, s.name, s.role, s.kind)
	}
	for _, e := range inside {
		b := e.Data.BaseData
		name := fmt.Sprintf("%s %s of %s", e.Data.BaseType, b.Name, e.instance())
		switch e.Data.BaseType {
		case "RemoteDependencyData":
			f.want(b.Type != "" && b.Target != "", "type (%q) or target (%q) of %s", b.Type, b.Target, name)
		case "RequestData":
			f.want(b.Source != "", "source of %s", name)
		}
		f.want(e.instance() != "", "instance of %s", name)
		// What a killed process had begun is never told: its children have no parent.
		f.want(e.Data.BaseData.ID == root.Data.BaseData.ID || known[e.parent()] || e.instance() == killed, "the parent of %s", name)
	}
}

// operationsOf is how many operations the task's own work is in. A delivery that was
// suppressed is of another one, and links to the first.
func operationsOf(all []envelope, first string) int {
	found := map[string]bool{}
	for _, e := range all {
		if e.isSpan() && e.Data.BaseData.Properties["oneeffect.task"] == task && (e.operation() == first || !linksTo(e, first, "")) {
			found[e.operation()] = true
		}
	}
	return len(found)
}

// linksTo says whether a span links to an operation, and to a span of it if one is given.
func linksTo(e envelope, operation, id string) bool {
	return slices.ContainsFunc(e.links(), func(l link) bool { return l.Operation == operation && (id == "" || l.ID == id) })
}

func (f *findings) links(all, inside []envelope, root envelope) {
	for _, e := range inside {
		if strings.HasPrefix(e.Data.BaseData.Name, "process ") {
			f.want(linksTo(e, root.operation(), e.parent()), "the link of %s of %s to what sent its message", e.Data.BaseData.Name, e.instance())
		}
	}
	var suppressed, takeover, repeated, applied bool
	for _, e := range all {
		p := e.Data.BaseData.Properties
		switch {
		case !e.isSpan():
		case p["oneeffect.decision"] == "no-op" && p["oneeffect.task"] == task:
			suppressed = suppressed || linksTo(e, root.operation(), root.Data.BaseData.ID)
		case p["oneeffect.claim"] == "takeover" && p["oneeffect.task"] == task:
			takeover = takeover || len(e.links()) == 2 && linksTo(e, root.operation(), "")
		case p["oneeffect.class"] == "DUPLICATE_SUPPRESSED":
			for _, first := range inside {
				repeated = repeated || first.Data.BaseData.Properties["oneeffect.class"] == "RECEIPT_COMMITTED_EFFECT_APPLIED" && linksTo(e, root.operation(), first.Data.BaseData.ID)
			}
		}
		applied = applied || p["oneeffect.class"] == "RECEIPT_COMMITTED_EFFECT_APPLIED"
	}
	f.want(suppressed, "the link of the second completion to the request of %s", task)
	f.want(takeover, "the link of the takeover to the work of %s", killed)
	f.want(applied && repeated, "the link of the repeated reservation to the delivery that was applied")
}

// rest is what is no span of the task: the failed one, the log, and what was measured.
func (f *findings) rest(all []envelope, root envelope) {
	var exception, deadLettered, line bool
	measured := map[string]bool{}
	for _, e := range all {
		b := e.Data.BaseData
		switch e.Data.BaseType {
		case "ExceptionData":
			exception = exception || e.role() == worker && b.Exceptions[0].TypeName == "downstream.500"
		case "RemoteDependencyData":
			deadLettered = deadLettered || b.Name == "dead_letter tasks" && b.Properties["messaging.servicebus.disposition_status"] == "dead_letter" &&
				b.Properties["messaging.message.id"] == letter
		case "MessageData":
			line = line || e.operation() == root.operation() && b.Message == "handled" && b.Properties["task"] == task
		case "MetricData":
			for _, m := range b.Metrics {
				measured[e.role()+" "+m.Name] = true
			}
		}
	}
	f.want(exception, "the exception of the call of %s", letter)
	f.want(deadLettered, "the settlement of %s, with its disposition", letter)
	f.want(line, "the line of the log about %s, in its operation", task)
	for _, role := range []string{orchestrator, worker, projector} {
		for _, name := range metrics[role] {
			f.want(measured[role+" "+name], "metric %s of %s", name, role)
		}
	}
}
