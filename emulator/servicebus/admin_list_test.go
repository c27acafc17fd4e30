package servicebus_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// pages reads a list to its end and returns the names of each page that has any.
func pages[T any](w *world, p *runtime.Pager[T], names func(T) []string) []string {
	w.t.Helper()
	var all []string
	for p.More() {
		page, err := p.NextPage(w.ctx)
		w.must(err)
		if n := names(page); len(n) > 0 {
			all = append(all, strings.Join(n, " "))
		}
	}
	return all
}

func namesOf[T any](items []T, name func(T) string) []string {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = name(item)
	}
	return names
}

func TestListsComeInPagesByName(t *testing.T) { // M7
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		for _, name := range []string{"d", "B", "a", "E", "c"} {
			w.createQueue(a, "q"+name, nil)
			w.createTopic(a, "t"+name)
		}
		for _, name := range []string{"d", "B", "a", "E", "c"} {
			_, err := a.CreateSubscription(w.ctx, "ta", "s"+name, nil)
			w.must(err)
			_, err = a.CreateRule(w.ctx, "TA", "SD", &admin.CreateRuleOptions{Name: new("r" + name)})
			w.must(err)
		}
		queues := func(r admin.ListQueuesResponse) []string {
			return namesOf(r.Queues, func(q admin.QueueItem) string { return q.QueueName })
		}
		topics := func(r admin.ListTopicsResponse) []string {
			return namesOf(r.Topics, func(t admin.TopicItem) string { return t.TopicName })
		}
		subscriptions := func(r admin.ListSubscriptionsResponse) []string {
			return namesOf(r.Subscriptions, func(s admin.SubscriptionPropertiesItem) string { return s.SubscriptionName })
		}
		rules := func(r admin.ListRulesResponse) []string {
			return namesOf(r.Rules, func(r admin.RuleProperties) string { return r.Name })
		}
		const two = 2
		for what, row := range map[string]struct{ got, want []string }{
			"queues":                {pages(w, a.NewListQueuesPager(&admin.ListQueuesOptions{MaxPageSize: two}), queues), []string{"qa qB", "qc qd", "qE"}},
			"queues, five at once":  {pages(w, a.NewListQueuesPager(&admin.ListQueuesOptions{MaxPageSize: 5}), queues), []string{"qa qB qc qd qE"}},
			"all queues":            {pages(w, a.NewListQueuesPager(nil), queues), []string{"qa qB qc qd qE"}},
			"topics":                {pages(w, a.NewListTopicsPager(&admin.ListTopicsOptions{MaxPageSize: two}), topics), []string{"ta tB", "tc td", "tE"}},
			"subscriptions":         {pages(w, a.NewListSubscriptionsPager("ta", &admin.ListSubscriptionsOptions{MaxPageSize: two}), subscriptions), []string{"sa sB", "sc sd", "sE"}},
			"subscriptions of none": {pages(w, a.NewListSubscriptionsPager("tc", nil), subscriptions), nil},
			"rules":                 {pages(w, a.NewListRulesPager("ta", "sd", &admin.ListRulesOptions{MaxPageSize: two}), rules), []string{"$Default ra", "rB rc", "rd rE"}},
		} {
			if !slices.Equal(row.got, row.want) {
				t.Errorf("%s come as %q, want %q", what, row.got, row.want)
			}
		}
	})
}

func TestAQueueSaysWhatIsInIt(t *testing.T) { // M9
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createQueue(a, "q", nil)
		created := w.hub.Now()
		wantCounts := func(what string, want admin.QueueRuntimeProperties) {
			t.Helper()
			got, err := a.GetQueueRuntimeProperties(w.ctx, "q", nil)
			w.must(err)
			if (got.SizeInBytes > 0) != (want.TotalMessageCount > 0) {
				t.Errorf("%s: %d messages are %d bytes", what, want.TotalMessageCount, got.SizeInBytes)
			}
			want.SizeInBytes, want.CreatedAt, want.UpdatedAt = got.SizeInBytes, created, created
			same(t, what, got.QueueRuntimeProperties, want)
			page, err := a.NewListQueuesRuntimePropertiesPager(nil).NextPage(w.ctx)
			w.must(err)
			same(t, what+" in the list", page.QueueRuntimeProperties[0].QueueRuntimeProperties, want)
		}
		wantCounts("a new queue", admin.QueueRuntimeProperties{})

		c := w.client("worker-1")
		s, r := w.sender(c, "q"), w.receiver(c, "q")
		for _, id := range []string{"locked", "deferred", "dead", "active"} {
			w.must(s.SendMessage(w.ctx, message(id), nil))
		}
		_, err := s.ScheduleMessages(w.ctx, []*azservicebus.Message{message("later")}, w.hub.Now().Add(time.Hour), nil)
		w.must(err)
		w.receive(r)
		w.must(r.DeferMessage(w.ctx, w.receive(r), nil))
		w.must(r.DeadLetterMessage(w.ctx, w.receive(r), nil))
		used := w.hub.Now()
		time.Sleep(time.Second)
		wantCounts("a queue in use", admin.QueueRuntimeProperties{
			TotalMessageCount: 5, ActiveMessageCount: 3, DeadLetterMessageCount: 1, ScheduledMessageCount: 1, AccessedAt: used,
		})
	})
}

func TestATopicAndItsSubscriptionsSayWhatIsInThem(t *testing.T) { // M9
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "t", "all")
		w.createSubscription(a, "t", "none", &admin.FalseFilter{}, nil)
		w.createSubscription(a, "t", "some", &admin.CorrelationFilter{MessageID: new("a")}, nil)
		created := w.hub.Now()
		w.send("t", "a", "b")
		c := w.client("sender")
		_, err := w.sender(c, "t").ScheduleMessages(w.ctx, []*azservicebus.Message{message("later")}, w.hub.Now().Add(time.Hour), nil)
		w.must(err)
		used := w.hub.Now()

		got, err := a.GetTopicRuntimeProperties(w.ctx, "t", nil)
		w.must(err)
		want := admin.TopicRuntimeProperties{
			SizeInBytes: got.SizeInBytes, CreatedAt: created, UpdatedAt: created, AccessedAt: used,
			SubscriptionCount: 3, SQLFilterCount: 2, CorrelationFilterCount: 1, ScheduledMessageCount: 1,
		}
		same(t, "the topic", got.TopicRuntimeProperties, want)
		if got.SizeInBytes == 0 {
			t.Error("a topic with messages has no size")
		}
		for name, count := range map[string]int32{"all": 2, "none": 0, "some": 1} {
			got, err := a.GetSubscriptionRuntimeProperties(w.ctx, "T", name, nil)
			w.must(err)
			if got.ActiveMessageCount != count || got.TotalMessageCount != int64(count) || got.DeadLetterMessageCount != 0 {
				t.Errorf("%s has %+v, want %d messages", name, got.SubscriptionRuntimeProperties, count)
			}
		}
		time.Sleep(time.Hour)
		got, err = a.GetTopicRuntimeProperties(w.ctx, "t", nil)
		w.must(err)
		all, err := a.GetSubscriptionRuntimeProperties(w.ctx, "t", "all", nil)
		w.must(err)
		if got.ScheduledMessageCount != 0 || all.ActiveMessageCount != 3 {
			t.Errorf("an hour later %d are scheduled and %d there, want 0 and 3", got.ScheduledMessageCount, all.ActiveMessageCount)
		}
	})
}

func TestTimesFollowTheClockOfTheServer(t *testing.T) { // M9
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.hub.Jump(time.Hour) // less than the life of a token, which the client makes by its own clock
		created := w.hub.Now()
		w.createQueue(a, "q", nil)
		time.Sleep(time.Minute)
		w.must(w.update(a, "q", 10)) // as it is already: no update
		got, err := a.GetQueueRuntimeProperties(w.ctx, "q", nil)
		w.must(err)
		if !got.CreatedAt.Equal(created) || !got.UpdatedAt.Equal(created) {
			t.Errorf("created %v, updated %v; want %v", got.CreatedAt, got.UpdatedAt, created)
		}
		w.must(w.update(a, "q", 11))
		got, err = a.GetQueueRuntimeProperties(w.ctx, "q", nil)
		w.must(err)
		if !got.CreatedAt.Equal(created) || !got.UpdatedAt.Equal(created.Add(time.Minute)) {
			t.Errorf("created %v, updated %v; want a minute between them", got.CreatedAt, got.UpdatedAt)
		}
	})
}
