// Package projector applies events to what they are about, each once: messages
// about stock to the inventory, and webhooks to the resources that they tell of.
//
//	delivery ─▶ receipt and effect, one batch ─▶ settle
//	webhook  ─▶ signature ─▶ receipt and effect, one batch ─▶ answer
//
// What becomes of an event is decided in internal/receipt (R1 to R9); this package
// carries it out.
//
//	P1  A message is completed only after the receipt of its event stands, whoever
//	    wrote it: applied, a duplicate or stale.
//	P2  What can never take effect is dead-lettered with its reason, and changes
//	    nothing: what nobody can read, another content under a known key, a sku that
//	    nobody has begun after as long as its beginning may have been held.
//	P3  What is not known yet is tried again: the message waits here and is then given
//	    back; the sender of a webhook is answered 503. The beginning of a sku is waited
//	    for within the delivery, which spends none: 10 seconds at the first, and at
//	    the n-th as long as n deliveries are held that come to nothing.
//	P4  A transport's id decides nothing, be it a message's or a delivery's of a
//	    webhook. It is written into the receipt for people.
//	P5  A webhook is heard only if one of its source's secrets signed its body and its
//	    time, and that time is within five minutes of now. Otherwise it is answered
//	    401, whatever else is wrong with it, and the store hears nothing. (What is
//	    not read to its end cannot be looked at: it is answered 413 if it is too
//	    long, 503 if as many as can be are being heard.)
//	P6  A webhook's answer says what became of it: applied, duplicate and stale are
//	    200, since the sender has nothing more to do; a conflict is 409.
//
// # Residual risk
//
// A reservation is a difference. If it comes after a later version of its sku was
// applied, it is stale and rejected, and the stock stays too high by its quantity,
// unless it is older than a count: deduplication does not order, and the version
// rule prefers a loss that is on record to an effect out of order. Its receipt has
// outcome "stale" and the delta that was not applied; the event that overtook it has
// a gap in its receipt, and a warning in the log. Sessions (SessionId = sku) make
// this rare and do not end it: a message that its producer sends late, or an operator
// replays, comes late in its session too. The way back is a count: a message of type
// StockCounted, at a version greater than the item's, sets the stock as it is.
package projector
