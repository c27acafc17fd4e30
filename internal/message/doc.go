// Package message is what travels between the processes, and the words they
// share about it.
//
//	orchestrator ──Task──▶ worker ──Completed or Failed──▶ orchestrator
//
// A message is a CloudEvents 1.0 event in structured JSON
// (application/cloudevents+json). Identity is never the broker's: a task is
// known by its ExecutionID, and everything a transport adds (message id,
// sequence number, lock token, delivery count) is evidence that decides nothing.
//
//	M1  What does not parse is refused with a reason that names the cause, and is
//	    never retried: ErrPoison.
//	M2  Members that this version does not know are kept.
//	M3  A JSON text that two readers could understand differently is refused:
//	    duplicate names, invalid UTF-8, trailing bytes, integers beyond 2^53,
//	    numbers that no float64 holds.
//	M4  No MessageID of one kind can equal one of another kind or of another
//	    execution: "/" is not in the alphabet of an ExecutionID.
package message
