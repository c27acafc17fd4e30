package servicebus_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/emulator/servicebus"
	"oneeffect/emulator/servicebus/broker"
)

// filtered is a topic with subscriptions that have rules.
const filtered = `{
  "UserConfig": {
    "Namespaces": [ {
      "Name": "sbemulatorns",
      "Queues": [],
      "Topics": [ {
        "Name": "paints",
        "Subscriptions": [
          { "Name": "all" },
          { "Name": "red", "Rules": [
            { "Name": "r", "Properties": { "FilterType": "Correlation", "CorrelationFilter": { "Label": "red" } } }
          ] },
          { "Name": "large", "Rules": [
            { "Name": "r", "Properties": { "FilterType": "Sql", "SqlFilter": { "SqlExpression": "litres > 10" },
              "Action": { "SqlExpression": "SET priority = 'high'" } } }
          ] }
        ]
      } ]
    } ],
    "Logging": { "Type": "File" }
  }
}`

func inBubbleOfPaints(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	c, err := servicebus.ReadConfig(strings.NewReader(filtered))
	if err != nil {
		t.Fatal(err)
	}
	inBubbleOf(t, c, func(t *testing.T, w *world) {
		s := w.sender(w.client("shop"), "paints")
		for id, litres := range map[string]int32{"red": 20, "Red": 5, "blue": 11} {
			m := message(id)
			m.Subject, m.ApplicationProperties = &id, map[string]any{"litres": litres}
			w.must(s.SendMessage(w.ctx, m, nil))
		}
		unmeasured := message("unmeasured") // a property that is missing is unknown, not false
		w.must(s.SendMessage(w.ctx, unmeasured, nil))
		test(t, w)
	})
}

// inSubscription is everything in a subscription by id.
func (w *world) inSubscription(topic, name string) map[string]*azservicebus.ReceivedMessage {
	w.t.Helper()
	r, err := w.client("reader").NewReceiverForSubscription(topic, name, nil)
	w.must(err)
	found := make(map[string]*azservicebus.ReceivedMessage)
	for _, m := range w.peek(r) {
		found[m.MessageID] = m
	}
	return found
}

func TestASubscriptionGetsWhatItsRulesMatch(t *testing.T) { // B10
	inBubbleOfPaints(t, func(t *testing.T, w *world) {
		for name, want := range map[string][]string{
			"all": {"red", "Red", "blue", "unmeasured"}, "red": {"red"}, "large": {"red", "blue"},
		} {
			got := w.inSubscription("paints", name)
			if len(got) != len(want) {
				t.Errorf("%s got %d messages, want %q", name, len(got), want)
			}
			for _, id := range want {
				if got[id] == nil {
					t.Errorf("%s did not get %s", name, id)
				}
			}
		}
	})
}

func TestATopicDropsDuplicatesBeforeItFansOut(t *testing.T) { // B7, B10
	c := servicebus.Config{Namespace: broker.Config{Topics: []broker.TopicConfig{{
		Name: "news", DetectDuplicates: true, Subscriptions: []broker.SubscriptionConfig{{Name: "one"}, {Name: "two"}},
	}}}}
	inBubbleOf(t, c, func(t *testing.T, w *world) {
		w.send("news", "a", "b", "a")
		c := w.client("reader")
		for _, name := range []string{"one", "two"} {
			r, err := c.NewReceiverForSubscription("news", name, nil)
			w.must(err)
			if got := w.peek(r); len(got) != 2 || got[0].MessageID != "a" || got[1].MessageID != "b" {
				t.Errorf("%s got %d messages, want a and b", name, len(got))
			}
		}
	})
}

func TestTheActionOfARuleChangesItsCopy(t *testing.T) { // B10
	inBubbleOfPaints(t, func(t *testing.T, w *world) {
		if m := w.inSubscription("paints", "large")["blue"]; m == nil || m.ApplicationProperties["priority"] != "high" {
			t.Errorf("the copy of the rule is %+v", m)
		}
		if m := w.inSubscription("paints", "all")["blue"]; m == nil || m.ApplicationProperties["priority"] != nil {
			t.Errorf("the copy of another subscription is %+v", m)
		}
	})
}

func TestAForwardedMessageRemembersItsFirstNumber(t *testing.T) { // B15
	c := servicebus.Config{Namespace: broker.Config{Queues: []broker.QueueConfig{{Name: "in", ForwardTo: "out"}, {Name: "out"}}}}
	inBubbleOf(t, c, func(t *testing.T, w *world) {
		w.send("out", "a", "b")
		w.send("in", "c")
		r := w.receiver(w.client("worker-1"), "out")
		w.receive(r)
		w.receive(r)
		m := w.receive(r)
		if m.MessageID != "c" || *m.SequenceNumber != 3 || m.EnqueuedSequenceNumber == nil || *m.EnqueuedSequenceNumber != 1 {
			t.Errorf("forwarded as %+v", m)
		}
	})
}

func TestAMessageIsForwardedFourTimesAtMost(t *testing.T) { // B15
	var c servicebus.Config
	for n := range 6 {
		q := broker.QueueConfig{Name: fmt.Sprint("q", n)}
		if n < 5 {
			q.ForwardTo = fmt.Sprint("q", n+1)
		}
		c.Namespace.Queues = append(c.Namespace.Queues, q)
	}
	inBubbleOf(t, c, func(t *testing.T, w *world) {
		w.send("q1", "four times")
		w.send("q0", "five times")
		c := w.client("worker-1")
		r := w.receiver(c, "q5")
		m := w.receive(r)
		if m.MessageID != "four times" {
			t.Errorf("received %s", m.MessageID)
		}
		w.must(r.CompleteMessage(w.ctx, m, nil)) // or it comes again at the end of the minute
		w.receiveNothing(r)
		dead := w.receive(w.deadLetters(c, "q4"))
		if dead.MessageID != "five times" || *dead.DeadLetterReason != "MaxTransferHopCountExceeded" {
			t.Errorf("dead letter %+v", dead)
		}
	})
}

func TestDeadLettersAreForwardedWithTheirReason(t *testing.T) { // B15
	c := servicebus.Config{Namespace: broker.Config{Queues: []broker.QueueConfig{
		{Name: "work", MaxDelivery: 1, ForwardDeadLettersTo: "graves"}, {Name: "graves"},
	}}}
	inBubbleOf(t, c, func(t *testing.T, w *world) {
		w.send("work", "a")
		c := w.client("worker-1")
		r := w.receiver(c, "work")
		w.must(r.AbandonMessage(w.ctx, w.receive(r), nil))
		m := w.receive(w.receiver(c, "graves"))
		if *m.DeadLetterReason != "MaxDeliveryCountExceeded" || *m.DeadLetterSource != "work" || m.DeliveryCount != 1 {
			t.Errorf("forwarded as %+v", m)
		}
		if left := w.peek(w.deadLetters(c, "work")); len(left) != 0 {
			t.Errorf("%d dead letters are left", len(left))
		}
	})
}
