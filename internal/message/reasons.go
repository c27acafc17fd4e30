package message

// Why a message is in the dead-letter queue, for machines. A claim and a TaskFailed
// say the same, except for the last two, which say nothing of an execution; and a
// message that is TooOld may have no claim.
const (
	OutcomeUnknown       = "OutcomeUnknown"       // a call without a key may have been made
	DownstreamRejected   = "DownstreamRejected"   // the downstream said no, finally
	AttemptsExhausted    = "AttemptsExhausted"    // too many starts, or too many unknown answers
	DeadlinePassed       = "DeadlinePassed"       // free waiting for a downstream is over
	KeyWindowPassed      = "KeyWindowPassed"      // the downstream may have forgotten the key
	TooOld               = "TooOld"               // past notAfter: nobody runs it any more
	IdempotencyKeyReused = "IdempotencyKeyReused" // one execution id, two payloads
	InvalidMessage       = "InvalidMessage"       // nobody can read it
)
