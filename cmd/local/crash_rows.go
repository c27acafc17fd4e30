package main

import "net/http"

// takingRows are of a worker that takes a claim.
var takingRows = []crossing{
	{
		row: "received, claim not sent", point: point{program: "worker", at: claims},
		keyed: all(once, sigkill, sigstop), keyless: all(once, sigkill, sigstop),
	},
	{
		row: "claim sent, answer lost", point: point{program: "worker", at: claims, after: true},
		keyed: all(once, sigkill, sigstop, alive), keyless: all(once, sigkill, sigstop, alive),
	},
	{
		// There is nothing between claim and call to be caught at: a call that has not
		// arrived, and never does, was not sent as far as anybody can know.
		row: "claim held, nothing sent downstream", point: point{program: "worker", at: calls, drop: true},
		keyed: all(once, sigkill, sigstop),
	},
	{
		row: "claim held, nothing sent downstream", point: point{program: "worker", at: callStarts},
		keyless: all(once, sigkill, sigstop),
	},
}

// callingRows are of a worker around its call.
var callingRows = []crossing{
	{
		row: "callStarted sent, answer lost", point: point{program: "worker", at: callStarts, after: true},
		keyless: ends{sigkill: unknown(0), sigstop: unknown(0), alive: once},
	},
	{
		row: "callStarted written, nothing sent", point: point{program: "worker", at: calls, drop: true},
		keyless: all(unknown(0), sigkill, sigstop),
	},
	{
		row: "request on the wire, no answer", how: "lost", point: point{program: "worker", at: calls},
		keyed: all(once, sigkill), keyless: all(unknown(0), sigkill),
	},
	{
		row: "request on the wire, no answer", how: "late", point: point{program: "worker", at: calls, late: true},
		keyed: all(once, sigkill), keyless: all(unknown(1), sigkill),
	},
	{
		row: "request on the wire, no answer", how: "applied", point: point{program: "worker", at: calls, after: true},
		keyed: all(once, sigkill, alive), keyless: all(unknown(1), sigkill, alive),
	},
	{
		row: "answer received, completion not written", point: point{program: "worker", at: completes},
		keyed: all(once, sigkill, sigstop), keyless: all(unknown(1), sigkill, sigstop),
	},
	{
		row: "completion sent, answer lost", point: point{program: "worker", at: completes, after: true},
		keyed: all(once, sigkill, sigstop, alive), keyless: all(once, sigkill, sigstop, alive),
	},
	{
		row: rowOfNothingWritten, point: point{program: "worker", at: completes, late: true},
		keyed: all(once, sigkill, alive), keyless: ends{sigkill: unknown(1), alive: once},
	},
}

// endingRows are of a worker that has a result, or a failure, to tell of.
var endingRows = []crossing{
	{
		row: "claim FAILED, TaskFailed not published", point: point{program: "worker", at: publishes, suffix: "/failed/1", first: http.StatusUnprocessableEntity},
		keyed: all(rejected, sigkill, sigstop), keyless: all(rejected, sigkill, sigstop),
	},
	{
		row: "TaskFailed published, not dead-lettered", point: point{program: "worker", at: deadLetters, first: http.StatusUnprocessableEntity},
		keyed: all(rejected, sigkill, sigstop), keyless: all(rejected, sigkill, sigstop),
	},
	{
		row: "completed, event not published", point: point{program: "worker", at: publishes, suffix: "/completed"},
		keyed: all(once, sigkill, sigstop), keyless: all(once, sigkill, sigstop),
	},
	{
		row: "event sent, answer lost", point: point{program: "worker", at: publishes, suffix: "/completed", after: true},
		keyed: all(once, sigkill, sigstop, alive), keyless: all(once, sigkill, sigstop, alive),
	},
	{
		row: "published, not settled", point: point{program: "worker", at: settles},
		keyed: all(once, sigkill, sigstop), keyless: all(once, sigkill, sigstop),
	},
	{
		// A pause would change nothing: the message is gone and the claim completed.
		row: "settle sent, answer lost", point: point{program: "worker", at: settles, after: true},
		keyed: all(once, sigkill, alive), keyless: all(once, sigkill, alive),
	},
}

// specialRows are of a worker in unusual circumstances.
var specialRows = []crossing{
	{
		row: "delayed copy sent, original not settled", how: "downstream busy", point: point{program: "worker", at: settles, first: http.StatusServiceUnavailable},
		keyed: all(once, sigkill, sigstop),
	},
	{
		// A keyless call that is refused is not made again. A store that does not answer
		// makes a copy of either kind.
		row: "delayed copy sent, original not settled", how: "store down", point: point{program: "worker", at: settles, outage: true},
		keyed: all(once, sigkill), keyless: all(once, sigkill, sigstop),
	},
	{
		row: "paused past the lease around the call, then resumed", how: "before the effect", point: point{program: "worker", at: calls},
		keyed: all(once, sigstop), keyless: all(unknown(1), sigstop),
	},
	{
		row: "paused past the lease around the call, then resumed", how: "after the effect", point: point{program: "worker", at: calls, after: true, early: true},
		keyed: all(once, sigstop), keyless: all(unknown(1), sigstop),
	},
	{
		row: "two deliveries in two slots of one process", how: "during the call", point: point{program: "worker", at: calls, twice: true},
		keyed: all(once, sigkill, alive), keyless: all(once, alive),
	},
	{
		row: "two deliveries in two slots of one process", how: "before the call", point: point{program: "worker", at: callStarts, twice: true},
		keyless: all(once, sigkill),
	},
	{
		row: "renewal in flight at SIGTERM", how: "applied late", point: point{program: "worker", at: renews, call: "before"},
		keyed: all(once, sigterm),
	},
	{
		row: "renewal in flight at SIGTERM", how: "applied late", point: point{program: "worker", at: callStarts, nth: 2, call: "before"},
		keyless: all(once, sigterm),
	},
	{
		row: "renewal in flight at SIGTERM", how: "answer lost", point: point{program: "worker", at: renews, after: true, drop: true, call: "before"},
		keyed: all(once, sigterm),
	},
	{
		row: "renewal in flight at SIGTERM", how: "answer lost", point: point{program: "worker", at: callStarts, nth: 2, after: true, drop: true, call: "before"},
		keyless: all(once, sigterm),
	},
	{
		row: "renewal sent, answer lost", how: "before the effect", point: point{program: "worker", at: renews, after: true, call: "before"},
		keyed: all(once, sigkill, sigstop, alive),
	},
	{
		row: "renewal sent, answer lost", how: "before the effect", point: point{program: "worker", at: callStarts, nth: 2, after: true, call: "before"},
		keyless: ends{sigkill: unknown(0), sigstop: unknown(1), alive: once},
	},
	{
		row: "renewal sent, answer lost", how: "after the effect", point: point{program: "worker", at: renews, after: true, call: "after"},
		keyed: all(once, sigkill, alive),
	},
	{
		row: "renewal sent, answer lost", how: "after the effect", point: point{program: "worker", at: callStarts, nth: 2, after: true, call: "after"},
		keyless: ends{sigkill: unknown(1), alive: once},
	},
}

// orchestratorRows are of an orchestrator.
var orchestratorRows = []crossing{
	{
		row: "replay batch written, nothing sent", how: "batch answered", point: point{program: "orchestrator", at: dispatches, suffix: "/run/2", first: http.StatusUnprocessableEntity, replay: true},
		keyed: all(again, sigkill, sigstop), keyless: all(again, sigkill, sigstop),
	},
	{
		row: "replay batch written, nothing sent", how: "batch's answer lost", point: point{program: "orchestrator", at: batches, after: true, first: http.StatusUnprocessableEntity, replay: true},
		keyed: all(again, sigkill, alive), keyless: all(again, sigkill, alive),
	},
	{
		row: "orchestrator: batch written, message not sent", how: "batch answered", point: point{program: "orchestrator", at: dispatches},
		keyed: all(once, sigkill, sigstop), keyless: all(once, sigkill, sigstop),
	},
	{
		row: "orchestrator: batch written, message not sent", how: "batch's answer lost", point: point{program: "orchestrator", at: batches, after: true},
		keyed: all(once, sigkill, alive), keyless: all(once, sigkill, alive),
	},
	{
		row: "orchestrator: message sent, outbox entry not deleted", point: point{program: "orchestrator", at: forgets},
		keyed: all(once, sigkill, sigstop), keyless: all(once, sigkill, sigstop),
	},
	{
		row: "orchestrator: transition sent, answer lost", point: point{program: "orchestrator", at: transitions, after: true},
		keyed: all(once, sigkill, sigstop, alive), keyless: all(once, sigkill, sigstop, alive),
	},
	{
		row: "orchestrator: transition done, message not settled", point: point{program: "orchestrator", at: observed},
		keyed: all(once, sigkill, sigstop), keyless: all(once, sigkill, sigstop),
	},
}

// projectorRows are of a projector, which has no keys.
var projectorRows = []crossing{
	{
		row: "projector: batch sent, answer lost", point: point{program: "projector", at: projects, after: true},
		keyed: all(applied, sigkill, sigstop, alive),
	},
	{
		row: "projector: batch applied, message not settled", point: point{program: "projector", at: projected},
		keyed: all(applied, sigkill, sigstop),
	},
}
