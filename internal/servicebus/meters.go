package servicebus

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"

	"oneeffect/internal/message"
)

// instruments are the standard ones of messaging, and what an operator watches to
// see that trouble is survived and how much of it there is. docs/tracing.md lists
// them all.
type instruments struct {
	sent      messagingconv.ClientSentMessages
	consumed  messagingconv.ClientConsumedMessages
	operation messagingconv.ClientOperationDuration
	process   messagingconv.ProcessDuration

	settlements     metric.Int64Counter
	deadLetters     metric.Int64Counter
	locksLost       metric.Int64Counter
	receiveFailures metric.Int64Counter
	slots           metric.Int64ObservableGauge
}

func newInstruments(meter metric.Meter) (instruments, error) {
	var i instruments
	var errs [9]error
	i.sent, errs[0] = messagingconv.NewClientSentMessages(meter)
	i.consumed, errs[1] = messagingconv.NewClientConsumedMessages(meter)
	i.operation, errs[2] = messagingconv.NewClientOperationDuration(meter, seconds)
	i.process, errs[3] = messagingconv.NewProcessDuration(meter, seconds)
	i.settlements, errs[4] = meter.Int64Counter("oneeffect.servicebus.settlements", metric.WithUnit("{message}"),
		metric.WithDescription("Deliveries settled, or not: see failed."))
	i.deadLetters, errs[5] = meter.Int64Counter("oneeffect.servicebus.dead_letters", metric.WithUnit("{message}"),
		metric.WithDescription("Messages moved to the dead-letter queue by this process, by reason."))
	i.locksLost, errs[6] = meter.Int64Counter("oneeffect.servicebus.locks_lost", metric.WithUnit("{lock}"),
		metric.WithDescription("Locks lost while a handler worked."))
	i.receiveFailures, errs[7] = meter.Int64Counter("oneeffect.servicebus.receive_failures", metric.WithUnit("{receive}"),
		metric.WithDescription("Receives that ended in an error or with a dead link."))
	i.slots, errs[8] = meter.Int64ObservableGauge("oneeffect.servicebus.slots", metric.WithUnit("{slot}"),
		metric.WithDescription("Slots of a receiver: in use, allowed now, and configured."))
	return i, errors.Join(errs[:]...)
}

// seconds are the bounds that the conventions ask for.
var seconds = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)

// station is one entity as telemetry knows it. All that does not depend on a message
// is made once, since making it costs more than counting with it.
type station struct {
	at     []attribute.KeyValue // entity and namespace
	spans  map[string]naming    // by operation
	counts map[string][]metric.AddOption
	times  map[string][]metric.RecordOption

	settled map[message.Action][]metric.AddOption // as told
	entity  []metric.AddOption
}

type naming struct {
	span string
	says []attribute.KeyValue
}

func (c *Client) newStation(entity string) *station {
	s := &station{
		at:    slices.Concat(destination(entity), c.peer),
		spans: map[string]naming{}, counts: map[string][]metric.AddOption{}, times: map[string][]metric.RecordOption{},
		settled: map[message.Action][]metric.AddOption{},
		entity:  []metric.AddOption{metric.WithAttributes(destination(entity)...)},
	}
	kinds := map[string]attribute.KeyValue{
		opSend: semconv.MessagingOperationTypeSend, opReceive: semconv.MessagingOperationTypeReceive, opProcess: semconv.MessagingOperationTypeProcess,
	}
	for _, s := range settling {
		kinds[s.operation] = semconv.MessagingOperationTypeSettle
	}
	for name, kind := range kinds {
		says := slices.Concat(s.at, operation(name, kind))
		for _, known := range settling {
			if known.operation == name {
				says = append(says, known.disposition)
			}
		}
		s.spans[name] = naming{name + " " + nameOf(entity), says}
		s.counts[name], s.times[name] = s.measured(name)
	}
	for _, action := range []message.Action{message.Complete, message.Abandon, message.DeadLetter, message.CopyLater, message.Leave} {
		s.settled[action] = []metric.AddOption{s.settlement(action, false)}
	}
	return s
}

// measured is what measurements of an operation say, beside extra.
func (s *station) measured(operation string, extra ...attribute.KeyValue) ([]metric.AddOption, []metric.RecordOption) {
	says := slices.Concat(s.at, []attribute.KeyValue{semconv.MessagingOperationName(operation)}, extra)
	set := metric.WithAttributeSet(attribute.NewSet(slices.DeleteFunc(says, func(kv attribute.KeyValue) bool {
		return kv.Key == semconv.NetworkPeerAddressKey // for spans alone
	})...))
	return []metric.AddOption{set}, []metric.RecordOption{set}
}

func (s *station) settlement(action message.Action, failed bool) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(
		append(slices.Clone(s.at[:2]), semconv.MessagingServiceBusDispositionStatusKey.String(action.String()), keyFailed.Bool(failed))...))
}

// took records how long an operation of this client took.
func (c *Client) took(ctx context.Context, s *station, operation string, began time.Time, err error) {
	if !c.instruments.operation.Enabled(ctx) {
		return
	}
	times := s.times[operation]
	if err != nil {
		_, times = s.measured(operation, errorType(err))
	}
	c.instruments.operation.Inst().Record(ctx, time.Since(began).Seconds(), times...)
}

// hasSent counts a message that was sent, or not.
func (c *Client) hasSent(ctx context.Context, s *station, err error) {
	if !c.instruments.sent.Enabled(ctx) {
		return
	}
	counts := s.counts[opSend]
	if err != nil {
		counts, _ = s.measured(opSend, errorType(err))
	}
	c.instruments.sent.Inst().Add(ctx, 1, counts...)
}

// hasReceived counts messages that were received.
func (p *pump) hasReceived(ctx context.Context, n int) {
	if n > 0 && p.Client.instruments.consumed.Enabled(ctx) {
		p.Client.instruments.consumed.Inst().Add(ctx, int64(n), p.station.counts[opReceive]...)
	}
}

// hasProcessed records how long a handler took.
func (p *pump) hasProcessed(ctx context.Context, began time.Time) {
	if p.Client.instruments.process.Enabled(ctx) {
		p.Client.instruments.process.Inst().Record(ctx, time.Since(began).Seconds(), p.station.times[opProcess]...)
	}
}

// hasSettled counts what became of a delivery.
func (p *pump) hasSettled(ctx context.Context, action message.Action, reason string, err error) {
	i := &p.Client.instruments
	if !i.settlements.Enabled(ctx) {
		return
	}
	switch known, ok := p.station.settled[action]; {
	case ok && err == nil:
		i.settlements.Add(ctx, 1, known...)
	default:
		i.settlements.Add(ctx, 1, p.station.settlement(action, err != nil))
	}
	if action == message.DeadLetter && err == nil {
		i.deadLetters.Add(ctx, 1, metric.WithAttributes(append(slices.Clone(p.station.at[:2]), keyReason.String(reason))...))
	}
}

// watchSlots shows the slots of a receiver for as long as it runs.
func (p *pump) watchSlots() (stop func(), err error) {
	options := map[string]metric.ObserveOption{}
	for _, state := range []string{"used", "allowed", "configured"} {
		options[state] = metric.WithAttributes(append(slices.Clone(p.station.at[:2]), keyState.String(state))...)
	}
	watching, err := p.Client.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		used, allowed := p.slots.now()
		o.ObserveInt64(p.Client.instruments.slots, int64(used), options["used"])
		o.ObserveInt64(p.Client.instruments.slots, int64(allowed), options["allowed"])
		o.ObserveInt64(p.Client.instruments.slots, int64(p.slots.most), options["configured"])
		return nil
	}, p.Client.instruments.slots)
	if err != nil {
		return nil, err
	}
	return func() { _ = watching.Unregister() }, nil // its provider is only ever gone with the process
}

// errorType is the class of an error, of which there are few.
func errorType(err error) attribute.KeyValue {
	class := "_OTHER"
	for _, known := range []struct {
		err  error
		name string
	}{
		{errLockLost, "lock_lost"}, {errUndecided, "undecided"}, {message.ErrRefused, "refused"}, {message.ErrNotFound, "not_found"},
		{message.ErrTransient, "transient"}, {message.ErrUnknown, "unknown"},
	} {
		if errors.Is(err, known.err) {
			class = known.name
			break
		}
	}
	return semconv.ErrorTypeKey.String(class)
}
