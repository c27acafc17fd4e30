package servicebus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// link is one receiver of the SDK, which rebuilds what is below it when it dies.
// The watchdog replaces it as a whole.
type link struct {
	sdk    *azservicebus.Receiver
	since  time.Time      // pump.receive has had proof that it is attached, and none that it died; zero: no proof
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

// standTimeout bounds the making of connection, token and link.
const standTimeout = 30 * time.Second

// errNoAnswer: connection, token or link were asked for, and nobody answered.
var errNoAnswer = errors.New("no answer in time")

// stand has the link made, if it does not stand, and returns when it is known to:
// waiting for messages would not tell a link that cannot be made from an empty
// queue. The SDK makes links only in the course of an operation; this one asks
// for messages beyond the last, of which there are none.
func (p *pump) stand(ctx context.Context) error {
	if !p.link.since.IsZero() {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, standTimeout)
	defer cancel()
	_, err := p.link.sdk.PeekMessages(bounded, 1, &azservicebus.PeekMessagesOptions{FromSequenceNumber: new(int64(math.MaxInt64))})
	switch {
	case err == nil:
		p.link.since = time.Now()
		p.receiving(ctx)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bounded.Err() != nil:
		err = fmt.Errorf("receive from %s: %w (%v)", p.entity, errNoAnswer, standTimeout)
	default:
		err = translate("receive from "+p.entity, err)
	}
	p.died()
	return err
}

// died notes that the link does not stand. One that had stood for long is the
// first failure, whatever came before.
func (p *pump) died() {
	if stood := p.link.since; !stood.IsZero() && time.Since(stood) > longestPause {
		p.trouble.failures = 0
	}
	p.link.since = time.Time{}
	p.link.deaths.Add(1)
}

// trouble is what keeps a receiver from receiving, as far as it was said.
type trouble struct {
	failures int       // in a row
	since    time.Time // when receiving stopped; zero while it goes on
	remedy   string    // that was said last
	told     string    // how receiving has begun
}

// notReceiving says once that receiving has stopped and what an operator can do,
// and again when that is something else. It returns how long to wait. A link that
// died says nothing of the reason: that is what making it again will meet, or
// nothing.
func (p *pump) notReceiving(ctx context.Context, err error) time.Duration {
	p.attached(false)
	t := &p.trouble
	t.failures++
	wait, level, remedy := backoff(t.failures), slog.LevelDebug, p.Client.remedy(err)
	if t.since.IsZero() {
		t.since = time.Now()
	}
	news := remedy != t.remedy && (t.remedy == "" || remedy != noRemedy)
	if news && !errors.Is(err, errDeadLink) {
		level, t.remedy = slog.LevelWarn, remedy
	}
	p.Log.LogAttrs(ctx, level, "not receiving",
		slog.Int("failures", t.failures), slog.Duration("next", wait),
		slog.String("remedy", remedy), slog.Any("err", err))
	return wait
}

// receiving says that receiving goes on, or has begun. A link that was replaced
// only for being idle is not worth a line.
func (p *pump) receiving(ctx context.Context) {
	p.attached(true)
	t, way := &p.trouble, "message by message"
	if p.bySession {
		way = "session by session"
	}
	switch {
	case way != t.told && t.since.IsZero():
		p.Log.LogAttrs(ctx, slog.LevelInfo, "receiving", slog.String("way", way))
	case !t.since.IsZero():
		p.Log.LogAttrs(ctx, slog.LevelInfo, "receiving again", slog.String("way", way), slog.Duration("after", time.Since(t.since)))
	}
	t.told, t.since, t.remedy = way, time.Time{}, ""
}
