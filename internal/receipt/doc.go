// Package receipt decides whether an event has been applied: a receipt for each
// event, written together with what the event does, and a version rule for those
// that come out of order.
//
//	           ┌─ receipt "applied" and the new item, one batch ─▶ RECEIPT_COMMITTED_EFFECT_APPLIED
//	event ─────┼─ receipt "stale" alone ─────────────────────────▶ STALE_EVENT_REJECTED
//	           └─ nothing: a receipt of this key stands already ─▶ DUPLICATE_SUPPRESSED, RECEIPT_CONFLICT
//
// One entity has one item, and its receipts beside it, in a store that writes two
// documents of one partition together or neither. The decisions are pure (Decide,
// Recognise); Book carries them out.
//
//	R1  An event has one receipt, under its key. A receipt says "applied" or "stale"
//	    and never changes.
//	R2  An item is written only in one batch with a receipt that says "applied": both
//	    stand, or neither. Nothing in this package can write one without the other.
//	R3  The version of an item rises strictly. An event with another key and a
//	    version that is not greater than the item's is stale: it gets its receipt and
//	    changes nothing. An equal version is not greater.
//	R4  An event is known by its key alone. However often it comes, and under
//	    whatever transport id, it is applied once.
//	R5  The same key with other content is a conflict, on every path that sees a
//	    receipt. Nothing is written.
//	R6  After an answer that was lost, the receipt is read back, and only the nonce
//	    in it proves who wrote it. While nothing can be read, nothing is said.
//	R7  A lagging replica delays and does not mislead: what it hides is found by the
//	    write that it provokes, and "stale" stays true because versions only rise.
//	R8  A reservation begins an item only with version 1; a count or a state begins
//	    one with any. What is skipped between two versions is in the receipt, as a gap.
//	R9  One recording makes a bounded number of rounds. In one process, the events of
//	    one entity take turns, the lowest version first, so that only processes race
//	    for it.
//
// What this does not give:
//
//   - Order. A quantity is a difference, and a difference that comes late is
//     rejected: the stock is wrong by it from there on, and stays so. Its receipt says
//     "stale" and by how much (delta), and the gap that it left stands in the receipt
//     of the event that came before it. The stock is put right by a count at a greater
//     version (message.StockCount), which takes the same way as every event.
//   - Memory for ever. Receipts expire. An event that comes back later than that is
//     stale by its version, and changes nothing, but is shown as STALE_EVENT_REJECTED.
//   - More than this one effect. What other systems do with what they read here is
//     theirs to make idempotent.
package receipt
