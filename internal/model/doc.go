// Package model explores the claim protocol: every state that two workers, the
// store, the queue, the downstream and the orchestrator can come into with one
// task, step by step, nearest first. It has tests only.
//
//	records   a claim without what decides nothing, and a number for each
//	state     all that the next step can depend on, in about a hundred bytes
//	worker    take, announce, call, write, read back, publish, copy, settle
//	outside   leases, locks and windows that end, writes and requests that come late
//	rules     claim.Take, Examine, Withdraw, Resolve, ReadBack, TakenBy and what a
//	          lease writes; execution.Next, Replay, Cancel, Resolve: the product's own
//	          functions, asked once for each distinct question
//
// What must hold in every state: no step has a second effect; no execution gets
// two results; every grant has a larger fence; a completed claim does not change;
// no execution is FAILED while its claim is COMPLETED, but between the two writes
// of an operator's resolve; a task that is not at its end is in a message or in
// the outbox. And from every state in which both workers are at rest, an end is
// reached without any further fault, by either version of the handler alone.
//
// A step may be: a crash anywhere; trust that ends while its owner goes on (a
// pause); a write that is not applied, whose answer is lost, or that lands after
// the read-back or never; a read from a replica that lags by a version, whatever
// session tokens promise; a request that is lost, late, rejected, or not answered;
// a lock that ends; a copy, a settlement, a publication that is lost or half done;
// a task sent twice; an event that comes twice; a dead letter that is seen or
// removed; the reconciler's look, also an old one, also with a crash or a late
// write after it; cancel, replay, resolve; the ends of lease, notBefore, key window
// and notAfter.
//
// # What is bounded, and why
//
//   - Faults, acts of operators and long waits on one way: -faults. Every broken rule
//     of the table shows itself with three or less; most with one or two.
//   - Deliveries to each worker: -deliveries. A third process is a worker that has
//     crashed and comes back under other names.
//   - Three messages at once, two deliveries of one message before its dead letter,
//     two runs, one dispatch by the reconciler beside the relay's. The ways to an end
//     are not bounded so.
//   - A process works on one delivery of a task at a time, which the desk holds it to.
//   - One late write of each process at a time: a second one of the same owner has the
//     same condition, and at most one of them can land.
//   - Reading, deciding and writing are one step: whatever comes between read and write
//     is what the condition finds. A write on an old condition never lands, so a
//     version is current or of no use, and needs no number.
//   - Time is before or after. An owner's trust ends before its lease does (C5); a
//     request is under way for less than the margins of the key window and of an
//     operator's look. A process that is stopped for longer than those, between the
//     last look at its lease and the request, is beyond this model, and beyond the
//     protocol.
//   - Operators assert the truth: no effect without its result in the claim. Whether
//     they also wait is a rule.
//   - Payloads are one: another fingerprint is refused before anything else. Deadlines
//     of free waiting are left out: they end like attempts that are exhausted.
//
// `make model` explores more than `make test` does.
package model
