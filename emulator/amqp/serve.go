package amqp

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync"
	"time"
)

func (o Options) withDefaults() Options {
	o.ContainerID = cmp.Or(o.ContainerID, "amqp")
	o.MaxFrameSize = max(cmp.Or(o.MaxFrameSize, 65_536), minFrameSize)
	o.ChannelMax = cmp.Or(o.ChannelMax, 4_999)
	o.HandleMax = cmp.Or(o.HandleMax, 4_999)
	o.IncomingWindow = cmp.Or(o.IncomingWindow, 5_000)
	o.MaxDelivery = cmp.Or(o.MaxDelivery, 100<<20)
	o.MaxQueued = cmp.Or(o.MaxQueued, 1<<20)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, time.Minute)
	o.CloseTimeout = cmp.Or(o.CloseTimeout, time.Second)
	o.OpenTimeout = cmp.Or(o.OpenTimeout, time.Minute)
	if len(o.Mechanisms) == 0 {
		o.Mechanisms = []Symbol{"MSSBCBS", "PLAIN", anonymous, "EXTERNAL"}
	}
	if o.Authenticate == nil {
		o.Authenticate = onlyAnonymous
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// serve runs the reader in its own goroutine and owns the other two: the
// writer, and, once ctx has ended, the one that closes.
func serve(ctx context.Context, nc net.Conn, h Handler, o Options) error {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	c := &Conn{
		ctx: own, cancel: cancel,
		nc: nc, h: h, o: o, log: o.Log,
		wake: make(chan struct{}, 1), space: make(chan struct{}, 1),
		opened:   time.Now(),
		maxFrame: minFrameSize,
		sessions: make(map[uint16]*session),
		names:    make(map[linkName]*Link),
	}
	var wg sync.WaitGroup
	wg.Go(c.write)
	wg.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer wg.Done()
		c.shut(Errorf(ErrCondConnectionForced, "the server is shutting down"), context.Cause(ctx))
	})

	opened, err := c.read()

	c.mu.Lock()
	if c.broken != nil {
		err = c.broken
	}
	c.endLocked(err)
	c.phase = finishing
	if c.closeBy.IsZero() {
		c.closeBy = time.Now().Add(o.CloseTimeout)
	}
	_ = nc.SetWriteDeadline(c.closeBy) // an error means that it is closed already
	c.mu.Unlock()
	c.signal()
	if stop() {
		wg.Done()
	}
	wg.Wait()
	_ = nc.Close() // everything that mattered was written; it may be closed already

	err = c.reason()
	c.tellDetached()
	if opened {
		h.Closed(c, err)
	}
	return err
}
