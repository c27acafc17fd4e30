// Package claim decides who may do a piece of work: a lease, so that a dead
// owner's work passes on; a fence, so that a slow owner's write does not count.
//
//	          ┌── release ──┐
//	          ▼             │
//	free ──take──▶ IN_PROGRESS ──complete──▶ COMPLETED
//	                 │  ▲   │
//	         expires └──┘   └──fail──▶ FAILED ──take by a later run──▶ IN_PROGRESS
//	     take by anyone, fence + 1
//
// One record per key in a store that replaces only what has not changed. The
// decisions are pure (Take); Desk and Lease carry them out.
//
//	C1   A key has at most one owner whose lease stands. This holds of the record;
//	     work that outlives its lease is stopped by C5 and, last, by the
//	     downstream's key.
//	C2   A completed claim is never granted again, and its result never changes.
//	C3   While the claim exists, every grant has a larger fence than the one before it.
//	C4   Only the holder of the newest grant can complete, fail, renew or release.
//	     A zombie's write fails: message.ErrConflict below, ErrFenced above.
//	C5   An owner stops trusting its lease before anyone else may take it: trust is
//	     the lease less a margin, counted from before the request was sent, by the
//	     larger of monotonic and wall time. The loss is a context that ends with
//	     cause ErrLost.
//	C6   No worker's clock is compared with another's or with a server's. A claim is
//	     stale when the store's Date less the record's own timestamp, both of one
//	     answer, exceeds lease and margin.
//	C7   The same key with another fingerprint is refused on every path that sees an
//	     existing record.
//	C8   Starts are counted, not failures: a task that kills its worker ends after
//	     MaxAttempts starts.
//	C9   After an ambiguous answer, and after any conflict on one's own write, the
//	     record is read back, and only the nonce in it proves what was applied.
//	     While nothing can be read, nothing is done.
//	C10  Every verdict that grants, fails or re-opens is a conditional write. Verdicts
//	     without a write are monotone, so a stale read cannot make them wrong.
package claim
