package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"oneeffect/internal/claim"
	"oneeffect/internal/downstream"
	"oneeffect/internal/horizon"
	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"
	"oneeffect/internal/telemetry"
)

// byHand is what a careful hand would write with the same SDKs and the same options. It has all that the worker does
// for a task that goes well and that is no framework:
//
//   - the same calls, in the same order: create the claim, call, replace the claim under If-Match, publish, settle; the
//     same documents, bodies and headers; as many messages asked for as slots are free
//   - the message's lock and the claim's lease renewed beside it, by timers that hardly ever fire
//   - a deadline for each of the five calls, the worker's own
//   - the trace context read from the message and written into the event and the call, a span for the delivery, the
//     call, the event and the settlement, and the settlement counted: with telemetry off, as the worker is measured
//   - limits on what is read of a reply, and a digest of it
//
// It has no answer to anything that goes wrong: it reads nothing back, classifies no error, watches no lease end,
// waits for nobody, knows one kind of task, takes a payload's fingerprint as it is spelled, and ends with the first
// error. That is what it is compared with the worker for.
type byHand struct {
	slots   int
	guarded bool // it claims; otherwise it only receives, calls, publishes and settles

	bus     *azservicebus.Client
	events  *azservicebus.Sender
	store   *azcosmos.Client
	claims  *azcosmos.ContainerClient
	http    *http.Transport
	url     string
	process string

	lock, lease, renewal, keep time.Duration
	writing, settling          time.Duration // bounds of a write of the claim, and of a settlement

	tracer      trace.Tracer
	propagator  propagation.TextMapPropagator
	settlements metric.Int64Counter
}

// newByHand connects with the options of internal/servicebus, internal/cosmos and internal/downstream. attempts are what
// internal/cosmos does to each request beside that, as far as the loop has it too.
func newByHand(s *site, slots int, guarded bool, t telemetry.Providers, attempts ...policy.Policy) (*byHand, error) {
	d := horizon.Defaults()
	h := &byHand{
		slots: slots, guarded: guarded, http: downstream.NewTransport(), url: "http://" + s.server.Downstream + "/customers",
		process: "bench/" + claim.Nonce(), lock: d.Tasks.Lock.Value,
		lease: d.Worker.Lease.Value, renewal: d.Worker.Renewal.Value, keep: d.Worker.Keep.Value,
		writing: d.Worker.StoreTimeout.Value, settling: d.Worker.SettleTimeout.Value,
		tracer: t.Traces.Tracer("oneeffect/bench"), propagator: t.Propagator,
	}
	var err error
	if h.settlements, err = t.Metrics.Meter("oneeffect/bench").Int64Counter("settlements"); err != nil {
		return nil, fmt.Errorf("make a counter: %w", err)
	}
	h.bus, err = azservicebus.NewClientFromConnectionString(s.connectionString(), &azservicebus.ClientOptions{
		ApplicationID: "bench",
		RetryOptions:  azservicebus.RetryOptions{MaxRetries: 3, RetryDelay: 250 * time.Millisecond, MaxRetryDelay: 5 * time.Second},
	})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if h.events, err = h.bus.NewSender(message.TaskEvents, nil); err != nil {
		return nil, fmt.Errorf("make a sender: %w", err)
	}
	key, err := azcosmos.NewKeyCredential(accountKey)
	if err != nil {
		return nil, fmt.Errorf("make a credential: %w", err)
	}
	h.store, err = azcosmos.NewClientWithKey(s.cosmosURL(), key, &azcosmos.ClientOptions{
		ClientOptions: policy.ClientOptions{Telemetry: policy.TelemetryOptions{ApplicationID: "bench"}, PerRetryPolicies: attempts},
	})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	h.claims, err = h.store.NewContainer("oneeffect", "claims")
	return h, err
}

// more is nothing: it asks for no more messages than are left of n.
func (h *byHand) more() int { return 0 }

func (h *byHand) close(ctx context.Context) error {
	ctx, cancel := closing(ctx)
	defer cancel()
	err := h.bus.Close(ctx)
	h.store.Close()
	h.http.CloseIdleConnections()
	return err
}

// run does n tasks and says how long the last settlement was in coming.
func (h *byHand) run(ctx context.Context, n int) (time.Duration, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	began := time.Now()
	receiver, err := h.bus.NewReceiverForQueue(message.Tasks, nil)
	if err != nil {
		return 0, fmt.Errorf("make a receiver: %w", err)
	}
	var running sync.WaitGroup
	var settled atomic.Int64 // when the last task was, since began
	free := make(chan struct{}, h.slots)
	for range h.slots {
		free <- struct{}{}
	}
	for n > 0 && ctx.Err() == nil {
		taken := takeFree(ctx, free, n)
		messages, err := receiver.ReceiveMessages(ctx, taken, &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: servicebus.Linger})
		if err != nil {
			fail(fmt.Errorf("receive: %w", err))
			break
		}
		for range taken - len(messages) {
			free <- struct{}{}
		}
		n -= len(messages)
		for _, m := range messages {
			running.Go(func() {
				if err := h.deliver(ctx, receiver, m); err != nil {
					fail(err)
				}
				settled.Store(int64(time.Since(began)))
				free <- struct{}{}
			})
		}
	}
	running.Wait()
	took := time.Duration(settled.Load())
	bounded, cancel := closing(ctx)
	defer cancel()
	return took, errors.Join(context.Cause(ctx), receiver.Close(bounded))
}

// takeFree takes what is free, at least one and at most n.
func takeFree(ctx context.Context, free <-chan struct{}, n int) (taken int) {
	select {
	case <-free:
	case <-ctx.Done():
	}
	for taken = 1; taken < n; taken++ {
		select {
		case <-free:
		default:
			return taken
		}
	}
	return taken
}

// task is what is read of a TaskRequested.
type task struct {
	Type string `json:"type"`
	Data struct {
		ExecutionID   string         `json:"taskExecutionId"`
		Run           int            `json:"run"`
		Type          string         `json:"type"`
		Payload       jsontext.Value `json:"payload"`
		ExecutionETag string         `json:"executionEtag"`
	} `json:"data"`
}

// deliver does one task.
func (h *byHand) deliver(ctx context.Context, receiver *azservicebus.Receiver, m *azservicebus.ReceivedMessage) error {
	ctx, span := h.tracer.Start(h.extract(ctx, m.ApplicationProperties), "process tasks", consumer...)
	defer span.End()
	defer every(h.lock/3, func() { _ = receiver.RenewMessageLock(ctx, m, nil) })() // lost, it comes again
	var t task
	if err := json.Unmarshal(m.Body, &t); err != nil {
		return fmt.Errorf("read a task: %w", err)
	}
	if t.Type != message.TypeTask {
		return fmt.Errorf("read a task: it is a %q", t.Type)
	}
	done := completed{ExecutionID: t.Data.ExecutionID, Run: t.Data.Run, Fence: 1, ExecutionETag: t.Data.ExecutionETag}
	if !h.guarded {
		location, value, err := h.call(ctx, t)
		if err != nil {
			return err
		}
		done.ResultRef, done.ResultDigest = location, digest(value)
	} else if err := h.guard(ctx, t, &done); err != nil {
		return err
	}
	if err := h.publish(ctx, done); err != nil {
		return err
	}
	return h.complete(ctx, receiver, m)
}

// guard is claim, call and completion.
func (h *byHand) guard(ctx context.Context, t task, done *completed) error {
	now := time.Now()
	owner := h.process + "/" + claim.Nonce()
	key := azcosmos.NewPartitionKeyString(t.Data.ExecutionID)
	c := claim.Claim{
		ID: t.Data.ExecutionID, Status: claim.InProgress, Run: t.Data.Run, Fence: 1, Owner: owner, W: claim.Nonce(),
		LeaseSeconds: int(h.lease.Seconds()), TaskType: t.Data.Type, Keyed: true, Fingerprint: digest(t.Data.Payload), FirstCallAt: now, Starts: 1,
		Attempts: []claim.Attempt{{Fence: 1, Owner: owner, At: now}}, TTL: int(h.keep.Seconds()), Version: 1,
	}
	document, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	created, err := h.create(ctx, key, document)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	etag := created.ETag
	write := func() error { // on the condition that nobody has written since
		text, err := json.Marshal(c)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, h.writing)
		defer cancel()
		written, err := h.claims.ReplaceItem(ctx, key, c.ID, text, &azcosmos.ItemOptions{IfMatchEtag: new(azcore.ETag(etag))})
		etag = written.ETag
		return err
	}
	stop := every(h.renewal, func() { _ = write() })
	location, value, err := h.call(ctx, t)
	stop()
	if err != nil {
		return err
	}
	done.ResultRef, done.ResultDigest = location, digest(value)
	c.Status, c.W = claim.Completed, claim.Nonce()
	c.Result = &claim.Result{Ref: location, Digest: done.ResultDigest, Value: value}
	c.Attempts[0].End = claim.EndCompleted
	if err := write(); err != nil {
		return fmt.Errorf("complete the claim: %w", err)
	}
	return nil
}

// every does something again and again until it is stopped, which waits for what runs.
func every(period time.Duration, do func()) (stop func()) {
	idle := make(chan struct{}, 1) // taken while something runs, and for good by stop
	var timer *time.Timer
	ready := make(chan struct{})
	timer = time.AfterFunc(period, func() {
		<-ready
		select {
		case <-idle:
		default:
			return // stopped
		}
		do()
		timer.Reset(period)
		idle <- struct{}{}
	})
	idle <- struct{}{}
	close(ready)
	return func() {
		<-idle
		timer.Stop()
	}
}
