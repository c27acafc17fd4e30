package servicebus

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"oneeffect/internal/message"
)

const (
	// sessionWait is how long the broker is asked to wait for a session that has messages.
	sessionWait = 20 * time.Second
	// sessionAnswer is how much longer its answer may take.
	sessionAnswer = 10 * time.Second
	// sessionIdle is how long an empty session is kept: a round trip or two, since a
	// slot waits with it.
	sessionIdle = 200 * time.Millisecond
	// sessionTurn is how long one session is kept that is never empty: others may
	// wait, and the broker hands it on to the end of their line.
	sessionTurn = 30 * time.Second
)

// session is a session of the subscription whose lock we have. Its messages come
// one by one, since whatever is received before the one before it is settled
// would overtake that if it came to nothing.
type session struct {
	sdk      *azservicebus.SessionReceiver
	id       string
	accepted time.Time // by our own clock
	taken    time.Time // broker time when its lock was taken
	locked   time.Time // broker time until when it was, at first
	lost     context.Context
	lose     context.CancelFunc
	received int // messages
}

// errNoSession: the broker has waited, and no session has messages.
var errNoSession = errors.New("no session has messages")

// errGone: the session is given back, since it is not known what stands of its message.
var errGone = errors.New("a message of the session was not settled")

// nextSession waits for the lock of a session that has messages, and starts to work
// on it. That there is none is no trouble: the broker has answered.
func (p *pump) nextSession(ctx, work context.Context) (started int, err error) {
	s, err := p.accept(ctx)
	switch {
	case errors.Is(err, errNoSession):
		p.receiving(ctx)
		return 0, nil
	case err != nil:
		return 0, err
	}
	p.receiving(ctx)
	p.deliveries.Go(func() {
		defer p.slots.give(1)
		p.workOn(ctx, work, s)
	})
	return 1, nil
}

// patient asks the broker to wait for less than we do. The SDK tells the broker the
// deadline of the context, so that an answer in time would always be a little late.
type patient struct {
	context.Context
	asked time.Time
}

func (p patient) Deadline() (time.Time, bool) { return p.asked, true }

// acceptAttempts: a connection that has no link for a minute is closed by the broker,
// and to wait for a session is none. The SDK accepts in one attempt: the first may be
// cut short, the second then finds the connection dead and makes another.
const acceptAttempts = 3

// accept asks for a session.
func (p *pump) accept(ctx context.Context) (*session, error) {
	bounded, cancel := context.WithTimeout(ctx, sessionWait+sessionAnswer)
	defer cancel()
	asked := patient{bounded, time.Now().Add(sessionWait)}
	sdk, err := p.Client.sdk.AcceptNextSessionForSubscription(asked, p.Topic, p.Subscription, nil)
	for attempt := 1; attempt < acceptAttempts && codeOf(err) == azservicebus.CodeConnectionLost; attempt++ {
		sdk, err = p.Client.sdk.AcceptNextSessionForSubscription(asked, p.Topic, p.Subscription, nil)
	}
	if err == nil {
		s := &session{sdk: sdk, id: sdk.SessionID(), accepted: time.Now(), locked: sdk.LockedUntil()}
		s.taken = s.locked.Add(-p.LockDuration)
		s.lost, s.lose = context.WithCancel(context.WithoutCancel(ctx))
		return s, nil
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case bounded.Err() != nil:
		return nil, errNoAnswer
	case codeOf(err) == azservicebus.CodeTimeout:
		return nil, errNoSession
	}
	return nil, translate("accept a session of "+p.entity, err)
}

// workOn works on the messages of a session, in their order, and gives it back.
func (p *pump) workOn(ctx, work context.Context, s *session) {
	var renewer sync.WaitGroup
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	renewer.Go(func() { p.renewSession(renewing, s) })
	err := p.serve(ctx, work, s)
	stop()
	renewer.Wait()
	s.lose()
	s.close(work, p.SettleTimeout)
	p.Log.LogAttrs(work, slog.LevelDebug, "session given back", slog.String("session", s.id),
		slog.Int("messages", s.received), slog.Duration("took", time.Since(s.accepted)), slog.Any("err", err))
	if err == nil {
		return
	}
	if busy(err) {
		p.slowDown(work, err)
	}
	p.Client.instruments.receiveFailures.Add(work, 1, p.station.entity...)
	// It would be here again at once. The slot that waits is this session's own.
	_ = message.Pause(ctx, backoff(int(p.sessionTrouble.Add(1))))
}

// serve receives and delivers until the session is empty, has had its turn, is
// lost, or is more than is to be worked on at once. An error says that something
// is wrong with it.
func (p *pump) serve(ctx, work context.Context, s *session) error {
	for ctx.Err() == nil && s.lost.Err() == nil && time.Since(s.accepted) < sessionTurn && p.slots.within() {
		m, err := p.nextOf(ctx, s)
		if m == nil {
			return err
		}
		s.received++
		p.hasReceived(ctx, 1)
		if !p.deliver(work, ctx.Done(), p.takeOf(m, s)) {
			return errGone
		}
		p.sessionTrouble.Store(0)
	}
	return nil
}

// nextOf waits for the next message of a session; nil without an error says that
// there is none.
func (p *pump) nextOf(ctx context.Context, s *session) (*azservicebus.ReceivedMessage, error) {
	quiet, cancel := context.WithTimeout(ctx, sessionIdle)
	defer cancel()
	messages, err := s.sdk.ReceiveMessages(quiet, 1, nil)
	switch {
	case len(messages) > 0:
		return messages[0], nil
	case quiet.Err() != nil:
		return nil, nil
	case err == nil: // the SDK hides the death of a link behind an empty answer
		return nil, errDeadLink
	}
	return nil, translate("receive from a session of "+p.entity, err)
}

// takeOf is take of a message that is locked by its session's lock. Only the first
// tells what that lasts at most: it was there when the lock was taken.
func (p *pump) takeOf(m *azservicebus.ReceivedMessage, s *session) *delivery {
	d := newDelivery(m, time.Now())
	d.session = s
	d.Taken = s.taken.Add(d.Received.Sub(s.accepted))
	if s.received == 1 && m.EnqueuedTime != nil {
		d.LockAtMost = s.locked.Sub(*m.EnqueuedTime)
	}
	return d
}

// renewSession is renew of a session's lock. The SDK takes a session back that was
// lost, if nobody else has it by then. The message in hand is not ours any more all
// the same, as its settlement will say, but nobody works on it beside us.
func (p *pump) renewSession(ctx context.Context, s *session) {
	lost := func(err error) {
		s.lose()
		p.Client.instruments.locksLost.Add(ctx, 1, p.station.entity...)
		p.Log.LogAttrs(ctx, slog.LevelWarn, "session lost, the handler goes on", slog.String("session", s.id), slog.Any("err", err))
	}
	if message.Pause(ctx, time.Until(s.accepted.Add(p.LockRenewal))) != nil {
		return
	}
	p.renewing(ctx, s.accepted, func(ctx context.Context) error {
		return translate("renew the lock of a session", s.sdk.RenewSessionLock(ctx, nil))
	}, lost, slog.String("session", s.id))
}

// close gives the session back, also while stopping. An error would say that the
// broker was not told; it will notice.
func (s *session) close(ctx context.Context, bound time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	_ = s.sdk.Close(ctx)
}

// otherWay goes over to sessions, or back from them, after a refusal that says
// that the subscription is of the other kind: which kind it is can be changed by
// making it anew.
func (p *pump) otherWay(err error) (untried bool) {
	answer, ok := errors.AsType[*amqp.Error](err)
	if !p.Sessions || !ok || answer.Condition != amqp.ErrCondNotAllowed {
		return false
	}
	p.bySession = !p.bySession
	p.other = !p.other // if both ways are refused, that is not what is wrong
	return p.other
}

// settler is what receivers of both kinds settle with.
type settler interface {
	CompleteMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.CompleteMessageOptions) error
	AbandonMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.AbandonMessageOptions) error
	DeadLetterMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.DeadLetterOptions) error
}

// tellInSession settles once, before the SDK would begin to repair: a message whose
// session is lost is somebody else's by now, and comes again first.
func (p *pump) tellInSession(ctx context.Context, d *delivery, action message.Action, s message.Settlement) error {
	if d.session.lost.Err() != nil {
		return errLockLost
	}
	return p.tellWithin(ctx, min(longestFirst, p.SettleTimeout), d.session.sdk, d.sdk, action, s)
}

// leave keeps a session as long as its lock would last by itself, so that what is
// left to the lock does not come again at once.
func (p *pump) leave(stopping <-chan struct{}, d *delivery) {
	if d.session != nil {
		p.hold(stopping, d, p.LockDuration)
	}
}
