package horizon

import "time"

// ObservedLock holds the lock that a process was told of against what a message
// shows of it. A lock is taken after its message came into the queue, so it lasts
// for atMost = LockedUntil − EnqueuedTime at most. Both are the broker's clock, and
// no other is asked. Where that is less than the setting, locks end before anyone
// here expects it. A tenth is allowed, since one node of a broker may have stamped
// the one, and another node the other.
//
// A lock that is longer than the setting cannot be seen so, since a message may
// have lain in the queue for any time; it is no danger, as renewals only come too
// early. The difference of two LockedUntil around a renewal tells neither: both
// have the lock in them, and what is left is the time between.
func ObservedLock(lock Duration, atMost time.Duration) (Violation, bool) {
	if lock.Name == "" || atMost <= 0 || lock.Value-lock.Value/10 <= atMost {
		return Violation{}, false
	}
	return Violation{
		Relation: "H1", Left: lock.Name + " " + short(lock.Value), Must: "must be",
		Right:  "the LockDuration of the entity, which is at most " + short(atMost.Round(time.Millisecond)) + " as a message shows",
		Else:   "locks are lost before they are renewed",
		Remedy: "set " + lock.Name + " to the LockDuration of the entity",
	}, true
}
