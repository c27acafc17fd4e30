package servicebus_test

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"
)

func TestAChangeEndsTheLinksOfWhatIsChangedAndOfNothingElse(t *testing.T) { // D4, M10
	type ends struct{ toTopic, toFirst, toSecond bool }
	for name, row := range map[string]struct {
		change func(w *world, a *admin.Client) (any, error)
		want   ends
	}{
		"the topic": {func(w *world, a *admin.Client) (any, error) {
			return a.UpdateTopic(w.ctx, "t", admin.TopicProperties{DefaultMessageTimeToLive: new("PT1H")}, nil)
		}, ends{toTopic: true}},
		"the topic, to what it is": {func(w *world, a *admin.Client) (any, error) {
			return a.UpdateTopic(w.ctx, "t", admin.TopicProperties{}, nil)
		}, ends{}},
		"a subscription": {func(w *world, a *admin.Client) (any, error) {
			return a.UpdateSubscription(w.ctx, "t", "first", admin.SubscriptionProperties{LockDuration: new("PT2M")}, nil)
		}, ends{toFirst: true}},
		"a subscription, to what it is": {func(w *world, a *admin.Client) (any, error) {
			return a.UpdateSubscription(w.ctx, "t", "first", admin.SubscriptionProperties{}, nil)
		}, ends{}},
		"a rule": {func(w *world, a *admin.Client) (any, error) {
			return a.UpdateRule(w.ctx, "t", "first", admin.RuleProperties{Name: "$Default", Filter: &admin.SQLFilter{Expression: "1=1"}})
		}, ends{}},
		"a new subscription":       {func(w *world, a *admin.Client) (any, error) { return a.CreateSubscription(w.ctx, "t", "third", nil) }, ends{}},
		"no subscription any more": {func(w *world, a *admin.Client) (any, error) { return a.DeleteSubscription(w.ctx, "t", "second", nil) }, ends{toSecond: true}},
		"no topic any more":        {func(w *world, a *admin.Client) (any, error) { return a.DeleteTopic(w.ctx, "t", nil) }, ends{true, true, true}},
		"a refused change": {func(w *world, a *admin.Client) (any, error) {
			return w.refused(a.UpdateTopic(w.ctx, "t", admin.TopicProperties{MaxSizeInMegabytes: new(int32(1))}, nil))
		}, ends{}},
		"an entity beside the topic": {func(w *world, a *admin.Client) (any, error) { return a.CreateQueue(w.ctx, "q", nil) }, ends{}},
	} {
		t.Run(name, func(t *testing.T) {
			managed(t, func(t *testing.T, w *world, a *admin.Client) {
				w.createTopic(a, "t", "first", "second")
				p := w.plain()
				p.authorize()
				sender, err := p.session().NewSender(w.ctx, "t", nil)
				w.must(err)
				receivers := make([]*amqp.Receiver, 2)
				for i, name := range []string{"first", "second"} {
					receivers[i], err = p.session().NewReceiver(w.ctx, "t/Subscriptions/"+name, nil)
					w.must(err)
				}
				_, err = row.change(w, a)
				w.must(err)
				err = sender.Send(w.ctx, amqp.NewMessage([]byte("x")), nil)
				if row.want.toTopic {
					w.wantDetached(err, "publisher", "Message sender was closed")
					if !row.want.toFirst {
						w.send("t", "x")
					}
				} else {
					w.must(err)
				}
				for i, gone := range []bool{row.want.toFirst, row.want.toSecond} {
					_, err := receivers[i].Receive(w.ctx, nil)
					if gone {
						w.wantDetached(err, "consumer", "because entity has been deleted, updated or unexpectedly reloaded.")
					} else {
						w.must(err)
					}
				}
			})
		})
	}
}

// refused turns an error that must be into none.
func (w *world) refused(got any, err error) (any, error) {
	w.t.Helper()
	if err == nil {
		w.t.Error("a change that must be refused was not")
	}
	return got, nil
}

// What is attached to is looked at when the link is attached, however long a rule has held that.
func TestALinkThatWasHeldIsNotAttachedToWhatIsGone(t *testing.T) { // D4
	for _, row := range []struct {
		name   string
		attach func(w *world, s *amqp.Session) error
		change func(w *world, a *admin.Client) error
		want   amqp.ErrCond
	}{
		{"a sender", attachSender, deleteTasks, amqp.ErrCondNotFound},
		{"a receiver", attachReceiver, deleteTasks, amqp.ErrCondNotFound},
		{"a receiver from what is made anew", attachReceiver, func(w *world, a *admin.Client) error {
			if err := deleteTasks(w, a); err != nil {
				return err
			}
			_, err := a.CreateQueue(w.ctx, "tasks", nil)
			return err
		}, amqp.ErrCondDetachForced},
		{"a receiver from what is disabled", attachReceiver, func(w *world, a *admin.Client) error {
			_, err := a.UpdateQueue(w.ctx, "tasks", admin.QueueProperties{Status: new(admin.EntityStatusReceiveDisabled)}, nil)
			return err
		}, "com.microsoft:entity-disabled"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				p := w.plain()
				p.authorize()
				s := p.session()
				w.arm("held", "attach", nil)
				attached := async(func() error { return row.attach(w, s) })
				w.reached("held")
				w.must(row.change(w, w.management()))
				w.release("held", "go")
				w.wantCondition(<-attached, row.want, "")
			})
		})
	}
}

func attachSender(w *world, s *amqp.Session) error {
	_, err := s.NewSender(w.ctx, "tasks", nil)
	return err
}

func attachReceiver(w *world, s *amqp.Session) error {
	_, err := s.NewReceiver(w.ctx, "tasks", nil)
	return err
}

func deleteTasks(w *world, a *admin.Client) error {
	_, err := a.DeleteQueue(w.ctx, "tasks", nil)
	return err
}
