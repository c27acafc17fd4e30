package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/emulator/inprocess"
	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/go-json-experiment/json/jsontext"
)

// do does one step of the plan.
func (pl *player) do(s step) {
	switch s.Kind {
	case submits, resubmits:
		pl.aside.Go(func() { pl.request(s) })
	case stocks:
		pl.aside.Go(func() { pl.tellStock(pl.h.plan.Stock[s.N]) })
	case copies, resends, tellsAgain, forges, garbage:
		pl.aside.Go(func() { pl.repeat(s) })
	case cancels:
		pl.aside.Go(func() { pl.cancel(s.Target) })
	case attends:
		pl.aside.Go(func() { pl.attend(s.N) })
	default:
		pl.goWrong(s)
	}
}

// goWrong has something go wrong.
func (pl *player) goWrong(s step) {
	pl.mu.Lock()
	r := pl.slots[s.Target]
	pl.mu.Unlock()
	switch s.Kind {
	case kills, terminates:
		pl.endProcess(r, r.generation, s.Kind, s.For)
	case killsAt, killsLate:
		pl.killAt(r, s)
	case pauses:
		pl.pause(r, s.For)
	case jumpsWorker:
		pl.mu.Lock()
		clock := pl.clocks[r.id]
		pl.mu.Unlock()
		if clock != nil { // a projector has none
			clock.Add(int64(s.Jump))
			pl.count(s.Kind)
		}
	case jumpsAtCall:
		pl.jumpAtCall(r, s)
	case cancelsTaken, givesUpHeld:
		pl.meet(s)
	case jumpsAhead, jumpsBack:
		synctest.Wait() // so that everybody sees it between two events
		pl.hub.Jump(s.Jump)
		pl.note("jump", "", s.Jump.String(), 0)
		pl.count(s.Kind)
	case lagsCommits, lagsTime:
		lag := control.Lag{Commits: s.N}
		if s.Kind == lagsTime {
			lag = control.Lag{Duration: control.Duration(s.Jump)}
		}
		if err := pl.hub.SetLag(s.Entity, lag); err != nil {
			pl.wrong(err.Error())
			return
		}
		pl.count(s.Kind)
		pl.in(s.For, func() { pl.hub.EndLag(s.Entity) })
	case changes, disables:
		pl.alter(s)
	case purges:
		pl.steal(s, tasks, message.Done())
	case givesUp:
		pl.steal(s, tasks, message.Reject("Broken", "by somebody else"))
	case buries:
		pl.steal(s, events, message.Reject("Broken", "by somebody else"))
	default:
		pl.armFor(s, s.Target)
	}
}

// armFor arms a step's rule for its time.
func (pl *player) armFor(s step, slot string) (name string) {
	rule := *s.Rule
	pl.mu.Lock()
	pl.armed++
	rule.Name = fmt.Sprintf("f%d", pl.armed)
	pl.rules[rule.Name] = s.Kind
	if slot != "" {
		rule.Match.Client = pl.slots[slot].id
	}
	pl.mu.Unlock()
	if _, err := pl.hub.Arm(rule); err != nil {
		pl.wrong(fmt.Sprintf("%s: %v", s.Kind, err))
		return rule.Name
	}
	if !slices.Contains([]string{killsAt, killsLate, cancelsTaken, givesUpHeld}, s.Kind) { // those last until somebody comes there
		pl.in(s.For, func() { _ = pl.hub.Disarm(rule.Name) })
	}
	return rule.Name
}

// endProcess kills a process, or tells it to end, and has another come after a while.
// What is killed is cut off first: nothing of its clean-up reaches anybody.
func (pl *player) endProcess(r *running, generation int, how string, down time.Duration) {
	pl.mu.Lock()
	if r.down || r.generation != generation {
		pl.mu.Unlock()
		return
	}
	r.down = true
	stop := r.stop
	pl.h.gone[r.id] = true
	if how != terminates {
		pl.hub.Isolate(r.id)
	} else if r.paused {
		r.paused = false
		pl.hub.Rejoin(r.id)
	}
	pl.note("ended", r.id, how, 0)
	pl.mu.Unlock()
	pl.count(how)
	pl.aside.Go(stop)
	pl.in(down, func() {
		pl.mu.Lock()
		defer pl.mu.Unlock()
		if r.down {
			pl.begin(r)
		}
	})
}

// killAt kills a process when it comes to a place. What it asked for there is lost,
// or lands when its successor is at work already.
func (pl *player) killAt(r *running, s step) {
	pl.mu.Lock()
	generation := r.generation
	pl.mu.Unlock()
	name := pl.armFor(s, s.Target)
	pl.mu.Lock()
	delete(pl.rules, name) // what counts is the death
	pl.mu.Unlock()
	pl.aside.Go(func() {
		if _, err := pl.hub.WaitReached(pl.ctx, name); err != nil {
			return
		}
		pl.endProcess(r, generation, s.Kind, s.For)
		pl.in(s.For+30*second, func() { _ = pl.hub.Disarm(name) })
	})
}

// jumpAtCall has a process's clock jump while a call of it is not answered yet.
func (pl *player) jumpAtCall(r *running, s step) {
	name := pl.armFor(s, s.Target)
	pl.mu.Lock()
	delete(pl.rules, name) // what counts is the jump
	id, clock := r.id, pl.clocks[r.id]
	pl.mu.Unlock()
	pl.aside.Go(func() {
		if _, err := pl.hub.WaitReached(pl.ctx, name); err != nil {
			return
		}
		time.Sleep(second)
		clock.Add(int64(s.Jump))
		pl.note("clock jump", id, s.Jump.String(), 0)
		pl.count(s.Kind)
	})
}

func (pl *player) pause(r *running, d time.Duration) {
	pl.mu.Lock()
	if r.down || r.paused {
		pl.mu.Unlock()
		return
	}
	r.paused = true
	generation := r.generation
	pl.hub.Isolate(r.id)
	pl.h.faults[pauses]++
	pl.note("cut off", r.id, "", 0)
	pl.mu.Unlock()
	pl.in(d, func() {
		pl.mu.Lock()
		defer pl.mu.Unlock()
		if r.paused && r.generation == generation {
			r.paused = false
			pl.hub.Rejoin(r.id)
			pl.note("rejoined", r.id, "", 0)
		}
	})
}

// steal has somebody else receive for a while.
func (pl *player) steal(s step, from servicebus.Receiver, as message.Settlement) {
	last := pl.hub.Last()
	stop := pl.consume(from, as)
	pl.aside.Go(func() {
		time.Sleep(s.For)
		stop()
		for _, e := range pl.hub.Events(last) {
			if e.Kind == "settled" && e.Client == "test" {
				pl.count(s.Kind)
			}
		}
	})
}

// alter changes an entity, which detaches everybody from it; or disables it for a
// while, so that nobody may attach.
func (pl *player) alter(s step) {
	set := func(status admin.EntityStatus) {
		transport := inprocess.Transport(pl.broker.Admin())
		defer transport.Close()
		client, err := admin.NewClientFromConnectionString(connection, &admin.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: transport}})
		if err == nil {
			err = setStatus(client, s.Entity, status)
		}
		if err != nil {
			pl.wrong(fmt.Sprintf("%s %s: %v", s.Kind, s.Entity, err))
		}
	}
	pl.count(s.Kind)
	if s.Kind == changes {
		set(admin.EntityStatusActive)
		return
	}
	set(admin.EntityStatusDisabled)
	pl.aside.Go(func() {
		select {
		case <-time.After(s.For):
		case <-pl.ctx.Done():
		}
		set(admin.EntityStatusActive)
	})
}

// setStatus changes a queue or topic by the management API.
func setStatus(client *admin.Client, entity string, status admin.EntityStatus) error {
	if entity == message.Tasks {
		stands, err := client.GetQueue(context.Background(), entity, nil)
		if err != nil {
			return err
		}
		stands.Status = &status
		_, err = client.UpdateQueue(context.Background(), entity, stands.QueueProperties, nil)
		return err
	}
	stands, err := client.GetTopic(context.Background(), entity, nil)
	if err != nil {
		return err
	}
	stands.Status = &status
	_, err = client.UpdateTopic(context.Background(), entity, stands.TopicProperties, nil)
	return err
}

// orchestratorAPI is that of an orchestrator that runs, if any does.
func (pl *player) orchestratorAPI() http.Handler {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	for _, slot := range pl.h.plan.processes() {
		if r := pl.slots[slot]; r.api != nil && !r.down && !r.paused {
			return r.api
		}
	}
	return nil
}

// ask makes one request of an orchestrator; 0 is no answer.
func (pl *player) ask(method, path, body, etag string) int {
	api := pl.orchestratorAPI()
	if api == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), 40*second)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if etag != "" {
		r.Header.Set("If-Match", etag)
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w.Code
}

// request asks for an execution, and again while nobody has answered.
func (pl *player) request(s step) {
	for range 20 {
		code := pl.ask(http.MethodPost, "/v1/executions", s.Body, "")
		pl.note(s.Kind, s.Target, "", code)
		if code != 0 && code < 500 {
			return
		}
		time.Sleep(10 * second)
	}
}

func (pl *player) cancel(id string) {
	v, ok := pl.h.execution(id)
	if !ok {
		return
	}
	pl.note(cancels, id, "", pl.ask(http.MethodPost, "/v1/executions/"+id+"/cancel", `{"reason":"not needed"}`, v.doc.ETag))
}

// deliver sends a message as somebody else would. It may be lost, like any.
func (pl *player) deliver(entity string, m message.Message, err error) {
	if err != nil {
		pl.wrong(err.Error())
		return
	}
	sender, err := pl.bus.Sender(entity)
	if err != nil {
		pl.wrong(err.Error())
		return
	}
	_ = sender.Send(context.Background(), m)
}

// repeat sends what was sent before, or what nobody should have sent.
func (pl *player) repeat(s step) {
	if s.Kind == garbage {
		pl.deliver(message.Tasks, message.Message{ID: "junk", CorrelationID: "junk", Body: []byte(`{"specversion":"1.0"`)}, nil)
		pl.count(s.Kind)
		return
	}
	v, ok := pl.h.execution(s.Target)
	if !ok {
		return
	}
	var e struct {
		Payload            jsontext.Value
		Deadline, NotAfter time.Time
	}
	if err := json.Unmarshal(v.text, &e); err != nil {
		pl.wrong(err.Error())
		return
	}
	d := v.doc
	task := message.Task{
		ExecutionID: d.ID, Run: d.Run, Type: d.Type, Payload: e.Payload, ExecutionETag: d.ETag,
		Deadline: e.Deadline, NotAfter: e.NotAfter, Asserted: d.Asserted, Orchestration: d.Orchestration,
	}
	c := pl.h.claim(d.ID)
	pl.mu.Lock()
	pl.armed++
	copied := message.CopyMessageID(d.ID, fmt.Sprint("sim-", pl.armed))
	pl.mu.Unlock()
	switch {
	case s.Kind == copies:
		m, err := task.Message(copied, time.Now())
		pl.deliver(message.Tasks, m, err)
	case s.Kind == resends:
		m, err := task.Message(message.TaskMessageID(d.ID, d.Run), time.Now())
		pl.deliver(message.Tasks, m, err)
	case c == nil:
		return
	case s.Kind == forges:
		task.Payload = jsontext.Value(fmt.Sprintf(`{"for":%q,"forged":true}`, d.ID))
		m, err := task.Message(copied, time.Now())
		pl.note("forged", copied, "", 0)
		pl.deliver(message.Tasks, m, err)
	case c.doc.Status == "COMPLETED":
		m, err := message.Completed{
			ExecutionID: d.ID, Run: c.doc.Run, Fence: c.doc.Fence, ResultRef: c.doc.Result.Ref, ResultDigest: c.doc.Result.Digest, ExecutionETag: d.ETag,
			Orchestration: d.Orchestration,
		}.Message(time.Now())
		pl.deliver(message.TaskEvents, m, err)
	case c.doc.Status == "FAILED":
		m, err := message.Failed{
			ExecutionID: d.ID, Run: c.doc.Run, Fence: c.doc.Fence, Reason: c.doc.Failure.Reason, Outcome: c.doc.Failure.Outcome, ExecutionETag: d.ETag,
			Orchestration: d.Orchestration,
		}.Message(time.Now())
		pl.deliver(message.TaskEvents, m, err)
	default:
		return
	}
	pl.count(s.Kind)
}

func (pl *player) tellStock(e stockPlan) {
	var m message.Message
	var err error
	if e.Count {
		m, err = message.StockCount{EventKey: e.Key, SKU: e.SKU, Version: e.Version, Stock: e.Quantity}.Message(e.Transport, time.Now())
	} else {
		m, err = message.Reservation{EventKey: e.Key, SKU: e.SKU, ReservationID: e.Key, Version: e.Version, Quantity: e.Quantity}.Message(e.Transport, time.Now())
	}
	pl.deliver(message.Reservations, m, err)
}
