// Package journal keeps a namespace of the Service Bus emulator in one file, so that what was acknowledged outlives the
// process, however it ends.
//
//	engine ──Begin, Write…, End──▶ pending ──cut──▶ one transaction, fsync ──▶ answers, in order
//	           (in memory)                  (one goroutine)                   (another)
//
// What it promises, each held by the tests that name it:
//
//	J1  An answer that was given to Kept is called only when everything that had ended before is on disk.
//	J2  The file holds whole operations only, and all of those before any that it holds.
//	J3  What is loaded is what was written: every field of every message, entity, rule, history and session.
//	J4  A file that another process has open, that another version wrote or that is damaged is refused, with the cause
//	    and the remedy. It is never changed then.
//	J5  When the file cannot be written any more, no answer is called, Failed is closed, and nobody waits for ever.
//	J6  What waits to be written is bounded: operations begin when there is room.
//
// # Group commit
//
// While one transaction is written, the records of the next gather. Operations run under a shared lock and the
// committing goroutine takes what has gathered under the exclusive one: that is the whole of J2. It holds it for the
// exchange of one slice. Of several changes of one message within a transaction only the last is written; a message
// that has come and gone within one leaves nothing but its number.
//
// # The file
//
// servicebus.db, a bbolt database, locked while it is open. Per queue there is what never changes of a message in one
// bucket and what does in another, so that a lock does not write the body again. Every value carries a checksum.
package journal
