// Package worker runs one task at a time through the sequence that the whole
// repository is about:
//
//	deliver ─▶ take the claim ─▶ call ─▶ complete the claim ─▶ publish ─▶ settle
//
// Settling is last, always: an unsettled message is the outbox. A redelivery
// after any crash takes the same road; a completed claim skips the call and
// publishes the same event again. The order matters at every arrow: a claim
// completed before its event is published is told again by a redelivery, the
// other order could announce a result that no claim remembers.
//
//	D1  A task that parses is dead-lettered, and its failure published, only after
//	    FAILED of that run was written or read in the claim: claim, then event, then
//	    dead letter. Two reasons say nothing about the execution and publish
//	    nothing: IdempotencyKeyReused and TooOld.
//	W1  A keyless call is made at most once: only after "call started" is proved to
//	    be written by this owner, and within the lease.
//	W2  A keyed call is made only while the downstream is declared to remember the
//	    key, and within the lease.
//	W3  Waiting spends no delivery count, and nothing waits for ever: no copy comes after
//	    notAfter, but for a lease that stands, and what comes to nothing comes back later
//	    every time.
//
// A call is keyed when its handler declares a key and its claim is recorded so. A
// claim that began without is finished by the rules for none.
package worker
