package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/claim"
	"oneeffect/internal/downstream"
	"oneeffect/internal/horizon"
	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"
	"oneeffect/internal/telemetry"
	"oneeffect/internal/worker"
)

// handlers declares one handler of every kind, with the answers of the emulator's CRM and print shop.
const handlers = `
- type: ` + taskType + `
  request: { method: POST, url: "${CRM_URL}/customers", timeout: 20s }
  idempotency: { honoured: true, header: Idempotency-Key, form: bare, window: 24h, inProgress: 409, replayedHeader: Idempotent-Replayed }
  result: /id
  retry: { attempts: 8, backoff: 2s..5m }
- type: ` + keylessType + `
  request: { url: "${CRM_URL}/letters", timeout: 20s }
  idempotency: { honoured: false }
- type: ` + stepsType + `
  steps:
    - name: invoice
      request: { url: "${CRM_URL}/customers", timeout: 10s }
      idempotency: { honoured: true, window: 24h }
    - name: address
      request: { url: "${CRM_URL}/customers", timeout: 10s }
      idempotency: { honoured: true, window: 24h }
    - name: contract
      request: { url: "${CRM_URL}/customers", timeout: 10s }
      idempotency: { honoured: true, window: 24h }
- type: ` + mixedType + `
  steps:
    - name: customer
      request: { url: "${CRM_URL}/customers", timeout: 10s }
      idempotency: { honoured: true, window: 24h }
    - name: letter
      request: { url: "${CRM_URL}/letters", timeout: 10s }
      idempotency: { honoured: false }
`

// product is the worker, wired as cmd/worker wires it, with the durations that its flags default to.
type product struct {
	out       process.Connections
	transport *http.Transport
	receiver  servicebus.Receiver
	worker    *worker.Worker
	settled   *tally
	traces    func(context.Context) error // ends the tracing
}

// newProduct connects a worker. log is where and how much it says.
func newProduct(s *site, slots int, providers telemetry.Providers, log *slog.Logger) (*product, error) {
	d := horizon.Defaults()
	own := d.Worker
	p := &product{settled: &tally{}, transport: downstream.NewTransport(), traces: providers.Shutdown}
	providers.Metrics = provider{providers.Metrics, p.settled}
	throttle := servicebus.NewThrottle()
	var err error
	if p.out, err = s.connect(providers, log, throttle.Pull); err != nil {
		return nil, err
	}
	events, err := p.out.ServiceBus.Sender(message.TaskEvents)
	if err != nil {
		return nil, err
	}
	declared, err := handlersAt(s, downstream.Options{
		Transport: p.transport, UserAgent: "bench", Propagator: providers.Propagator, Tracer: providers.Traces.Tracer("oneeffect/downstream"),
		Meter: providers.Metrics.Meter("oneeffect/downstream"),
	})
	if err != nil {
		return nil, err
	}
	counters, err := worker.NewCounters(providers.Metrics.Meter("oneeffect/worker"))
	if err != nil {
		return nil, err
	}
	p.worker = &worker.Worker{
		Claims: &claim.Desk{
			Store: p.out.Cosmos.Claims(), Process: "bench/" + claim.Nonce(), Timeout: own.StoreTimeout.Value, Renewal: own.Renewal.Value,
			Terms: claim.Terms{
				Lease: own.Lease.Value, OwnerMargin: own.OwnerMargin.Value, ChallengerMargin: own.ChallengerMargin.Value,
				MaxAttempts: own.MaxAttempts.Value, Keep: own.Keep.Value,
			},
		},
		Handlers: declared,
		Publish:  events.Send,
		BusyWait: own.BusyWait.Value, PublishTimeout: own.PublishTimeout.Value, SettleTimeout: own.SettleTimeout.Value, KeyMargin: own.KeyMargin.Value,
		Log: log, Counters: counters,
	}
	p.receiver = servicebus.Receiver{
		Client: p.out.ServiceBus, Queue: message.Tasks, Slots: slots, LockDuration: d.Tasks.Lock.Value,
		SettleTimeout: own.SettleTimeout.Value, Grace: own.Grace.Value, Throttle: throttle, Log: log,
	}
	return p, nil
}

// withWorker has something done at a site of its own, where a worker is connected whose telemetry is off.
func (b *bench) withWorker(ctx context.Context, name string, do func(*site, *product) error) (err error) {
	s, err := b.newSite(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	silent, err := noTelemetry(ctx)
	if err != nil {
		return err
	}
	p, err := newProduct(s, slots, silent, quiet())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	return do(s, p)
}

func handlersAt(s *site, o downstream.Options) (map[string]message.Handler, error) {
	declared, err := downstream.ReadHandlers(strings.NewReader(handlers), process.Environment(s.environment()).Get)
	if err != nil {
		return nil, err
	}
	byType := map[string]message.Handler{}
	for _, d := range declared {
		if byType[d.Type], err = d.Handler(o); err != nil {
			return nil, err
		}
	}
	return byType, nil
}

// run does n tasks and says how long the last settlement was in coming. The
// receiver has ended when it returns.
func (p *product) run(ctx context.Context, n int) (time.Duration, error) {
	return receiveUntil(ctx, p.receiver, p.handle, p.settled, n)
}

func (p *product) more() int { return p.settled.more() }

// receiveUntil runs a receiver until so many messages are settled.
func receiveUntil(ctx context.Context, r servicebus.Receiver, handle servicebus.Handle, settled *tally, n int) (time.Duration, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := settled.expect(n)
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- r.Run(ctx, handle) }() // received below
	select {
	case <-done:
	case <-ctx.Done():
	case err := <-ended:
		return 0, fmt.Errorf("the receiver ended before its work: %w", err)
	}
	took := time.Since(began)
	stop()
	return took, errors.Join(<-ended, settled.failure())
}

// handle is the worker's, whose every task must end well.
func (p *product) handle(ctx context.Context, d message.Delivery) message.Settlement {
	s := p.worker.Handle(ctx, d)
	if s.Action != message.Complete {
		p.settled.fail(fmt.Errorf("task %s: %s %s %s", d.CorrelationID, s.Action, s.Reason, s.Description))
	}
	return s
}

func (p *product) close(ctx context.Context) error {
	ctx, cancel := closing(ctx)
	defer cancel()
	err := errors.Join(p.worker.Wait(ctx), p.out.ServiceBus.Close(ctx), p.traces(ctx))
	p.out.Cosmos.Close()
	p.transport.CloseIdleConnections()
	return err
}

// quiet is the log of a worker with -log-level=warn, loud that of one with the default.
func quiet() *slog.Logger { return logger(slog.LevelWarn) }
func loud() *slog.Logger  { return logger(slog.LevelInfo) }

func logger(level slog.Level) *slog.Logger {
	return (&process.Settings{ID: "bench", LogLevel: level}).Logger(io.Discard)
}
