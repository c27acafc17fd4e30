package servicebus_test

import (
	"context"
	"flag"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"oneeffect/emulator/control"
	"oneeffect/emulator/late"
	"oneeffect/emulator/servicebus"
	"oneeffect/emulator/servicebus/broker"
)

var kept = flag.Bool("kept", false, "run the tests of the dialect on a namespace that is kept in a folder")

// paper is a journal that keeps what it is told when the test says so.
type paper struct{ late.Answers }

func (*paper) Load() (*broker.Snapshot, error) { return &broker.Snapshot{}, nil }
func (*paper) Begin()                          {}
func (*paper) End()                            {}
func (*paper) Write(broker.Record)             {}

// onPaper runs a test on a journal of paper.
func onPaper(t *testing.T, test func(t *testing.T, w *world, p *paper)) {
	t.Helper()
	p := &paper{}
	c := usual
	c.Namespace.Journal = p
	inBubbleOf(t, c, func(t *testing.T, w *world) { test(t, w, p) })
}

// told starts a call and tells whether it has been answered once nothing can go on.
func (w *world) told(call func() error) func() bool {
	return late.Told(func() {
		if err := call(); err != nil {
			w.t.Error(err) // only the test's own goroutine may end it
		}
	})
}

func TestNothingIsToldBeforeItIsKept(t *testing.T) { // B16
	onPaper(t, func(t *testing.T, w *world, p *paper) {
		c := w.client("worker-1")
		s, r, a := w.sender(c, "tasks"), w.receiver(c, "tasks"), w.management()
		w.send("tasks", "a", "b", "c", "d", "e")
		next := func() *azservicebus.ReceivedMessage { return w.receive(r) }
		completed, abandoned, dead, deferred, renewed := next(), next(), next(), next(), next()
		numbers, err := s.ScheduleMessages(w.ctx, []*azservicebus.Message{message("later")}, time.Now().Add(time.Hour), nil)
		w.must(err)
		session, err := c.AcceptSessionForQueue(w.ctx, "steps", "s", nil)
		w.must(err)
		for what, do := range map[string]func() error{
			"send":      func() error { return s.SendMessage(w.ctx, message("f"), nil) },
			"complete":  func() error { return r.CompleteMessage(w.ctx, completed, nil) },
			"abandon":   func() error { return r.AbandonMessage(w.ctx, abandoned, nil) },
			"dead":      func() error { return r.DeadLetterMessage(w.ctx, dead, nil) },
			"defer":     func() error { return r.DeferMessage(w.ctx, deferred, nil) },
			"renew":     func() error { return r.RenewMessageLock(w.ctx, renewed, nil) },
			"cancel":    func() error { return s.CancelScheduledMessages(w.ctx, numbers, nil) },
			"set state": func() error { return session.SetSessionState(w.ctx, []byte("x"), nil) },
			"peek":      func() error { _, err := r.PeekMessages(w.ctx, 1, nil); return err },
			"schedule": func() error {
				_, err := s.ScheduleMessages(w.ctx, []*azservicebus.Message{message("g")}, time.Now().Add(time.Hour), nil)
				return err
			},
			"create a queue": func() error { _, err := a.CreateQueue(w.ctx, "made", nil); return err },
		} {
			p.Stop()
			isTold := w.told(do)
			if isTold() {
				t.Errorf("%s was answered before it was kept", what)
			}
			p.Start()
			if !isTold() {
				t.Errorf("%s was not answered when it was kept", what)
			}
		}
	})
}

func TestADeliveryWaitsUntilItsLockIsKept(t *testing.T) { // B16
	for name, mode := range map[string]azservicebus.ReceiveMode{"locked": azservicebus.ReceiveModePeekLock, "deleted": azservicebus.ReceiveModeReceiveAndDelete} {
		t.Run(name, func(t *testing.T) {
			onPaper(t, func(t *testing.T, w *world, p *paper) {
				w.send("tasks", "a", "b", "c")
				r, err := w.client("worker-1").NewReceiverForQueue("tasks", &azservicebus.ReceiverOptions{ReceiveMode: mode})
				w.must(err)
				_, err = r.PeekMessages(w.ctx, 1, nil) // for which it is attached
				w.must(err)
				p.Stop()
				var got []*azservicebus.ReceivedMessage
				isTold := late.Told(func() { got, err = r.ReceiveMessages(w.ctx, 3, nil) })
				if isTold() || w.count("delivered", "a") != 1 {
					t.Error("it was received before its lock was kept, or the engine has waited")
				}
				p.Start()
				if !isTold() || err != nil || len(got) != 3 || got[0].MessageID != "a" || got[2].MessageID != "c" {
					t.Errorf("received %d messages: %v", len(got), err)
				}
			})
		})
	}
}

func TestADrainWaitsForDeliveriesUntilTheyAreKept(t *testing.T) {
	onPaper(t, func(t *testing.T, w *world, p *paper) {
		w.send("tasks", "a", "b")
		c := w.plain()
		c.authorize()
		r, err := c.session().NewReceiver(w.ctx, "tasks", &amqp.ReceiverOptions{Credit: -1})
		w.must(err)
		p.Stop()
		w.must(r.IssueCredit(5))
		synctest.Wait()
		isTold := w.told(func() error { return r.DrainCredit(w.ctx, nil) })
		if isTold() {
			t.Error("the drain was answered before the messages")
		}
		p.Start()
		if !isTold() {
			t.Error("the drain was not answered")
		}
		w.must(r.IssueCredit(2)) // go-amqp takes all credit back when it drains
		for _, id := range []string{"a", "b"} {
			m, err := r.Receive(w.ctx, nil)
			w.must(err)
			if m.Properties.MessageID != id {
				t.Errorf("received %v, want %s", m.Properties.MessageID, id)
			}
		}
	})
}

func TestWhoWaitsForTheJournalKeepsNobodyElse(t *testing.T) {
	onPaper(t, func(t *testing.T, w *world, p *paper) {
		c := w.client("sender")
		s := w.sender(c, "tasks")
		w.must(s.SendMessage(w.ctx, message("first"), nil))
		p.Stop()
		var all []func() bool
		for _, id := range []string{"a", "b", "c"} {
			all = append(all, w.told(func() error { return s.SendMessage(w.ctx, message(id), nil) }))
		}
		synctest.Wait()
		for _, id := range []string{"a", "b", "c"} {
			if w.count("enqueued", id) != 1 {
				t.Errorf("%s waits for the answers of others, on the same link", id)
			}
		}
		other := w.client("worker-1")
		attached := w.told(func() error { // a new connection, and a link of it
			_, err := other.AcceptSessionForQueue(w.ctx, "steps", "s", nil)
			return err
		})
		if attached() { // a token is put by a request, whose answer waits like any other
			t.Error("an answer was given")
		}
		p.Start()
		for _, isTold := range append(all, attached) {
			if !isTold() {
				t.Error("an answer is missing")
			}
		}
	})
}

func TestAHeldOperationIsKeptBeforeItIsHeldAfterwards(t *testing.T) {
	onPaper(t, func(t *testing.T, w *world, p *paper) {
		s := w.sender(w.client("sender"), "tasks")
		w.must(s.SendMessage(w.ctx, message("first"), nil))
		rule, err := w.hub.Arm(control.Rule{Match: control.Match{Operation: "send", Key: "a"}, When: "after", Do: "hold"})
		w.must(err)
		p.Stop()
		isTold := w.told(func() error { return s.SendMessage(w.ctx, message("a"), nil) })
		isReached := w.told(func() error { _, err := w.hub.WaitReached(w.ctx, rule); return err })
		if isReached() {
			t.Error("what is not kept has come to a rule that holds what has happened")
		}
		p.Start()
		if !isReached() || isTold() {
			t.Error("the rule does not hold it")
		}
		w.must(w.hub.Release(rule, control.Release{Action: "go"}))
		if !isTold() {
			t.Error("there is no answer")
		}
	})
}

// again ends the server and makes it anew. Clients find the new one, as they would at the same address.
func (w *world) again(c servicebus.Config) {
	w.t.Helper()
	w.must(w.server.Close())
	c.Keys, c.TokenCheck = keys, checkToken
	server, err := servicebus.New(w.hub, c)
	w.must(err)
	w.server = server
	w.t.Cleanup(func() {
		if err := server.Close(); err != nil {
			w.t.Error(err)
		}
	})
}

func TestEverythingThatTheSDKCanSeeIsAsItWas(t *testing.T) { // B16
	config := usual
	config.Data = t.TempDir()
	full := &azservicebus.Message{
		MessageID: new("full"), Body: []byte("body"), ContentType: new("text/plain"), CorrelationID: new("c"), Subject: new("s"),
		ReplyTo: new("r"), ReplyToSessionID: new("rs"), To: new("to"), PartitionKey: new("p"), TimeToLive: new(30 * time.Minute),
		ApplicationProperties: map[string]any{"text": "x", "number": int64(7), "float": 1.5, "flag": true, "when": time.Unix(1_000_000, 0).UTC(), "raw": []byte{1, 2}},
	}
	rule := &admin.CreateRuleOptions{Name: new("vip"), Filter: &admin.SQLFilter{Expression: "grade = @g", Parameters: map[string]any{"@g": "vip"}},
		Action: &admin.SQLAction{Expression: "SET seen = 1"}}
	inBubbleOf(t, config, func(t *testing.T, w *world) {
		c, a := w.client("worker-1"), w.management()
		w.must(w.sender(c, "tasks").SendMessage(w.ctx, full, nil))
		r := w.receiver(c, "tasks")
		first := w.receive(r)
		w.must(r.AbandonMessage(w.ctx, first, &azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{"why": "later", "n": int32(3)}}))
		first = w.receive(r)
		w.send("tasks", "bad")
		bad := w.receive(r)
		w.must(r.DeadLetterMessage(w.ctx, bad, &azservicebus.DeadLetterOptions{Reason: new("bad"), ErrorDescription: new("very")}))
		dead := w.receive(w.deadLetters(c, "tasks"))
		_, err := a.CreateQueue(w.ctx, "made", &admin.CreateQueueOptions{Properties: &admin.QueueProperties{
			UserMetadata: new("mine"), LockDuration: new("PT10S"),
			AuthorizationRules: []admin.AuthorizationRule{{KeyName: new("k"), AccessRights: []admin.AccessRight{admin.AccessRightSend}}},
		}})
		w.must(err)
		description, err := a.GetQueue(w.ctx, "made", nil)
		w.must(err)
		_, err = a.CreateSubscription(w.ctx, "task-events", "vips", nil)
		w.must(err)
		_, err = a.CreateRule(w.ctx, "task-events", "vips", rule)
		w.must(err)
		_, err = a.DeleteRule(w.ctx, "task-events", "vips", "$Default", nil)
		w.must(err)
		rules := w.rules(a)

		w.again(config)
		c, a = w.client("worker-2"), w.management()
		r = w.receiver(c, "tasks")
		peeked, err := r.PeekMessages(w.ctx, 10, nil)
		w.must(err)
		if len(peeked) != 1 || !reflect.DeepEqual(peeked[0].Message(), first.Message()) || !peeked[0].EnqueuedTime.Equal(*first.EnqueuedTime) ||
			*peeked[0].SequenceNumber != *first.SequenceNumber || peeked[0].DeliveryCount != first.DeliveryCount {
			t.Errorf("peeked %d messages: %+v\nwant %+v", len(peeked), peeked, first)
		}
		first.RawAMQPMessage = nil // or the SDK would settle it on the link that is gone
		w.must(r.RenewMessageLock(w.ctx, first, nil))
		w.must(r.CompleteMessage(w.ctx, first, nil))
		graves, err := w.deadLetters(c, "tasks").PeekMessages(w.ctx, 10, nil)
		w.must(err)
		if len(graves) != 1 || *graves[0].DeadLetterReason != "bad" || *graves[0].DeadLetterErrorDescription != "very" || *graves[0].DeadLetterSource != *dead.DeadLetterSource {
			t.Errorf("%d dead letters: %+v", len(graves), graves)
		}
		again, err := a.GetQueue(w.ctx, "made", nil)
		w.must(err)
		if !reflect.DeepEqual(again, description) {
			t.Errorf("the queue is described as\n%+v\nand was as\n%+v", again, description)
		}
		if got := w.rules(a); !reflect.DeepEqual(got, rules) {
			t.Errorf("the rules are\n%+v\nand were\n%+v", got, rules)
		}
		vip := message("vip")
		vip.ApplicationProperties = map[string]any{"grade": "vip"}
		s := w.sender(c, "task-events")
		w.must(s.SendMessage(w.ctx, vip, nil))
		w.must(s.SendMessage(w.ctx, message("other"), nil))
		vips, err := c.NewReceiverForSubscription("task-events", "vips", nil)
		w.must(err)
		got := w.receive(vips)
		if got.MessageID != "vip" || got.ApplicationProperties["seen"] != int64(1) {
			t.Errorf("received %s with %v", got.MessageID, got.ApplicationProperties)
		}
		w.receiveNothing(vips)
	})
}

func (w *world) rules(a *admin.Client) (rules []admin.RuleProperties) {
	w.t.Helper()
	for p := a.NewListRulesPager("task-events", "vips", nil); p.More(); {
		page, err := p.NextPage(context.Background())
		w.must(err)
		rules = append(rules, page.Rules...)
	}
	return rules
}
