package message

import (
	"math/rand/v2"
	"time"
)

// Delivery is one delivery of a message. Only Body says what is asked for; the
// rest is the transport's and decides nothing, but for the two things a broker
// alone can know: how often it has tried, and what time it is there.
type Delivery struct {
	MessageID     string
	CorrelationID string
	Body          []byte
	Count         int           // 1 on the first delivery
	InVain        int           // of how many deliveries in a row, before this one, nothing came; see Settlement
	Sequence      int64         // the broker's number of this message
	Taken         time.Time     // broker time when the lock was taken: LockedUntil less the lock's duration
	Received      time.Time     // this process's clock at that moment, or a little later
	LockAtMost    time.Duration // what the lock lasts at most, by two stamps of the broker's; zero if it gave none
}

// BrokerNow is what the broker's clock shows now, by our own clock's rate alone:
// no worker's clock is compared with the broker's.
func (d Delivery) BrokerNow() time.Time {
	return d.Taken.Add(time.Since(d.Received))
}

// Settlement says what becomes of a delivered message. Its zero value is none:
// a handler that forgets to decide is found out, and the message's lock expires.
type Settlement struct {
	Action      Action
	Delay       time.Duration // CopyLater: how long from now
	InVain      int           // CopyLater: what the copy's deliveries are told under that name, so that waits can grow
	Reason      string        // DeadLetter: for machines
	Description string        // DeadLetter: for people
}

// Action is what the broker is asked to do.
type Action int

// The actions. CopyLater schedules a copy under a fresh MessageID and then
// completes the original, so that waiting spends no delivery count; Leave asks
// nothing and lets the lock expire.
const (
	_ Action = iota
	Complete
	Abandon
	DeadLetter
	CopyLater
	Leave
)

func (a Action) String() string {
	switch a {
	case Complete:
		return "complete"
	case Abandon:
		return "abandon"
	case DeadLetter:
		return "dead-letter"
	case CopyLater:
		return "copy later"
	case Leave:
		return "leave"
	}
	return "undecided"
}

// Done settles a message whose work needs nothing more of the broker.
func Done() Settlement { return Settlement{Action: Complete} }

// Retry gives the message back at once; the broker counts a delivery.
func Retry() Settlement { return Settlement{Action: Abandon} }

// Later has a copy delivered after a delay, which spends no delivery count.
func Later(delay time.Duration) Settlement {
	return Settlement{Action: CopyLater, Delay: max(delay, time.Second)}
}

// A subscription cannot schedule copies, so a delay there holds the message and then
// spends one of its deliveries. The waits double, so that the ten that the service
// grants by default outlast an outage of the store of three quarters of an hour, while
// a short one costs seconds.
const (
	firstHold   = 10 * time.Second
	longestHold = 10 * time.Minute // two locks of five minutes, the most that a receiver holds
)

// Hold is Later for a message of a subscription, by how often its deliveries have come
// to nothing: this is the count-th.
func Hold(count int) Settlement {
	wait := longestHold
	if count <= 6 { // 10 s doubled six times is past the longest
		wait = firstHold << (max(count, 1) - 1)
	}
	return Later(wait - rand.N(wait/10)) // what failed together does not come back together
}

// Reject moves the message to the dead-letter queue.
func Reject(reason, description string) Settlement {
	return Settlement{Action: DeadLetter, Reason: reason, Description: description}
}

// LetExpire leaves the message locked until its lock ends by itself.
func LetExpire() Settlement { return Settlement{Action: Leave} }
