// Package orchestrator takes requests, dispatches them as tasks, and moves each
// execution to its end when the task's event arrives.
//
//	request ─▶ execution and outbox entry, one batch ─▶ send ─▶ forget the entry
//	event   ─▶ transition under the ticket ─▶ settle
//
// What happens to an execution is decided in internal/execution (E1 to E3); this
// package carries it out. A crash at any arrow is repaired: by the relay, which
// sends what stands in the outbox (E6), or by the redelivery of the event.
//
//	O1  A request with an Idempotency-Key, or with an executionId of its own, which
//	    then stands for the key, makes at most one execution: 201 the first
//	    time, 200 with the same execution afterwards, 422 for another payload.
//	O2  A request is answered 201 only when its execution and its outbox entry stand.
package orchestrator
