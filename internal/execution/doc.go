// Package execution decides which transition an execution takes next.
//
//	RUNNING ──Completed──▶ COMPLETED
//	   │ └────Failed─────▶ FAILED ──Completed──▶ COMPLETED (recovered)
//	   └──────cancel─────▶ CANCELLED
//
// One document per execution; a transition is one write on the condition that the
// document has not changed. The ETag of its creation travels with the task as a
// ticket and comes back with the completion, so that the ordinary transition
// needs no read. A ticket decides nothing by itself: when it does not fit, look.
//
//	E1  RUNNING to COMPLETED happens once; a second completion with the same result
//	    digest is a no-op and its message is settled.
//	E2  Another digest cannot happen while claims keep C2; if it is seen, the state
//	    is unchanged and the event is dead-lettered with its evidence.
//	E3  Completed wins over failed. A failure of an earlier run, or after completion,
//	    changes nothing. A completion after CANCELLED stays cancelled and is recorded.
//	E7  A replay is one more run of what is FAILED, and a second replay is a no-op.
//	    COMPLETED and CANCELLED refuse, and so does what is past notAfter. A failure
//	    after which there may be an effect is replayed only with the assertion that
//	    there is none, and not before its last call can have ended; or it is resolved
//	    as applied, without a call.
//	E8  Only what is RUNNING is cancelled, and a cancelled execution stays so.
//
// How an execution is carried to its end is package orchestrator's: E4 to E6.
package execution
