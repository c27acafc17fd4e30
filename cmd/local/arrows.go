package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// Names of the diagram.
const (
	task           = "82f3"
	letter         = "82f4"
	worker1        = "worker-1"
	worker2        = "worker-2"
	orchestratorID = "orchestrator"
	holdRule       = "completion-of-worker-1"
	subscription   = message.TaskEvents + "/subscriptions/" + message.Orchestrator
)

// arrow is one arrow of the sequence diagram and how it is observed: from the
// broker, the claim, the ledger or the execution, never from a worker.
type arrow struct {
	between string
	text    string
	observe func(context.Context, *demonstration) (sight, error)
}

// sight is an observation: when, and who saw it.
type sight struct {
	at     time.Time
	source string
}

func saw(e event, where, format string, args ...any) sight {
	return sight{e.At, fmt.Sprintf("%s event %d: %s", where, e.Seq, fmt.Sprintf(format, args...))}
}

var arrows = []arrow{
	{"Service Bus -> worker 1", "deliver " + task + ", attempt 1", func(ctx context.Context, d *demonstration) (sight, error) {
		return d.delivered(ctx, worker1, 1)
	}},
	{"worker 1 -> claim", "claim " + task + ", IN_PROGRESS, lease", claimed},
	{"worker 1 -> downstream", "POST /customers, Idempotency-Key " + task, func(ctx context.Context, d *demonstration) (sight, error) {
		return d.called(ctx, worker1)
	}},
	{"downstream -> worker 1", "201 Created", created},
	{"worker 1", "killed before the result is recorded", killed},
	{"Service Bus -> worker 2", "lock expired, deliver " + task + " again", redelivered},
	{"worker 2 -> claim", "IN_PROGRESS with a stale lease: take over", takenOver},
	{"worker 2 -> downstream", "POST /customers, Idempotency-Key " + task, func(ctx context.Context, d *demonstration) (sight, error) {
		return d.called(ctx, worker2)
	}},
	{"downstream -> worker 2", "200 OK, the same resource", replayed},
	{"worker 2 -> claim", "COMPLETED with the result", recorded},
	{"worker 2 -> Service Bus", "TaskCompleted, then complete the message", published},
	{"Service Bus -> orchestrator", "completion of " + task, announced},
	{"orchestrator -> Cosmos DB", "RUNNING to COMPLETED under the ETag", moved},
	{"Cosmos DB -> orchestrator", "duplicate: no-op, message settled", ignored},
}

func (d *demonstration) delivered(ctx context.Context, to string, count int) (sight, error) {
	e, err := d.events.await(ctx, func(e event) bool {
		return e.Kind == "delivered" && e.Entity == message.Tasks && e.Key == task && e.Client == to
	})
	if err != nil {
		return sight{}, err
	}
	if e.Delivery != count {
		return sight{}, fmt.Errorf("delivery %d of %s to %s, want %d", e.Delivery, task, to, count)
	}
	return saw(e, "broker", "delivered to %s, count %d", to, count), nil
}

// readClaim reads the claim as anyone may.
func (d *demonstration) readClaim(ctx context.Context) (claim.Stored, error) {
	return d.store.Claims().Record(task).Read(ctx)
}

func claimed(ctx context.Context, d *demonstration) (sight, error) {
	e, err := d.events.await(ctx, func(e event) bool {
		return e.Entity == "claims" && e.Operation == "create" && e.Client == worker1 && e.Key == task && e.Status == http.StatusCreated
	})
	if err != nil {
		return sight{}, err
	}
	s, err := d.readClaim(ctx)
	if err != nil {
		return sight{}, err
	}
	c := s.Claim
	if c.Status != claim.InProgress || c.Fence != 1 || !strings.HasPrefix(c.Owner, worker1+"/") {
		return sight{}, fmt.Errorf("the claim is %s, fence %d, owner %s", c.Status, c.Fence, c.Owner)
	}
	return saw(e, "store", "claim %s, fence %d, lease %d s", c.Status, c.Fence, c.LeaseSeconds), nil
}

func (d *demonstration) called(ctx context.Context, by string) (sight, error) {
	e, err := d.events.await(ctx, func(e event) bool {
		return e.Service == "downstream" && e.Kind == "call" && e.Path == "/customers" && e.Client == by && e.Key == task
	})
	if err != nil {
		return sight{}, err
	}
	return saw(e, "ledger", "%s %s by %s", e.Method, e.Path, by), nil
}

func (d *demonstration) reply(ctx context.Context, to string) (event, error) {
	return d.events.await(ctx, func(e event) bool {
		return e.Service == "downstream" && e.Kind == "reply" && e.Path == "/customers" && e.Client == to && e.Key == task
	})
}

func created(ctx context.Context, d *demonstration) (sight, error) {
	e, err := d.reply(ctx, worker1)
	if err != nil {
		return sight{}, err
	}
	if e.Status != http.StatusCreated || e.Effects != 1 {
		return sight{}, fmt.Errorf("reply %d with %d effects", e.Status, e.Effects)
	}
	d.resource = e.Resource
	return saw(e, "ledger", "%d, %s, %s", e.Status, e.Resource, plural(e.Effects, "effect")), nil
}

// killed waits until the write that would record the result has been sent and
// not applied, and ends worker 1 at that very moment.
func killed(ctx context.Context, d *demonstration) (sight, error) {
	if _, err := d.events.await(ctx, func(e event) bool { return e.Kind == "rule-reached" && e.Rule == holdRule }); err != nil {
		return sight{}, fmt.Errorf("worker 1 does not try to record its result: %w", err)
	}
	if d.lie != lieNoKill {
		d.worker1.kill()
	}
	// Only then: a worker that went on in another way must not pass for a dead one.
	gone, err := d.events.await(ctx, func(e event) bool { return e.Kind == "disconnected" && e.Client == worker1 })
	if err != nil {
		return sight{}, fmt.Errorf("the broker still has a connection of worker 1: %w", err)
	}
	if _, err := d.events.await(ctx, func(e event) bool { return e.Kind == "peer-gone" && e.Rule == holdRule }); err != nil {
		return sight{}, fmt.Errorf("the store still waits for worker 1: %w", err)
	}
	if !d.worker1.killed() {
		return sight{}, errors.New("worker 1 was not ended by SIGKILL")
	}
	if d.stands, err = d.readClaim(ctx); err != nil {
		return sight{}, err
	}
	if c := d.stands.Claim; c.Status != claim.InProgress || c.Fence != 1 {
		return sight{}, fmt.Errorf("the claim is %s, fence %d", c.Status, c.Fence)
	}
	return saw(gone, "broker", "connection lost; SIGKILL; claim still %s, fence 1", claim.InProgress), nil
}

func redelivered(ctx context.Context, d *demonstration) (sight, error) {
	if _, err := d.worker(ctx, worker2, d.handlers, demoWorker...); err != nil {
		return sight{}, err
	}
	expired, err := d.events.await(ctx, func(e event) bool {
		return e.Kind == "lock-expired" && e.Entity == message.Tasks && e.Key == task
	})
	if err != nil {
		return sight{}, fmt.Errorf("the lock does not expire: %w", err)
	}
	s, err := d.delivered(ctx, worker2, 2)
	if err != nil {
		return sight{}, err
	}
	s.source = fmt.Sprintf("broker event %d: lock expired; %s", expired.Seq, s.source)
	return s, nil
}

// takenOver: the write that took the claim replaced exactly the version that
// worker 1 left, and that version was older than its lease by the store's clock.
func takenOver(ctx context.Context, d *demonstration) (sight, error) {
	if d.stands.ETag == "" {
		return sight{}, errors.New("what worker 1 left is not known")
	}
	e, err := d.events.await(ctx, func(e event) bool {
		return e.Entity == "claims" && e.Operation == "replace" && e.Client == worker2 && e.Key == task && e.Status == http.StatusOK
	})
	if err != nil {
		return sight{}, err
	}
	read, err := d.events.await(ctx, func(e event) bool {
		return e.Entity == "claims" && e.Operation == "read" && e.Client == worker2 && e.Key == task && e.Status == http.StatusOK
	})
	if err != nil {
		return sight{}, err
	}
	left, err := d.events.await(ctx, func(e event) bool {
		return e.Entity == "claims" && e.ETagAfter == string(d.stands.ETag) && e.Client == worker1
	})
	if err != nil {
		return sight{}, err
	}
	lease := time.Duration(d.stands.Claim.LeaseSeconds) * time.Second
	if age := e.At.Sub(left.At); read.Seq > e.Seq || e.ETagBefore != string(d.stands.ETag) || age <= lease {
		return sight{}, fmt.Errorf("version %s of age %v was replaced, want %s, read before and older than %v", e.ETagBefore, age, d.stands.ETag, lease)
	}
	return saw(e, "store", "read by event %d; replaced by %s, %.1f s after its last write, lease %v", read.Seq, worker2, e.At.Sub(left.At).Seconds(), lease), nil
}

func replayed(ctx context.Context, d *demonstration) (sight, error) {
	e, err := d.reply(ctx, worker2)
	if err != nil {
		return sight{}, err
	}
	if e.Status != http.StatusOK || e.Resource != d.resource || e.Effects != 1 {
		return sight{}, fmt.Errorf("reply %d, %s, %s; the first call made %s", e.Status, e.Resource, plural(e.Effects, "effect"), d.resource)
	}
	return saw(e, "ledger", "%d, %s, %s", e.Status, e.Resource, plural(e.Effects, "effect")), nil
}

func recorded(ctx context.Context, d *demonstration) (sight, error) {
	e, err := d.events.await(ctx, func(e event) bool {
		return e.Entity == "claims" && e.Operation == "replace" && e.Client == worker2 && e.Status == http.StatusOK && e.BodyStatus == string(claim.Completed)
	})
	if err != nil {
		return sight{}, err
	}
	s, err := d.readClaim(ctx)
	if err != nil {
		return sight{}, err
	}
	if c := s.Claim; c.Status != claim.Completed || c.Fence != 2 || c.Result == nil {
		return sight{}, fmt.Errorf("the claim is %s, fence %d", c.Status, c.Fence)
	}
	return saw(e, "store", "claim %s, fence %d, result %s", s.Claim.Status, s.Claim.Fence, s.Claim.Result.Ref), nil
}

// published: first the event, then the settlement.
func published(ctx context.Context, d *demonstration) (sight, error) {
	var err error
	d.completed, err = d.events.await(ctx, func(e event) bool {
		return e.Kind == "enqueued" && strings.HasPrefix(e.Entity, message.TaskEvents) && e.Key == task+"/completed" && e.Client == worker2
	})
	if err != nil {
		return sight{}, err
	}
	settled, err := d.events.await(ctx, func(e event) bool {
		return e.Kind == "settled" && e.Entity == message.Tasks && e.Key == task && e.Client == worker2
	})
	if err != nil {
		return sight{}, err
	}
	if settled.Disposition != "completed" || settled.Seq < d.completed.Seq {
		return sight{}, fmt.Errorf("settled as %q by event %d, published by event %d", settled.Disposition, settled.Seq, d.completed.Seq)
	}
	return saw(d.completed, "broker", "%s enqueued; event %d: message completed", d.completed.Key, settled.Seq), nil
}

func announced(ctx context.Context, d *demonstration) (sight, error) {
	e, err := d.events.await(ctx, func(e event) bool {
		return e.Kind == "delivered" && e.Entity == subscription && e.Key == task+"/completed" && e.Client == orchestratorID
	})
	if err != nil {
		return sight{}, err
	}
	return saw(e, "broker", "delivered to %s", e.Client), nil
}

func moved(ctx context.Context, d *demonstration) (sight, error) {
	var err error
	d.moved, err = d.transitionSeen(ctx)
	if err != nil {
		return sight{}, err
	}
	s, err := d.store.Executions().Load(ctx, task)
	if err != nil {
		return sight{}, err
	}
	if s.Execution.Status != execution.Completed || d.moved.ETagBefore != d.ticket {
		return sight{}, fmt.Errorf("the execution is %s; the transition replaced version %s, the ticket was %s", s.Execution.Status, d.moved.ETagBefore, d.ticket)
	}
	return saw(d.moved, "store", "execution %s, written over the version of its creation", s.Execution.Status), nil
}

func (d *demonstration) transitionSeen(ctx context.Context) (event, error) {
	return d.events.await(ctx, transitionOfTask)
}

func transitionOfTask(e event) bool {
	return e.Entity == "executions" && e.Operation == "patch" && e.Key == task && e.Status == http.StatusOK
}

// ignored sends the completion a second time, as a broker or a redelivered task
// may, and sees that nothing changes and that the message does not come back.
func ignored(ctx context.Context, d *demonstration) (sight, error) {
	if d.lie != lieNoDuplicate {
		if err := d.repeat(ctx); err != nil {
			return sight{}, err
		}
	}
	again, err := d.events.await(ctx, func(e event) bool {
		return e.Kind == "delivered" && e.Entity == subscription && e.Key == task+"/completed" && e.Seq > d.moved.Seq
	})
	if err != nil {
		return sight{}, fmt.Errorf("no second completion is delivered: %w", err)
	}
	settled, err := d.events.await(ctx, func(e event) bool {
		return e.Kind == "settled" && e.Entity == subscription && e.Key == task+"/completed" && e.Seq > again.Seq
	})
	if err != nil {
		return sight{}, fmt.Errorf("the second completion is not settled: %w", err)
	}
	s, err := d.store.Executions().Load(ctx, task)
	if err != nil {
		return sight{}, err
	}
	writes := d.events.count(transitionOfTask)
	if settled.Disposition != "completed" || string(s.ETag) != d.moved.ETagAfter || writes != 1 {
		return sight{}, fmt.Errorf("settled as %q, the execution was written %d times", settled.Disposition, writes)
	}
	return saw(settled, "broker", "second completion settled; execution unchanged, version %s", s.ETag), nil
}

// repeat publishes what worker 2 has published, to the letter.
func (d *demonstration) repeat(ctx context.Context) error {
	s, err := d.readClaim(ctx)
	if err != nil {
		return err
	}
	c := s.Claim
	if c.Result == nil {
		return errors.New("there is no result to announce again")
	}
	m, err := message.Completed{
		ExecutionID: c.ID, Run: c.Run, Fence: c.Fence, ResultRef: c.Result.Ref, ResultDigest: c.Result.Digest, ExecutionETag: d.ticket,
	}.Message(time.Now())
	if err != nil {
		return err
	}
	topic, err := d.bus.Sender(message.TaskEvents)
	if err != nil {
		return err
	}
	return topic.Send(ctx, m)
}
