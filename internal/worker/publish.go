package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// Waits that no handler declares. The first two double with every delivery in a row that
// came to nothing: an outage of an hour costs a task some twenty copies, and its end is
// noticed within five minutes.
const (
	unknownTypeDelay = time.Minute      // for a worker that knows the type
	retryDelay       = 10 * time.Second // after an error of claim store or topic
	longestDelay     = 4 * time.Minute  // before jitter
)

// publish tells the orchestrator how the execution's claim ended; a verdict that
// ends nothing is not told. Publishing again is harmless: the event has the same
// id and the same content every time, since all of it is read from the claim, but for
// what a picture shows of who says it again.
func (w *Worker) publish(ctx context.Context, j *job, v claim.Verdict) error {
	event, tell := eventFor(j, v)
	if !tell {
		return nil
	}
	m, err := event.Message(j.delivery.BrokerNow())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.PublishTimeout)
	defer cancel()
	for {
		err := w.Publish(ctx, m)
		if err == nil || errors.Is(err, message.ErrRefused) {
			return err
		}
		if message.Pause(ctx, jitter(time.Second)) != nil {
			return fmt.Errorf("publish %s: %w", m.ID, err)
		}
	}
}

// eventFor is the event that a verdict stands for, if any.
func eventFor(j *job, v claim.Verdict) (message.Event, bool) {
	c, t := v.Claim, j.task
	switch v.Kind {
	case claim.Done:
		return message.Event{Completed: &message.Completed{
			ExecutionID: c.ID, Run: c.Run, Fence: c.Fence,
			ResultRef: c.Result.Ref, ResultDigest: c.Result.Digest, ExecutionETag: t.ExecutionETag, Orchestration: t.Orchestration, Fenced: j.fenced,
		}}, true
	case claim.Over:
		return message.Event{Failed: &message.Failed{
			ExecutionID: c.ID, Run: c.Run, Fence: c.Fence,
			Reason: c.Failure.Reason, Description: c.Failure.Description, Outcome: c.Failure.Outcome, ExecutionETag: t.ExecutionETag, Orchestration: t.Orchestration, Fenced: j.fenced,
		}}, true
	}
	return message.Event{}, false
}

// settlementFor is the one place where verdicts and errors become what the
// broker is asked to do. left is the time to notAfter, inVain how many deliveries before
// this one came to nothing.
func settlementFor(v claim.Verdict, err error, left time.Duration, inVain int) message.Settlement {
	if err != nil && left < 0 {
		// A store or a topic that refuses for ever must not be asked for ever (W3). What
		// became of the task stands in the claim, if anywhere, and is not said here (D1).
		return message.Reject(claim.TooOld, "past notAfter, and still: "+err.Error())
	}
	if err != nil {
		// Nothing is known to be wrong with the task: another delivery finds out, and
		// no delivery count is spent on an outage.
		return again(retryDelay, left, inVain)
	}
	switch v.Kind {
	case claim.Done, claim.Withdrawn:
		return message.Done()
	case claim.Busy:
		return by(message.Later(v.Wait), left)
	case claim.Over:
		return message.Reject(v.Claim.Failure.Reason, v.Claim.Failure.Description)
	case claim.Refused:
		return message.Reject(v.Reason, refusals[v.Reason])
	}
	return message.Settlement{} // a verdict without a row is a bug: the message's lock expires, and the log says why
}

// again has a copy come of a delivery that came to nothing, later every time.
func again(first, left time.Duration, inVain int) message.Settlement {
	s := message.Later(jitter(min(first<<min(inVain, 16), longestDelay)))
	s.InVain = inVain + 1
	return by(s, left)
}

// by has a copy come at notAfter at the latest, where everything ends but a lease that
// still stands (H25).
func by(s message.Settlement, left time.Duration) message.Settlement {
	if left >= 0 {
		s.Delay = max(min(s.Delay, left), time.Second)
	}
	return s
}

var refusals = map[string]string{
	claim.TooOld:               "past notAfter: nobody runs it any more; start a new execution",
	claim.IdempotencyKeyReused: "this execution id stands for another task type or payload; choose a new id",
}

// jitter spreads what would otherwise come back at the same moment: between
// three quarters of d and d and a quarter.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d*3/4 + rand.N(d/2+1)
}
