// Package disk keeps an emulator's data beyond the end of its process, however that ends: an ordered store of bytes that
// is written in groups.
//
//	Begin, Put…, End ──▶ pending ──cut──▶ one group of the log, fsync ──▶ answers, in order
//	 (in memory)                 (one goroutine)                 (another)
//
// What it promises, each held by the tests that name it:
//
//	D1  An answer that was given to Kept is called only when everything that had ended before is on disk. Answers are
//	    called in the order in which they were given.
//	D2  What is on disk is whole operations only, and all of those before any of them.
//	D3  What is loaded is what was put last, and nothing that was deleted, however often the store is opened.
//	D4  A folder that another process has open, that another version or another user of this package wrote or that is
//	    damaged is refused, with the cause and the remedy. It is never changed then.
//	D5  When the disk takes no more, no answer is called, Failed is closed, and nobody waits for ever.
//	D6  What waits to be written is bounded: operations begin when there is room.
//	D7  What is on disk is bounded by what is kept: the log is no larger than a few times that, and a few segments.
//
// # Group commit
//
// While one group is written, the operations of the next gather. Operations run under a shared lock and the committing
// goroutine takes what has gathered under the exclusive one: that is the whole of D2. It holds it for the exchange of a
// slice. Nothing is delayed to make groups larger.
//
// # The log
//
// The log is all there is: files of about 64 MiB, the segments, of which the last is written to. A key's place in them is
// in memory. A group is one fsync, and carries a number and checksums. After the last group there are zeros, which the next
// ones overwrite: to a file system, a file that grows is twice the work. When the log has become twice as large as what it
// keeps, the oldest segment is cleaned: with each group that is written, some of its values that are still in use are put
// anew, and at its end it is deleted. A deletion needs no more than that: what it deletes is never in a later segment.
//
// What a crash leaves of a group that was not acknowledged is cut off. It is told from damage by what follows: a group is
// written when the one before is on disk, so one that is not whole while a later one is was whole once. Close writes a
// group without content, and from then on the last ones cannot be mistaken either. A log that somebody else has cut, at
// the end of a group, cannot be told from one that was never longer.
package disk
