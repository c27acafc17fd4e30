package horizon

import "time"

// unevenness is how far two stamps of one broker may be apart by themselves.
const unevenness = time.Second

// ObservedLock holds the lock that a worker was told of against what the broker's
// own stamps say of it, at the first message. A lock is taken after its message
// came into the queue, so the entity's lock lasts for at most lockedUntil −
// enqueued: both are the broker's clock, and no other is asked. Where that is less
// than the setting, locks end before anyone here expects it.
//
// A lock that is longer than the setting cannot be seen so, since a message may
// have lain in the queue for any time; it is no danger, as renewals only come too
// early. The difference of two LockedUntil around a renewal tells neither: both
// have the lock in them.
func ObservedLock(lock Duration, enqueued, lockedUntil time.Time) (Violation, bool) {
	if lock.Name == "" || enqueued.IsZero() || lockedUntil.IsZero() {
		return Violation{}, false
	}
	bound := lockedUntil.Sub(enqueued)
	if lock.Value <= bound+unevenness {
		return Violation{}, false
	}
	return Violation{
		Relation: "H1", Left: lock.Name + " " + short(lock.Value), Must: "must be",
		Right:  "the entity's LockDuration, which is " + short(bound.Round(time.Second)) + " at most, as the first message shows,",
		Else:   "its locks are lost before they are renewed",
		Remedy: "set " + lock.Name + " to the entity's LockDuration",
	}, true
}
