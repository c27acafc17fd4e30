package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/horizon"
	"oneeffect/internal/message"
	"oneeffect/internal/projector"
	"oneeffect/internal/receipt"
	"oneeffect/internal/servicebus"
	"oneeffect/measure"

	nometric "go.opentelemetry.io/otel/metric/noop"
)

// enoughEvents is how many events about 1,000 skus are to be applied in a second.
const enoughEvents = 2500

// bySession declares the topic of reservations with a subscription that requires sessions.
const bySession = `{"UserConfig":{"Namespaces":[{"Name":"sbemulatorns","Queues":[{"Name":"tasks","Properties":{}}],"Topics":[{"Name":"reservations",
 "Properties":{},"Subscriptions":[{"Name":"inventory","Properties":{"LockDuration":"PT5M","RequiresSession":true}}]}]}],"Logging":{"Type":"Console"}}}`

// stream is a way to measure the projector: so many skus, by message or by session.
type stream struct {
	name      string
	skus      int
	bySession bool
	goal      measure.Goal

	site     *site
	loop     *projection
	versions []int64 // of each sku, the last that was sent
}

// measureEvents measures the projector on events about many skus and about one.
func (b *bench) measureEvents(ctx context.Context) (err error) {
	streams := []*stream{
		{name: "projector, 1,000 skus", skus: 1000, goal: measure.AtLeast(enoughEvents)},
		{name: "projector, one hot sku", skus: 1},
		{name: "projector, 1,000 skus by session", skus: 1000, bySession: true},
	}
	for _, s := range streams {
		if err := b.openStream(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		defer func() { err = errors.Join(err, s.loop.close(ctx), s.site.close(ctx)) }()
		if err := b.pour(ctx, s, min(b.tasks, warmUp), false); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for turn := range b.Repeat {
		for i := range streams {
			s := streams[(turn+i)%len(streams)]
			if err := b.pour(ctx, s, b.tasks, true); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return nil
}

// openStream starts an emulator for a stream, and connects a projector.
func (b *bench) openStream(ctx context.Context, s *stream) (err error) {
	var flags []string
	if s.bySession {
		file := filepath.Join(b.work, "sessions.json")
		if err := os.WriteFile(file, []byte(bySession), 0o600); err != nil {
			return fmt.Errorf("write a configuration: %w", err)
		}
		flags = []string{"-config", file}
	}
	if s.site, err = b.newSite(ctx, "events", flags...); err != nil {
		return err
	}
	s.versions = make([]int64, s.skus)
	if s.loop, err = newProjection(ctx, s.site); err != nil {
		return errors.Join(err, s.site.close(ctx))
	}
	return nil
}

// pour sends events and has them applied, measured or not.
func (b *bench) pour(ctx context.Context, s *stream, n int, measured bool) error {
	if err := s.fill(ctx, n); err != nil {
		return err
	}
	own, err1 := measure.OwnCPU()
	theirs, err2 := s.site.server.CPU()
	before := s.loop.applied.Load()
	took, err3 := s.loop.run(ctx, n)
	ownAfter, err4 := measure.OwnCPU()
	theirsAfter, err5 := s.site.server.CPU()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil || !measured {
		return err
	}
	row := func(what, unit string, g measure.Goal) *measure.Row {
		return b.table.Row(s.name+": "+what, unit, g, "")
	}
	per := float64(n) / 1000
	row("throughput", "events/s", s.goal).Add(float64(n) / took.Seconds())
	row("client", "CPU s per 1,000 events", measure.Goal{}).Add((ownAfter - own) / per)
	row("server", "CPU s per 1,000 events", measure.Goal{}).Add((theirsAfter - theirs) / per)
	row("applied", "of all events", measure.Goal{}).Add(float64(s.loop.applied.Load()-before) / float64(n))
	return nil
}

// fill sends events: one of every sku and then the next of every sku, or, since the messages of one batch are of one
// session, all of a sku and then all of the next.
func (s *stream) fill(ctx context.Context, n int) error {
	sender, err := s.site.bus.NewSender(message.Reservations, nil)
	if err != nil {
		return fmt.Errorf("make a sender: %w", err)
	}
	defer func() {
		bounded, cancel := closing(ctx)
		defer cancel()
		_ = sender.Close(bounded) // every batch is answered, and its connection ends with the site
	}()
	size, sku := 200, func(sent int) int { return sent % s.skus }
	if s.bySession {
		size = (n + s.skus - 1) / s.skus
		sku = func(sent int) int { return sent / size }
	}
	for sent := 0; sent < n; {
		batch, err := sender.NewMessageBatch(ctx, nil)
		if err != nil {
			return fmt.Errorf("fill the topic: %w", err)
		}
		for range min(size, n-sent) {
			m, err := s.event(sku(sent))
			if err == nil {
				err = batch.AddMessage(m, nil)
			}
			if err != nil {
				return fmt.Errorf("fill the topic: %w", err)
			}
			sent++
		}
		if err := sender.SendMessageBatch(ctx, batch, nil); err != nil {
			return fmt.Errorf("fill the topic: %w", err)
		}
	}
	return nil
}

// event is the next one of a sku.
func (s *stream) event(number int) (*azservicebus.Message, error) {
	s.versions[number]++
	sku, version := fmt.Sprint("sku-", number), s.versions[number]
	id := fmt.Sprintf("R-%d", version)
	m, err := message.Reservation{
		EventKey: "inventory:" + sku + ":reservation:" + id, SKU: sku, ReservationID: id, Version: version, Quantity: 1,
	}.Message(sku+"/"+id, time.Now())
	if err != nil {
		return nil, err
	}
	contentType := message.ContentType
	out := &azservicebus.Message{MessageID: &m.ID, CorrelationID: &m.CorrelationID, Subject: &m.Subject, ContentType: &contentType, Body: m.Body}
	if s.bySession {
		out.SessionID = &m.Session
	}
	return out, nil
}

// projection is the projector, wired as cmd/projector wires it, with the durations that its flags default to.
type projection struct {
	out       process.Connections
	receiver  servicebus.Receiver
	projector *projector.Projector
	settled   *tally
	applied   *atomic.Int64 // events that took effect
}

func newProjection(ctx context.Context, s *site) (*projection, error) {
	providers, err := noTelemetry(ctx)
	if err != nil {
		return nil, err
	}
	d := horizon.Defaults()
	p := &projection{settled: &tally{}, applied: &atomic.Int64{}}
	providers.Metrics = provider{providers.Metrics, p.settled}
	throttle := servicebus.NewThrottle()
	if p.out, err = s.connect(providers, quiet(), throttle.Pull); err != nil {
		return nil, err
	}
	counters, err := projector.NewCounters(nometric.Meter{})
	if err != nil {
		return nil, err
	}
	p.projector = &projector.Projector{
		Inventory: &receipt.Book{
			Store:   counting{p.out.Cosmos.Inventory(), p.applied},
			Timeout: d.Projector.StoreTimeout.Value, Keep: d.Projector.KeepReceipts.Value,
		},
		Counters: counters, Log: quiet(),
	}
	p.receiver = servicebus.Receiver{
		Client: p.out.ServiceBus, Topic: message.Reservations, Subscription: message.Inventory, Sessions: true, Slots: slots,
		LockDuration: d.Reservations.Lock.Value, SettleTimeout: d.Projector.SettleTimeout.Value, Grace: d.Projector.Grace.Value,
		Throttle: throttle, Log: quiet(),
	}
	return p, nil
}

// counting is a store that counts the receipts which come with an effect.
type counting struct {
	receipt.Store
	applied *atomic.Int64
}

func (c counting) Begin(ctx context.Context, entity string, r receipt.Receipt, first receipt.Item) (receipt.ETag, error) {
	etag, err := c.Store.Begin(ctx, entity, r, first)
	c.note(err)
	return etag, err
}

func (c counting) Apply(ctx context.Context, entity string, r receipt.Receipt, next receipt.Item, unchanged receipt.ETag) (receipt.ETag, error) {
	etag, err := c.Store.Apply(ctx, entity, r, next, unchanged)
	c.note(err)
	return etag, err
}

func (c counting) note(err error) {
	if err == nil {
		c.applied.Add(1)
	}
}

// run has n events settled and says how long the last settlement was in coming.
func (p *projection) run(ctx context.Context, n int) (time.Duration, error) {
	return receiveUntil(ctx, p.receiver, p.handle, p.settled, n)
}

// handle is the projector's, whose every event must end well.
func (p *projection) handle(ctx context.Context, d message.Delivery) message.Settlement {
	s := p.projector.Handle(ctx, d)
	if s.Action != message.Complete {
		p.settled.fail(fmt.Errorf("event %s: %s %s %s", d.MessageID, s.Action, s.Reason, s.Description))
	}
	return s
}

func (p *projection) close(ctx context.Context) error {
	return p.out.Close(ctx, closeBound)
}
