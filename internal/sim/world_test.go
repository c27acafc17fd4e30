package sim

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oneeffect/emulator/control"
	cosmosemulator "oneeffect/emulator/cosmos"
	downstreamemulator "oneeffect/emulator/downstream"
	brokeremulator "oneeffect/emulator/servicebus"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/downstream"
	"oneeffect/internal/message"
	"oneeffect/internal/orchestrator"
	"oneeffect/internal/servicebus"
	"oneeffect/internal/worker"

	"go.opentelemetry.io/otel/trace"
)

// The diagram's own numbers: lock and lease of five minutes; and the proposals.
const (
	lock  = 5 * time.Minute
	lease = 5 * time.Minute

	reconcileAge    = 15 * time.Minute
	reconcilePeriod = 5 * time.Minute
)

// pace are the durations of a world.
type pace struct {
	lock, lease                   time.Duration
	publish, grace                time.Duration
	reconcileAge, reconcilePeriod time.Duration
	relayAge, relayPeriod         time.Duration
	replaySettle                  time.Duration // 0: no replay waits
}

// diagram is the pace of the stories.
var diagram = pace{
	lock: lock, lease: lease, publish: 30 * time.Second, grace: 80 * time.Second,
	reconcileAge: reconcileAge, reconcilePeriod: reconcilePeriod, relayAge: 30 * time.Second, relayPeriod: 30 * time.Second,
}

// What is the same at any pace.
const (
	storeTimeout     = 10 * time.Second
	settleTimeout    = 10 * time.Second
	ownerMargin      = 10 * time.Second
	challengerMargin = 5 * time.Second
	maxAttempts      = 8
)

// subscription is what the event log calls the orchestrator's subscription.
const subscription = message.TaskEvents + "/subscriptions/" + message.Orchestrator

// handlers are the two of the diagram and its note, and two of several steps.
const handlers = `
- type: customer.create
  request: { method: POST, url: "http://crm.example/customers", timeout: 20s }
  idempotency: { honoured: true, header: Idempotency-Key, form: bare, window: 24h, inProgress: 409, replayedHeader: Idempotent-Replayed }
  result: /id
  retry: { attempts: 8, backoff: 2s..5m }
- type: letter.print
  request: { method: POST, url: "http://print.example/letters", timeout: 20s }
  idempotency: { honoured: false }
- type: customer.move
  steps:
    - name: invoice
      request: { url: "http://crm.example/customers", timeout: 20s }
      idempotency: { honoured: true, window: 24h }
    - name: address
      request: { url: "http://crm.example/customers", timeout: 20s }
      idempotency: { honoured: true, window: 24h }
    - name: contract
      request: { url: "http://crm.example/customers", timeout: 20s }
      idempotency: { honoured: true, window: 24h }
- type: customer.welcome
  steps:
    - name: letter
      request: { url: "http://print.example/letters", timeout: 20s }
      idempotency: { honoured: false }
    - name: customer
      request: { url: "http://crm.example/customers", timeout: 20s }
      idempotency: { honoured: true, window: 24h }
`

// world is everything outside the processes, and a view of it that is the test's own.
type world struct {
	t       *testing.T
	hub     *control.Hub
	broker  *brokeremulator.Server
	store   *cosmosemulator.Server
	outside *downstreamemulator.Server

	view   *cosmos.Database // as "test"
	bus    *servicebus.Client
	mu     sync.Mutex
	stops  []func() // what ends the processes
	ended  bool
	tracer trace.Tracer // of all processes started from now on; nil: none
	api    *orchestrator.Orchestrator

	pace    pace
	host    string                            // of the store: clients of one process share what they know of it, worlds share nothing
	calls   http.RoundTripper                 // to the downstream
	loggers func(process string) *slog.Logger // nil: the test's output
	problem func(error)                       // a process that ends with an error; nil: the test fails
	clock   func(process string) claim.Clock  // nil: all are right
}

// newWorld starts the emulators. Everything ends with the test, before its bubble does.
func newWorld(t *testing.T, change ...func(*brokeremulator.Config)) *world {
	return newWorldAt(t, control.New(), diagram, cosmosemulator.Options{}, change...)
}

var worlds atomic.Int64

const connection = "Endpoint=sb://bus.example;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"

func newWorldAt(t *testing.T, hub *control.Hub, p pace, account cosmosemulator.Options, change ...func(*brokeremulator.Config)) *world {
	file, err := os.Open("../../emulator/config.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	config, err := brokeremulator.ReadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(&config)
	}
	for i := range config.Namespace.Queues {
		config.Namespace.Queues[i].LockDuration = p.lock
	}
	for i := range config.Namespace.Topics {
		for j := range config.Namespace.Topics[i].Subscriptions {
			config.Namespace.Topics[i].Subscriptions[j].LockDuration = p.lock
		}
	}
	w := &world{t: t, hub: hub, pace: p, host: fmt.Sprintf("cosmos-%d.example", worlds.Add(1))}
	if w.broker, err = brokeremulator.New(w.hub, config); err != nil {
		t.Fatal(err)
	}
	w.store = cosmosemulator.New(w.hub, account)
	w.outside = downstreamemulator.New(w.hub)
	w.calls = w.outside.Transport()
	w.view, w.bus = w.connect("test")
	if err := w.view.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// end stops the processes and then what they stood on.
func (w *world) end() {
	if w.ended {
		return
	}
	w.ended = true
	for _, stop := range w.stops {
		stop()
	}
	w.closeConnections(w.view, w.bus)
	w.hub.Close()
	for _, close := range []func() error{w.broker.Close, w.store.Close, w.outside.Close} {
		if err := close(); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) connect(id string) (*cosmos.Database, *servicebus.Client) {
	db, err := cosmos.Open(cosmos.Options{
		Endpoint: "http://" + w.host + ":8081", Key: cosmosemulator.EmulatorKey, ApplicationID: id,
		Transport: w.store.Transport(), Timeout: storeTimeout,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	bus, err := servicebus.Dial(servicebus.Options{
		ConnectionString: connection,
		ApplicationID:    id,
		Tracer:           w.tracer,
		NewConn:          func(ctx context.Context) (net.Conn, error) { return w.broker.Dial(ctx) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return db, bus
}

func (w *world) closeConnections(db *cosmos.Database, bus *servicebus.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := bus.Close(ctx); err != nil {
		w.t.Logf("close: %v", err) // the broker may have cut it off already
	}
	db.Close()
}

// run runs a process until stop, which is its SIGTERM and returns when it has
// ended, or until the world ends.
func (w *world) run(db *cosmos.Database, bus *servicebus.Client, parts ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, len(parts))
	for _, part := range parts {
		go func() { ended <- part(ctx) }()
	}
	stop = sync.OnceFunc(func() {
		cancel()
		for range parts {
			if err := <-ended; err != nil {
				w.fault(err)
			}
		}
		w.closeConnections(db, bus)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stops = append(w.stops, stop)
	return stop
}

func (w *world) fault(err error) {
	if w.problem != nil {
		w.problem(err)
		return
	}
	w.t.Error(err)
}

// worker starts a worker with the settings that cmd/worker has by default.
func (w *world) worker(id string) { w.workerWith(id, handlers, 4, w.pace.grace) }

// workerWith starts one with other handlers, slots or grace.
func (w *world) workerWith(id, file string, slots int, grace time.Duration) (stop func()) {
	w.t.Helper()
	db, bus := w.connect(id)
	events, err := bus.Sender(message.TaskEvents)
	if err != nil {
		w.t.Fatal(err)
	}
	wk := &worker.Worker{
		Claims: &claim.Desk{
			Store: db.Claims(), Process: id + "/" + claim.Nonce(), Timeout: storeTimeout, Clock: w.clockOf(id),
			Terms: claim.Terms{Lease: w.pace.lease, OwnerMargin: ownerMargin, ChallengerMargin: challengerMargin, MaxAttempts: maxAttempts, Keep: 30 * 24 * time.Hour},
		},
		Handlers: w.handlers(id, file),
		Publish:  events.Send,
		BusyWait: 20 * time.Second, PublishTimeout: w.pace.publish, SettleTimeout: settleTimeout, KeyMargin: 15 * time.Minute,
		Log: w.log(id),
	}
	receiver := servicebus.Receiver{
		Client: bus, Queue: message.Tasks, Slots: slots, LockDuration: w.pace.lock,
		SettleTimeout: settleTimeout, Grace: grace, Log: w.log(id),
	}
	return w.run(db, bus, func(ctx context.Context) error { return receiver.Run(ctx, wk.Handle) })
}

func (w *world) handlers(id, file string) map[string]message.Handler {
	w.t.Helper()
	declared, err := downstream.ReadHandlers(strings.NewReader(file), func(string) string { return "" })
	if err != nil {
		w.t.Fatal(err)
	}
	byType := map[string]message.Handler{}
	for _, d := range declared {
		h, err := d.Handler(downstream.Options{Transport: w.calls, UserAgent: id, Tracer: w.tracer})
		if err != nil {
			w.t.Fatal(err)
		}
		byType[h.Declaration().Type] = h
	}
	return byType
}

// orchestrator starts the orchestrator; its API is called directly.
func (w *world) orchestrator() { w.orchestratorAs("orchestrator", true) }

// orchestratorAs starts another one, which listens to events or not.
func (w *world) orchestratorAs(id string, listens bool) (stop func()) {
	db, bus := w.connect(id)
	tasks, err := bus.Sender(message.Tasks)
	if err != nil {
		w.t.Fatal(err)
	}
	o := &orchestrator.Orchestrator{
		Store: db.Executions(), Views: db.Executions(), Send: tasks.Send, SendTimeout: 20 * time.Second,
		RelayAge: w.pace.relayAge, RelayPeriod: w.pace.relayPeriod, MaxMessage: 240 << 10,
		Claims: &claim.Desk{
			Store: db.Claims(), Process: id + "/" + claim.Nonce(), Timeout: storeTimeout, Clock: w.clockOf(id),
			Terms: claim.Terms{Lease: w.pace.lease, ChallengerMargin: challengerMargin, Keep: 30 * 24 * time.Hour},
		},
		DeadLetters: bus.DeadLetters(message.Tasks), ReconcileAge: w.pace.reconcileAge, ReconcilePeriod: w.pace.reconcilePeriod,
		ReplaySettle: w.pace.replaySettle, Log: w.log(id),
	}
	w.api = o
	parts := []func(context.Context) error{o.Relay, o.Reconcile, o.Clear}
	receiver := servicebus.Receiver{
		Client: bus, Topic: message.TaskEvents, Subscription: message.Orchestrator, Slots: 4, LockDuration: w.pace.lock,
		SettleTimeout: settleTimeout, Grace: w.pace.grace, Log: w.log(id),
	}
	if listens {
		parts = append(parts, func(ctx context.Context) error { return receiver.Run(ctx, o.Handle) })
	}
	return w.run(db, bus, parts...)
}

func (w *world) clockOf(id string) claim.Clock {
	if w.clock == nil {
		return nil
	}
	return w.clock(id)
}

// log shows what the processes say, with -v.
func (w *world) log(id string) *slog.Logger {
	if w.loggers != nil {
		return w.loggers(id)
	}
	return slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})).With("process", id)
}

func (w *world) arm(r control.Rule) {
	w.t.Helper()
	if _, err := w.hub.Arm(r); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) disarm(rule string) {
	w.t.Helper()
	if err := w.hub.Disarm(rule); err != nil {
		w.t.Fatal(err)
	}
}

// release lets go of what a rule holds.
func (w *world) release(rule, action string) {
	w.t.Helper()
	if err := w.hub.Release(rule, control.Release{Action: action}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) send(entity string, m message.Message, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	sender, err := w.bus.Sender(entity)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := sender.Send(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}
