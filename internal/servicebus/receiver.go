package servicebus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/internal/message"
)

// What a receiver does when it is not told otherwise.
const (
	DefaultSettleTimeout = 10 * time.Second
	DefaultSilence       = 10 * time.Minute
)

// Linger is how long a receiver waits, when a message has come and more were asked for,
// whether another one follows. The SDK's own 20 ms are what a task would spend that
// comes alone, at every station on its way. What comes between two calls the SDK gives
// back, and the broker does not count that as a delivery.
const Linger = time.Millisecond

// Receiver receives from one queue, or from one subscription of a topic, and
// runs a handler for every delivery. Its fields are its configuration; fill them
// in and call Run.
type Receiver struct {
	Client              *Client
	Queue               string // a queue, or
	Topic, Subscription string // a topic's subscription

	// Sessions says that what is sent to the topic carries sessions, so that the
	// subscription may require them. Which kind it is, is found out.
	Sessions bool

	Slots         int           // deliveries worked on at once, and with them sessions
	LockDuration  time.Duration // the entity's; broker time is computed from it
	LockRenewal   time.Duration // zero means a third of LockDuration
	SettleTimeout time.Duration // bound of one settlement; zero means DefaultSettleTimeout
	Grace         time.Duration // from the end of Run's context until handlers are cancelled; may be zero

	// Silence is how long a link may bring nothing before it is replaced, at the
	// latest. A link can be deaf without anyone being told; an idle one costs a
	// handshake each time. Zero means DefaultSilence.
	Silence time.Duration

	Throttle *Throttle    // by which others slow this receiver down; may be nil
	Log      *slog.Logger // nil means the client's

	Attachment *Attachment // which others ask whether this receiver receives; may be nil
}

// Handle works on one delivery and says what becomes of the message. Its context
// outlives Run's; it is cancelled with ErrStopping when the grace is over.
type Handle func(ctx context.Context, d message.Delivery) message.Settlement

// Run receives until ctx ends, then abandons what has not started, waits for the
// handlers and returns nil. Any other return is a mistake in the configuration.
func (r *Receiver) Run(ctx context.Context, handle Handle) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("receive from %s: %w", r.entity(), err)
	}
	p := &pump{
		Receiver: *r,
		entity:   r.entity(),
		station:  r.Client.newStation(r.entity()),
		handle:   handle,
		slots:    newSlots(r.Slots),
		handed:   make(chan *delivery, r.Slots),
	}
	p.LockRenewal = cmp.Or(r.LockRenewal, r.LockDuration/3)
	p.SettleTimeout = cmp.Or(r.SettleTimeout, DefaultSettleTimeout)
	p.Silence = cmp.Or(r.Silence, DefaultSilence)
	if p.Log == nil {
		p.Log = r.Client.log
	}
	p.Log = p.Log.With(slog.String("entity", p.entity))
	return p.run(ctx)
}

func (r *Receiver) entity() string {
	if r.Queue != "" {
		return r.Queue
	}
	return r.Topic + "/subscriptions/" + r.Subscription
}

func (r *Receiver) check() error {
	var errs []error
	if r.Client == nil {
		errs = append(errs, errors.New("a client is missing"))
	}
	if (r.Queue == "") == (r.Topic == "" || r.Subscription == "") || r.Queue != "" && r.Topic+r.Subscription != "" {
		errs = append(errs, errors.New("give either a queue, or a topic and its subscription"))
	}
	if r.Slots < 1 {
		errs = append(errs, fmt.Errorf("slots is %d, at least 1 is needed", r.Slots))
	}
	if r.LockDuration <= 0 {
		errs = append(errs, fmt.Errorf("lock duration is %v: give the entity's", r.LockDuration))
	}
	if r.LockRenewal < 0 || r.LockRenewal > r.LockDuration/2 {
		errs = append(errs, fmt.Errorf("lock renewal (%v) must be at most half the lock duration (%v), so that one may fail", r.LockRenewal, r.LockDuration))
	}
	if r.Sessions && r.Queue != "" {
		errs = append(errs, errors.New("sessions are received from subscriptions only"))
	}
	if r.SettleTimeout < 0 || r.Grace < 0 || r.Silence < 0 {
		errs = append(errs, errors.New("settle timeout, grace and silence must not be negative"))
	}
	return errors.Join(errs...)
}

// pump is one Run.
//
//	receive ──▶ deliver (one goroutine for each slot) ──▶ settle
//	   │          └─ keep: renews the lock until deliver stops it
//	   └─ by session: workOn (one goroutine each) ──▶ deliver one by one ──▶ settle
//	                    └─ renewSession, until workOn stops it
//
// receive owns link and trouble and is the only one to change them. Everything that
// runs beside it is in one of the two wait groups, and run waits for both.
type pump struct {
	Receiver // defaults filled in
	entity   string
	station  *station
	handle   Handle
	slots    *slots
	handed   chan *delivery // from receive to the slots; there is room for all of them
	link     *link
	trouble  trouble

	bySession      bool         // how it is received; belongs to receive
	other          bool         // one way was refused, and the other is tried
	sessionTrouble atomic.Int32 // sessions in a row that something was wrong with

	deliveries sync.WaitGroup
	retired    sync.WaitGroup // links that are replaced and end with their last message
}

func (p *pump) run(ctx context.Context) error {
	var err error
	if p.link, err = p.open(); err != nil {
		return err
	}
	unwatch, err := p.watchSlots()
	if err != nil {
		return fmt.Errorf("receive from %s: %w", p.entity, err)
	}
	defer unwatch()
	defer p.attached(false)
	// Handlers keep what ctx carries but not its end.
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	drained := make(chan struct{})
	var aside sync.WaitGroup
	aside.Go(func() { p.endGrace(ctx, stop, drained) })
	if p.Throttle != nil {
		aside.Go(func() { p.obey(work, p.Throttle, drained) })
	}
	for range p.Slots {
		p.deliveries.Go(func() { p.deliverAll(work, ctx.Done()) })
	}
	p.receive(ctx, work)
	close(p.handed)
	p.deliveries.Wait()
	close(drained)
	aside.Wait()
	p.link.close(work, p.SettleTimeout)
	p.retired.Wait()
	return nil
}

// endGrace cancels the handlers when the grace is over, unless they have all
// returned by then.
func (p *pump) endGrace(ctx context.Context, stop context.CancelCauseFunc, drained <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-drained:
		return
	}
	timer := time.NewTimer(p.Grace)
	defer timer.Stop()
	select {
	case <-timer.C:
		stop(ErrStopping)
	case <-drained:
	}
}

// receive asks for as many messages as there are free slots, and never for more,
// until ctx ends.
func (p *pump) receive(ctx, work context.Context) {
	for {
		free := p.slots.take(ctx)
		if free == 0 {
			return
		}
		started, err := p.begin(ctx, work, free)
		p.slots.give(free - started)
		switch {
		case err == nil:
			p.trouble.failures, p.other = 0, false
			continue
		case ctx.Err() != nil:
			return
		case p.otherWay(err):
			continue
		}
		if !p.recover(ctx, work, err) {
			return
		}
	}
}

// begin waits for what is next and starts to work on it. Nothing started is an
// error, or that there is no session.
func (p *pump) begin(ctx, work context.Context, free int) (started int, err error) {
	if p.bySession {
		return p.nextSession(ctx, work)
	}
	messages, err := p.next(ctx, free)
	received := time.Now()
	p.hasReceived(ctx, len(messages))
	for _, m := range messages {
		p.handed <- p.take(m, received)
	}
	return len(messages), err
}

// errDeadLink: the SDK found its link dead. It makes a new one when it is asked again.
var errDeadLink = errors.New("the link died")

// errSilent: nothing came for so long that the link may be deaf.
var errSilent = errors.New("nothing received for long, the link may be deaf")

// next waits for messages. No messages is always an error.
func (p *pump) next(ctx context.Context, most int) ([]*azservicebus.ReceivedMessage, error) {
	if err := p.stand(ctx); err != nil {
		return nil, err
	}
	// A message that arrives at the very moment when its link is replaced is lost to
	// its lock. Chance keeps the moment off everything that happens by the clock.
	silence := p.Silence - rand.N(p.Silence/4+1)
	quiet, cancel := context.WithTimeoutCause(ctx, silence, errSilent)
	defer cancel()
	messages, err := p.link.sdk.ReceiveMessages(quiet, most, &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: Linger})
	switch {
	case len(messages) > 0:
		return messages, nil
	case quiet.Err() != nil:
		return nil, context.Cause(quiet)
	case err == nil: // the SDK hides the death of a link behind an empty answer
		err = errDeadLink
	default:
		err = translate("receive from "+p.entity, err)
	}
	p.died()
	return nil, err
}

// recover repairs what can be repaired and waits before the next try. It says
// whether there is one.
func (p *pump) recover(ctx, work context.Context, err error) bool {
	if errors.Is(err, errSilent) {
		p.Log.LogAttrs(ctx, slog.LevelDebug, "silent link replaced", slog.Duration("silence", p.Silence))
		if err = p.replace(work); err == nil {
			return true
		}
	}
	if errors.Is(err, errNoAnswer) && !p.bySession { // what was begun may hang for ever
		if failed := p.replace(work); failed != nil {
			err = failed
		}
	}
	if busy(err) {
		p.slowDown(ctx, err)
	}
	p.Client.instruments.receiveFailures.Add(ctx, 1, p.station.entity...)
	return message.Pause(ctx, p.notReceiving(ctx, err)) == nil
}

// deliverAll is what one slot does: it works on one message after the other. Its
// goroutine lives on between them, since a new one would have to grow a stack that
// is as deep as the SDKs for every message.
func (p *pump) deliverAll(work context.Context, stopping <-chan struct{}) {
	for d := range p.handed {
		p.deliver(work, stopping, d)
		d.link.held.Done()
		p.slots.give(1)
	}
}
