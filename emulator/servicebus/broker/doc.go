// Package broker is the engine of the Service Bus emulator: queues, topics and their subscriptions, locks, delivery
// counts, dead letters, duplicate detection and schedules. It knows nothing of AMQP.
//
//	            ┌────────────────── scheduled ◀── Enqueue, time to come
//	            │ its time                 ▲
//	            ▼                          └── CancelScheduled
//	Enqueue ─▶ available ─reserve─▶ reserved ─Begin─▶ locked ─▶ completed: gone
//	            ▲  │                   │                │
//	            │  │ time to live      │ Cancel         ├─ abandoned, lock expired: count+1, old place
//	            │  │                   │                ├─ deferred ─ReceiveDeferred─▶ locked
//	            │  ▼                   │                ├─ released: old place
//	            │ gone, or dead letter │                └─ dead-lettered, or count = max: dead letter queue
//	            └──────────────────────┘
//
// What it promises, each held by the tests that name it:
//
//	B1   A message is held by at most one lock, and a lock ends only by settlement or by its time; the end of a
//	     consumer or of a connection does not end it.
//	B2   A settlement or renewal with a token whose lock is over changes nothing and is refused.
//	B3   Abandoning and lock expiry count a delivery; releasing, completing and dead-lettering do not; the first
//	     delivery has count 0 behind it; nothing counts inside a dead letter queue.
//	B4   A message that comes back stands at its old place, by sequence number.
//	B5   A consumer sees a message at most MaxDelivery times; then it is in the dead letter queue, with its count.
//	B6   A batch is enqueued whole or not at all.
//	B7   Within the window of duplicate detection a MessageID becomes visible once. A message that is still scheduled
//	     is not in the history; it is checked when it is scheduled and again when its time comes.
//	B8   A scheduled message is invisible to consumers until its time, then gets a new sequence number and enqueued time.
//	B9   A message past its time to live is never delivered, unless it was locked before. Dead letters never expire.
//	B10  A topic's message is in every subscription or in none.
//	B11  A session is held by at most one consumer, which gets its messages and no others, in order. Sessions with
//	     messages come to those who ask for the next one in turn, and never to one who has given up asking. A message
//	     without a session does not come into a queue that requires them; from another entity it is a dead letter.
//	B12  The end of a session's consumer frees the session and counts nothing; the end of its lock counts a delivery of
//	     every message that was locked under it.
//	B13  A deferred message is received by its sequence number only and under a fresh lock. It stays deferred when that
//	     lock ends or is abandoned, which counts, and it does not expire.
//	B14  A message whose properties outgrow the limit by a settlement is a dead letter.
//	B15  A queue that forwards gives every message to its destination once, in order, as a new arrival that remembers
//	     its first sequence number. After four times, or if the destination does not take it, the message is a dead
//	     letter of the queue it stands in; a dead letter that cannot be forwarded stays.
//	B16  With a journal, a namespace made anew is as it was when the last operation ended that was kept: entities,
//	     rules, messages with their state, count, number and lock, history and session state. Time has gone on: what
//	     came due meanwhile happens at once. Sessions are free, since their consumers are gone.
//	B17  An entity that is to be deleted on idle is, once nobody has used it for so long; see idle.go for what use is.
//	     What was accepted from a sender before is gone with it, what comes after is refused.
//
// # Locks
//
// Every queue has one mutex, held for short, never over a wait. Where two nest, the order is
//
//	changes of the set of entities → the journal's operation → a topic's inlet → its subscriptions → a dead letter
//	queue → timekeeper → journal's record → hub
//
// Nothing of the caller runs under any of them. Forwarding nests none: whatever forwards may do so in a circle. It is
// done by one goroutine, the timekeeper, which also wakes queues whose next deadline has come; every operation also brings its queue up to date first, so that no answer depends on when that goroutine runs.
package broker
