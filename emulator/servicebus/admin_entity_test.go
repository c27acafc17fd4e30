package servicebus_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// same compares what came with what was wanted.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	g, err1 := json.Marshal(got) // which follows pointers
	w, err2 := json.Marshal(want)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	t.Errorf("%s is\n%s\nand should be\n%s", what, g, w)
}

func TestAQueueIsCreatedReadChangedAndDeleted(t *testing.T) { // M1
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createQueue(a, "Dead", nil)
		given := admin.QueueProperties{
			LockDuration: new("PT45S"), MaxSizeInMegabytes: new(int32(2048)), RequiresDuplicateDetection: new(true), RequiresSession: new(true),
			DefaultMessageTimeToLive: new("P1DT2H"), DeadLetteringOnMessageExpiration: new(true), DuplicateDetectionHistoryTimeWindow: new("PT4H"),
			MaxDeliveryCount: new(int32(100)), EnableBatchedOperations: new(false), Status: new(admin.EntityStatusSendDisabled),
			AutoDeleteOnIdle: new("PT10M"), EnablePartitioning: new(false), ForwardDeadLetteredMessagesTo: new("sb://localhost/dead"),
			UserMetadata: new("<some> \"metadata\" & more"), MaxMessageSizeInKilobytes: new(int64(256)),
			AuthorizationRules: []admin.AuthorizationRule{{
				KeyName: new("key"), AccessRights: []admin.AccessRight{admin.AccessRightSend, admin.AccessRightListen}, PrimaryKey: new("p"), SecondaryKey: new("s"),
				CreatedTime: new(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), ModifiedTime: new(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
			}},
		}
		made, err := a.CreateQueue(w.ctx, "Orders/Late", &admin.CreateQueueOptions{Properties: &given})
		w.must(err)
		same(t, "the queue that was created", made, admin.CreateQueueResponse{QueueName: "Orders/Late", QueueProperties: given})
		got, err := a.GetQueue(w.ctx, "orders/LATE", nil)
		w.must(err)
		same(t, "the queue", got.QueueProperties, given)
		given.MaxDeliveryCount, given.Status, given.AuthorizationRules = new(int32(3)), new(admin.EntityStatusActive), nil
		changed, err := a.UpdateQueue(w.ctx, "orders/late", given, nil)
		w.must(err)
		page, err := a.NewListQueuesPager(nil).NextPage(w.ctx)
		w.must(err)
		same(t, "the queue in the list", page.Queues[1], admin.QueueItem{QueueName: "Orders/Late", QueueProperties: given})
		same(t, "the queue that was changed", changed.QueueProperties, given)
		_, err = a.DeleteQueue(w.ctx, "ORDERS/late", nil)
		w.must(err)
		if got, err := a.GetQueue(w.ctx, "Orders/Late", nil); got != nil || err != nil {
			t.Errorf("the deleted queue is %+v, %v", got, err)
		}
		_, err = a.DeleteQueue(w.ctx, "Orders/Late", nil)
		w.wantStatus(err, http.StatusNotFound)
	})
}

func TestAQueueThatIsNotDescribedHasTheServicesDefaults(t *testing.T) { // M1
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		made, err := a.CreateQueue(w.ctx, "q", nil)
		w.must(err)
		want := admin.QueueProperties{
			LockDuration: new("PT1M"), MaxSizeInMegabytes: new(int32(1024)), RequiresDuplicateDetection: new(false), RequiresSession: new(false),
			DefaultMessageTimeToLive: new("P10675199DT2H48M5.4775807S"), DeadLetteringOnMessageExpiration: new(false),
			DuplicateDetectionHistoryTimeWindow: new("PT10M"), MaxDeliveryCount: new(int32(10)), EnableBatchedOperations: new(true),
			Status: new(admin.EntityStatusActive), AutoDeleteOnIdle: new("P10675199DT2H48M5.4775807S"), EnablePartitioning: new(false),
			MaxMessageSizeInKilobytes: new(int64(256)),
		}
		same(t, "a queue by default", made.QueueProperties, want)
	})
}

func TestATopicIsCreatedReadChangedAndDeleted(t *testing.T) { // M1
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		given := admin.TopicProperties{
			MaxSizeInMegabytes: new(int32(5120)), RequiresDuplicateDetection: new(true), DefaultMessageTimeToLive: new("PT3M"),
			DuplicateDetectionHistoryTimeWindow: new("PT4M"), EnableBatchedOperations: new(true), Status: new(admin.EntityStatusDisabled),
			AutoDeleteOnIdle: new("PT7M"), EnablePartitioning: new(false), SupportOrdering: new(false), UserMetadata: new("meta"),
			MaxMessageSizeInKilobytes: new(int64(256)),
		}
		made, err := a.CreateTopic(w.ctx, "Events", &admin.CreateTopicOptions{Properties: &given})
		w.must(err)
		same(t, "the topic that was created", made, admin.CreateTopicResponse{TopicName: "Events", TopicProperties: given})
		given.Status = new(admin.EntityStatusActive)
		_, err = a.UpdateTopic(w.ctx, "events", given, nil)
		w.must(err)
		got, err := a.GetTopic(w.ctx, "EVENTS", nil)
		w.must(err)
		same(t, "the topic", got.TopicProperties, given)
		_, err = a.CreateSubscription(w.ctx, "Events", "s", nil)
		w.must(err)
		_, err = a.DeleteTopic(w.ctx, "events", nil)
		w.must(err)
		if got, err := a.GetTopic(w.ctx, "Events", nil); got != nil || err != nil {
			t.Errorf("the deleted topic is %+v, %v", got, err)
		}
		if got, err := a.GetSubscription(w.ctx, "Events", "s", nil); got != nil || err != nil {
			t.Errorf("the deleted topic's subscription is %+v, %v", got, err)
		}
	})
}

func TestASubscriptionIsCreatedReadChangedAndDeleted(t *testing.T) { // M1
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "Events")
		w.createQueue(a, "audit", nil)
		given := admin.SubscriptionProperties{
			LockDuration: new("PT5M"), RequiresSession: new(false), DefaultMessageTimeToLive: new("PT1S"), DeadLetteringOnMessageExpiration: new(true),
			EnableDeadLetteringOnFilterEvaluationExceptions: new(false), MaxDeliveryCount: new(int32(1)), Status: new(admin.EntityStatusActive), // this SDK sends none
			AutoDeleteOnIdle: new("PT5M"), ForwardTo: new("https://localhost/audit"), ForwardDeadLetteredMessagesTo: new("Events"),
			EnableBatchedOperations: new(false), UserMetadata: new("meta"),
		}
		made, err := a.CreateSubscription(w.ctx, "events", "Orchestrator", &admin.CreateSubscriptionOptions{Properties: &given})
		w.must(err)
		same(t, "the subscription that was created", made, admin.CreateSubscriptionResponse{SubscriptionName: "Orchestrator", TopicName: "events", SubscriptionProperties: given})
		given.ForwardTo, given.MaxDeliveryCount = nil, new(int32(2))
		changed, err := a.UpdateSubscription(w.ctx, "EVENTS", "ORCHESTRATOR", given, nil)
		w.must(err)
		got, err := a.GetSubscription(w.ctx, "events", "orchestrator", nil)
		w.must(err)
		for _, p := range []admin.SubscriptionProperties{changed.SubscriptionProperties, got.SubscriptionProperties} {
			same(t, "the subscription after its change", p, given)
		}
		_, err = a.DeleteSubscription(w.ctx, "events", "orchestrator", nil)
		w.must(err)
		if got, err := a.GetSubscription(w.ctx, "events", "orchestrator", nil); got != nil || err != nil {
			t.Errorf("the deleted subscription is %+v, %v", got, err)
		}
	})
}

func TestARuleIsCreatedReadChangedAndDeleted(t *testing.T) { // M1
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "events", "s")
		noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
		for name, r := range map[string]admin.RuleProperties{
			"true":  {Filter: &admin.TrueFilter{}},
			"false": {Filter: &admin.FalseFilter{}},
			"Sql": {
				Filter: &admin.SQLFilter{Expression: "a = @a AND b < @b", Parameters: map[string]any{"@a": "<x>", "@b": 1.5, "@c": int64(3), "@d": noon, "@e": true}},
				Action: &admin.SQLAction{Expression: "SET a = @a; REMOVE b", Parameters: map[string]any{"@a": "new"}},
			},
			"correlation": {Filter: &admin.CorrelationFilter{
				ContentType: new("t"), CorrelationID: new("c"), MessageID: new("m"), ReplyTo: new("r"), ReplyToSessionID: new("rs"), SessionID: new("s"),
				Subject: new("l"), To: new("to"), ApplicationProperties: map[string]any{"a": "b", "n": int64(1), "f": 0.5, "t": noon, "y": false},
			}},
		} {
			r.Name = name
			made, err := a.CreateRule(w.ctx, "events", "s", &admin.CreateRuleOptions{Name: &name, Filter: r.Filter, Action: r.Action})
			w.must(err)
			got, err := a.GetRule(w.ctx, "events", "s", strings.ToUpper(name), nil)
			w.must(err)
			same(t, "the rule that was created", made.RuleProperties, r)
			same(t, "the rule", got.RuleProperties, r)
			changed := admin.RuleProperties{Name: name, Filter: &admin.SQLFilter{Expression: "1=1"}}
			updated, err := a.UpdateRule(w.ctx, "events", "s", changed)
			w.must(err)
			same(t, "the rule that was changed", updated.RuleProperties, changed)
			_, err = a.DeleteRule(w.ctx, "events", "s", name, nil)
			w.must(err)
			if got, err := a.GetRule(w.ctx, "events", "s", name, nil); got != nil || err != nil {
				t.Errorf("the deleted rule is %+v, %v", got, err)
			}
		}
		got, err := a.GetRule(w.ctx, "events", "s", "$Default", nil)
		w.must(err)
		same(t, "the first rule", got.RuleProperties, admin.RuleProperties{Name: "$Default", Filter: &admin.TrueFilter{}})
	})
}

func TestWhatIsNotThereIsNotFoundAndWhatIsThereIsInTheWay(t *testing.T) { // M2
	const notFound, conflict = http.StatusNotFound, http.StatusConflict
	for name, row := range map[string]struct {
		call   func(w *world, a *admin.Client) (any, error)
		status int
	}{
		"delete no queue":        {func(w *world, a *admin.Client) (any, error) { return a.DeleteQueue(w.ctx, "none", nil) }, notFound},
		"delete no topic":        {func(w *world, a *admin.Client) (any, error) { return a.DeleteTopic(w.ctx, "none", nil) }, notFound},
		"delete no subscription": {func(w *world, a *admin.Client) (any, error) { return a.DeleteSubscription(w.ctx, "Topic", "none", nil) }, notFound},
		"delete no rule":         {func(w *world, a *admin.Client) (any, error) { return a.DeleteRule(w.ctx, "Topic", "Sub", "none", nil) }, notFound},
		"delete a dead letter queue": {func(w *world, a *admin.Client) (any, error) {
			return a.DeleteQueue(w.ctx, "queue/$DeadLetterQueue", nil)
		}, notFound},
		"update no queue": {func(w *world, a *admin.Client) (any, error) {
			return a.UpdateQueue(w.ctx, "none", admin.QueueProperties{}, nil)
		}, notFound},
		"update no topic": {func(w *world, a *admin.Client) (any, error) {
			return a.UpdateTopic(w.ctx, "none", admin.TopicProperties{}, nil)
		}, notFound},
		"update no subscription": {func(w *world, a *admin.Client) (any, error) {
			return a.UpdateSubscription(w.ctx, "Topic", "none", admin.SubscriptionProperties{}, nil)
		}, notFound},
		"update no rule": {func(w *world, a *admin.Client) (any, error) {
			return a.UpdateRule(w.ctx, "Topic", "Sub", admin.RuleProperties{Name: "none"})
		}, notFound},
		"update a dead letter queue": {func(w *world, a *admin.Client) (any, error) {
			return a.UpdateQueue(w.ctx, "queue/$DeadLetterQueue", admin.QueueProperties{}, nil)
		}, notFound},
		"subscribe to no topic": {func(w *world, a *admin.Client) (any, error) { return a.CreateSubscription(w.ctx, "none", "s", nil) }, notFound},
		"subscribe to a queue":  {func(w *world, a *admin.Client) (any, error) { return a.CreateSubscription(w.ctx, "Queue", "s", nil) }, notFound},
		"a rule of no subscription": {func(w *world, a *admin.Client) (any, error) {
			return a.CreateRule(w.ctx, "Topic", "none", &admin.CreateRuleOptions{})
		}, notFound},
		"list what no topic has": {func(w *world, a *admin.Client) (any, error) {
			return a.NewListSubscriptionsPager("none", nil).NextPage(w.ctx)
		}, notFound},
		"list what no subscription has": {func(w *world, a *admin.Client) (any, error) {
			return a.NewListRulesPager("Topic", "none", nil).NextPage(w.ctx)
		}, notFound},
		"a queue again":               {func(w *world, a *admin.Client) (any, error) { return a.CreateQueue(w.ctx, "QUEUE", nil) }, conflict},
		"a queue with a topic's name": {func(w *world, a *admin.Client) (any, error) { return a.CreateQueue(w.ctx, "topic", nil) }, conflict},
		"a topic again":               {func(w *world, a *admin.Client) (any, error) { return a.CreateTopic(w.ctx, "TOPIC", nil) }, conflict},
		"a topic with a queue's name": {func(w *world, a *admin.Client) (any, error) { return a.CreateTopic(w.ctx, "queue", nil) }, conflict},
		"a subscription again":        {func(w *world, a *admin.Client) (any, error) { return a.CreateSubscription(w.ctx, "topic", "SUB", nil) }, conflict},
		"a rule again": {func(w *world, a *admin.Client) (any, error) {
			return a.CreateRule(w.ctx, "topic", "sub", &admin.CreateRuleOptions{Name: new("$DEFAULT")})
		}, conflict},
		"a topic updated as a queue": {func(w *world, a *admin.Client) (any, error) {
			return a.UpdateQueue(w.ctx, "topic", admin.QueueProperties{}, nil)
		}, conflict},
		"a queue updated as a topic": {func(w *world, a *admin.Client) (any, error) {
			return a.UpdateTopic(w.ctx, "queue", admin.TopicProperties{}, nil)
		}, conflict},
	} {
		t.Run(name, func(t *testing.T) {
			managed(t, func(t *testing.T, w *world, a *admin.Client) {
				w.createQueue(a, "Queue", nil)
				w.createTopic(a, "Topic", "Sub")
				_, err := row.call(w, a)
				w.wantStatus(err, row.status)
			})
		})
	}
}
