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

// Receiver receives from one queue, or from one subscription of a topic, and
// runs a handler for every delivery. Its fields are its configuration; fill them
// in and call Run.
type Receiver struct {
	Client              *Client
	Queue               string // a queue, or
	Topic, Subscription string // a topic's subscription

	Slots         int           // deliveries worked on at once
	LockDuration  time.Duration // the entity's; broker time is computed from it
	LockRenewal   time.Duration // zero means a third of LockDuration
	SettleTimeout time.Duration // bound of one settlement; zero means DefaultSettleTimeout
	Grace         time.Duration // from the end of Run's context until handlers are cancelled; may be zero

	// Silence is how long a link may bring nothing before it is replaced, at the
	// latest. A link can be deaf without anyone being told; an idle one costs a
	// handshake each time. Zero means DefaultSilence.
	Silence time.Duration

	Log *slog.Logger // nil means the client's
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
		handle:   handle,
		slots:    newSlots(r.Slots),
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
	if r.SettleTimeout < 0 || r.Grace < 0 || r.Silence < 0 {
		errs = append(errs, errors.New("settle timeout, grace and silence must not be negative"))
	}
	return errors.Join(errs...)
}

// pump is one Run.
//
//	receive ──▶ deliver (one goroutine each) ──▶ settle
//	              └─ keep: renews the lock until deliver stops it
//
// receive owns link and is the only one to change it. Everything it starts is
// in one of the two wait groups, and run waits for both.
type pump struct {
	Receiver // defaults filled in
	entity   string
	handle   Handle
	slots    *slots
	link     *link

	deliveries sync.WaitGroup
	retired    sync.WaitGroup // links that are replaced and end with their last message
}

func (p *pump) run(ctx context.Context) error {
	var err error
	if p.link, err = p.open(); err != nil {
		return err
	}
	// Handlers keep what ctx carries but not its end.
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	drained := make(chan struct{})
	var grace sync.WaitGroup
	grace.Go(func() {
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
	})
	p.receive(ctx, work)
	p.deliveries.Wait()
	close(drained)
	grace.Wait()
	p.link.close(work, p.SettleTimeout)
	p.retired.Wait()
	return nil
}

// receive asks for as many messages as there are free slots, and never for more,
// until ctx ends.
func (p *pump) receive(ctx, work context.Context) {
	failures := 0
	for {
		free := p.slots.take(ctx)
		if free == 0 {
			return
		}
		asked := time.Now()
		messages, err := p.next(ctx, free)
		received := time.Now()
		p.slots.give(free - len(messages))
		for _, m := range messages {
			p.start(ctx, work, p.take(m, received))
		}
		switch {
		case err == nil:
			failures = 0
			continue
		case ctx.Err() != nil:
			return
		case received.Sub(asked) > longestPause:
			failures = 0 // it had worked until just now
		}
		failures++
		if !p.recover(ctx, work, err, failures) {
			return
		}
	}
}

// errDeadLink: the SDK found its link dead. It makes a new one when it is asked again.
var errDeadLink = errors.New("the link died")

// errSilent: nothing came for so long that the link may be deaf.
var errSilent = errors.New("nothing received for long, the link may be deaf")

// next waits for messages. No messages is always an error.
func (p *pump) next(ctx context.Context, most int) ([]*azservicebus.ReceivedMessage, error) {
	// A message that arrives at the very moment when its link is replaced is lost to
	// its lock. Chance keeps the moment off everything that happens by the clock.
	silence := p.Silence - rand.N(p.Silence/4+1)
	quiet, cancel := context.WithTimeoutCause(ctx, silence, errSilent)
	defer cancel()
	messages, err := p.link.sdk.ReceiveMessages(quiet, most, nil)
	switch {
	case len(messages) > 0:
		return messages, nil
	case quiet.Err() != nil:
		return nil, context.Cause(quiet)
	case err == nil: // the SDK hides the death of a link behind an empty answer
		p.link.deaths.Add(1)
		return nil, errDeadLink
	}
	p.link.deaths.Add(1)
	return nil, translate("receive from "+p.entity, err)
}

// recover repairs what can be repaired and waits before the next try. It says
// whether there is one.
func (p *pump) recover(ctx, work context.Context, err error, failures int) bool {
	if errors.Is(err, errSilent) {
		p.Log.LogAttrs(ctx, slog.LevelDebug, "silent link replaced", slog.Duration("silence", p.Silence))
		if err = p.replace(work); err == nil {
			return true
		}
	}
	if busy(err) {
		p.slots.throttle()
	}
	wait := backoff(failures)
	p.Client.counters.receiveFailures.Add(ctx, 1, entityAttribute(p.entity))
	p.Log.LogAttrs(ctx, slog.LevelWarn, "not receiving",
		slog.Int("failures", failures), slog.Duration("next", wait),
		slog.String("remedy", remedy(err)), slog.Any("err", err))
	return pause(ctx, wait) == nil
}

// start works on a message in a goroutine of its own.
func (p *pump) start(ctx, work context.Context, d *delivery) {
	d.link.held.Add(1)
	p.deliveries.Go(func() {
		defer p.slots.give(1)
		defer d.link.held.Done()
		p.deliver(work, ctx.Done(), d)
	})
}

// link is one receiver of the SDK, which rebuilds what is below it when it dies.
// The watchdog replaces it as a whole.
type link struct {
	sdk    *azservicebus.Receiver
	deaths atomic.Int64   // how often pump.receive saw it die
	held   sync.WaitGroup // messages that came by it and are not settled
}

func (p *pump) open() (*link, error) {
	var sdk *azservicebus.Receiver
	var err error
	if p.Queue != "" {
		sdk, err = p.Client.sdk.NewReceiverForQueue(p.Queue, nil)
	} else {
		sdk, err = p.Client.sdk.NewReceiverForSubscription(p.Topic, p.Subscription, nil)
	}
	if err != nil {
		return nil, translate("open receiver of "+p.entity, err)
	}
	return &link{sdk: sdk}, nil
}

// replace puts a new link in the place of the present one, which ends when the
// messages that came by it are settled.
func (p *pump) replace(work context.Context) error {
	fresh, err := p.open()
	if err != nil {
		return err
	}
	old := p.link
	p.link = fresh
	p.retired.Go(func() {
		old.held.Wait()
		old.close(work, p.SettleTimeout)
	})
	return nil
}

// close ends the link also while stopping. An error would say that the broker
// was not told; it will notice.
func (l *link) close(ctx context.Context, bound time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	_ = l.sdk.Close(ctx)
}
