// Package orchestrator takes requests, dispatches them as tasks, and moves each
// execution to its end when the task's event arrives.
//
//	request ─▶ execution and outbox entry, one batch ─▶ send ─▶ forget the entry
//	event   ─▶ transition under the ticket ─▶ settle
//	dead letter, age, failure ─▶ read the claim ─▶ transition, or send again
//
// What happens to an execution is decided in internal/execution (E1 to E3, E7, E8)
// and what happens to its claim in internal/claim; this package carries it out. A
// crash at any arrow is repaired: by the relay, which sends what stands in the
// outbox (E6), by the redelivery of the event, or at last by the reconciler, which
// reads the claim (E4, E5). Any number of processes do all of this at once.
//
//	E4  No execution stays RUNNING for ever and none is FAILED while its claim is
//	    COMPLETED. A dead letter, the broker's too, is only a hint to read the claim:
//	    what has ended ends the execution, what is alive is left, and everything else
//	    is written FAILED first, in the claim, so that no late copy can run. A dead
//	    letter of an earlier run, or for a reason that says nothing about the
//	    execution, changes nothing. Failed executions are looked at too.
//	E5  The claim of an execution that has been running for ReconcileAge is read: what
//	    has ended ends it, what is alive is left, a keyless call that began ends it as
//	    unknown, notAfter ends it as too old; and what nobody works on is sent again,
//	    with waits that double, counted beside the execution and never in it.
//	E6  An execution that was created is sent to the queue at least once, whatever
//	    crashes: execution and outbox entry are one write, and an entry is forgotten
//	    only once its task is sent.
//	O1  A request with an Idempotency-Key, or with an executionId of its own, which
//	    then stands for the key, makes at most one execution: 201 the first
//	    time, 200 with the same execution afterwards, 422 for another payload.
//	    The principal is part of the key.
//	O2  A request is answered 201 only when its execution and its outbox entry stand.
//	O3  The list's newest page holds every execution that the change feed has shown,
//	    newest first, and says how old that is; what is older is found by its links.
//	O4  Looking at a dead letter changes nothing. Its verdict is what a replay would
//	    come to.
//	E7  A replay is one batch of execution and outbox entry; a second one is a no-op.
//	    A resolve writes the claim and then the execution, and goes on where it was
//	    cut off. The dead letters of both are removed, best effort.
//	E8  A cancel takes the version that was seen. The execution ends first, and then,
//	    best effort, its claim. Of an orchestration the parts are cancelled, and those
//	    that have not begun never will; where that was cut off, the relay and the
//	    reconciler go on.
package orchestrator
