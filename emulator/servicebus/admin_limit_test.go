package servicebus_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"oneeffect/emulator/servicebus"
	"oneeffect/emulator/servicebus/broker"
)

func TestTheServicesLimitsOfAQueueHold(t *testing.T) { // M3
	type q = admin.QueueProperties
	keys := make([]admin.AuthorizationRule, 13)
	for i := range keys {
		keys[i] = admin.AuthorizationRule{KeyName: new(strings.Repeat("k", i+1)), AccessRights: []admin.AccessRight{admin.AccessRightSend}}
	}
	for says, p := range map[string]q{
		"LockDuration must be at most PT5M, is PT5M1S":                                               {LockDuration: new("PT5M1S")},
		"LockDuration must be at least PT5S, is PT4.9S":                                              {LockDuration: new("PT4.9S")},
		"LockDuration must be an ISO 8601 duration such as PT1M":                                     {LockDuration: new("5m")},
		"LockDuration must be at least a millisecond":                                                {LockDuration: new("-PT5M")},
		"MaxDeliveryCount must be from 1 to 2000, is 0":                                              {MaxDeliveryCount: new(int32(0))},
		"MaxDeliveryCount must be from 1 to 2000, is 2001":                                           {MaxDeliveryCount: new(int32(2001))},
		"DefaultMessageTimeToLive must be at least PT1S, is PT0.5S":                                  {DefaultMessageTimeToLive: new("PT0.5S")},
		"DefaultMessageTimeToLive must not use years or months":                                      {DefaultMessageTimeToLive: new("P1M")},
		"DuplicateDetectionHistoryTimeWindow must be at least PT20S, is PT19S":                       {DuplicateDetectionHistoryTimeWindow: new("PT19S")},
		"DuplicateDetectionHistoryTimeWindow must be at most P7D, is P7DT1S":                         {DuplicateDetectionHistoryTimeWindow: new("P7DT1S")},
		"AutoDeleteOnIdle must be at least PT5M, is PT4M59S":                                         {AutoDeleteOnIdle: new("PT4M59S")},
		"MaxSizeInMegabytes must be one of [1024 2048 3072 4096 5120], is 1000":                      {MaxSizeInMegabytes: new(int32(1000))},
		"MaxSizeInMegabytes must be one of [1024 2048 3072 4096 5120], is 10240":                     {MaxSizeInMegabytes: new(int32(10240))},
		"MaxMessageSizeInKilobytes can be set in the Premium tier only, is 1024":                     {MaxMessageSizeInKilobytes: new(int64(1024))},
		"UserMetadata must have at most 1024 characters, has 1025":                                   {UserMetadata: new(strings.Repeat("ä", 1025))},
		`Status must be one of [Active Disabled SendDisabled ReceiveDisabled], is "Sleeping"`:        {Status: new(admin.EntityStatus("Sleeping"))},
		`messages cannot be forwarded to "none": there is no such queue or topic`:                    {ForwardTo: new("none")},
		`messages cannot be forwarded to "x/$DeadLetterQueue": there is no such queue or topic`:      {ForwardDeadLetteredMessagesTo: new("sb://localhost/x/$DeadLetterQueue")},
		`messages of "q" cannot be forwarded to itself`:                                              {ForwardTo: new("Q")},
		"messages of an entity that requires sessions cannot be forwarded":                           {ForwardTo: new("x"), RequiresSession: new(true)},
		"at most 12 authorization rules are allowed, got 13":                                         {AuthorizationRules: keys},
		`two authorization rules are named "k"`:                                                      {AuthorizationRules: append(keys[:1:1], keys[0])},
		"an authorization rule lacks its KeyName":                                                    {AuthorizationRules: []admin.AuthorizationRule{{}}},
		`authorization rule "k" has the right "Sell"; there are Listen, Send and Manage`:             {AuthorizationRules: []admin.AuthorizationRule{{KeyName: new("k"), AccessRights: []admin.AccessRight{"Sell"}}}},
		"LockDuration must be at most PT5M, is PT1H; MaxDeliveryCount must be from 1 to 2000, is -1": {LockDuration: new("PT1H"), MaxDeliveryCount: new(int32(-1))},
	} {
		managed(t, func(t *testing.T, w *world, a *admin.Client) {
			w.createQueue(a, "x", nil)
			_, err := a.CreateQueue(w.ctx, "q", &admin.CreateQueueOptions{Properties: &p})
			w.wantStatus(err, http.StatusBadRequest, "SubCode=40000", says)
			if p.ForwardTo != nil {
				return // a queue must be there to be asked about
			}
			if got, err := a.GetQueue(w.ctx, "q", nil); got != nil || err != nil {
				t.Errorf("%s: the refused queue is %+v, %v", says, got, err)
			}
			_, err = a.UpdateQueue(w.ctx, "x", p, nil)
			w.wantStatus(err, http.StatusBadRequest, says)
		})
	}
}

func TestTheServicesLimitsOfTopicsAndSubscriptionsHold(t *testing.T) { // M3
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "topic", "sub")
		for says, p := range map[string]admin.TopicProperties{
			"DefaultMessageTimeToLive must be at least PT1S":                    {DefaultMessageTimeToLive: new("PT0.1S")},
			"DuplicateDetectionHistoryTimeWindow must be at most P7D":           {DuplicateDetectionHistoryTimeWindow: new("P8D")},
			"MaxSizeInMegabytes must be one of":                                 {MaxSizeInMegabytes: new(int32(1))},
			`Status must be one of [Active Disabled SendDisabled], is "Receive`: {Status: new(admin.EntityStatusReceiveDisabled)},
		} {
			_, err := a.CreateTopic(w.ctx, "t", &admin.CreateTopicOptions{Properties: &p})
			w.wantStatus(err, http.StatusBadRequest, says)
			_, err = a.UpdateTopic(w.ctx, "topic", p, nil)
			w.wantStatus(err, http.StatusBadRequest, says)
		}
		for says, p := range map[string]admin.SubscriptionProperties{
			"LockDuration must be at most PT5M":                    {LockDuration: new("PT6M")},
			"LockDuration must be at least PT5S":                   {LockDuration: new("PT1S")},
			"MaxDeliveryCount must be from 1 to 2000":              {MaxDeliveryCount: new(int32(0))},
			"AutoDeleteOnIdle must be at least PT5M":               {AutoDeleteOnIdle: new("PT1M")},
			`forwarded to "none"`:                                  {ForwardDeadLetteredMessagesTo: new("none")},
			"messages of an entity that requires sessions cannot ": {RequiresSession: new(true), ForwardTo: new("topic")},
		} {
			_, err := a.CreateSubscription(w.ctx, "topic", "s", &admin.CreateSubscriptionOptions{Properties: &p})
			w.wantStatus(err, http.StatusBadRequest, says)
			_, err = a.UpdateSubscription(w.ctx, "topic", "sub", p, nil)
			w.wantStatus(err, http.StatusBadRequest, says)
		}
	})
}

func TestNamesAreAsTheServiceWantsThem(t *testing.T) { // M3
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "topic", "sub")
		for _, name := range []string{"-a", "a-", "a b", "a?", strings.Repeat("a", 261), "ä"} {
			if r := w.ask(http.MethodPut, "/"+url.PathEscape(name), description("QueueDescription", ""), nil); r.status != http.StatusBadRequest {
				t.Errorf("a queue named %q: %d %s", name, r.status, r.body)
			}
		}
		w.createQueue(a, strings.Repeat("a", 260), nil)
		w.createQueue(a, "a.b-c_d/e", nil)
		_, err := a.CreateSubscription(w.ctx, "topic", strings.Repeat("s", 51), nil)
		w.wantStatus(err, http.StatusBadRequest, "at most 50 characters")
		_, err = a.CreateRule(w.ctx, "topic", "sub", &admin.CreateRuleOptions{Name: new(strings.Repeat("r", 51))})
		w.wantStatus(err, http.StatusBadRequest, "at most 50 characters")
		_, err = a.CreateRule(w.ctx, "topic", "sub", &admin.CreateRuleOptions{Name: new(strings.Repeat("r", 50))})
		w.must(err)
	})
}

func TestWhatIsForLifeCannotBeChanged(t *testing.T) { // M4
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createQueue(a, "q", nil)
		w.createTopic(a, "t", "s")
		for says, p := range map[string]admin.QueueProperties{
			"The value for the RequiresSession property of an existing Queue cannot be changed":            {RequiresSession: new(true)},
			"The value for the RequiresDuplicateDetection property of an existing Queue cannot be changed": {RequiresDuplicateDetection: new(true)},
			"Partitioning cannot be changed for Queue. ":                                                   {EnablePartitioning: new(true)},
		} {
			_, err := a.UpdateQueue(w.ctx, "q", p, nil)
			w.wantStatus(err, http.StatusBadRequest, says)
		}
		for says, p := range map[string]admin.TopicProperties{
			"The value for the RequiresDuplicateDetection property of an existing Topic cannot be changed": {RequiresDuplicateDetection: new(true)},
			"Partitioning cannot be changed for Topic. ":                                                   {EnablePartitioning: new(true)},
		} {
			_, err := a.UpdateTopic(w.ctx, "t", p, nil)
			w.wantStatus(err, http.StatusBadRequest, says)
		}
		_, err := a.UpdateSubscription(w.ctx, "t", "s", admin.SubscriptionProperties{RequiresSession: new(true)}, nil)
		w.wantStatus(err, http.StatusBadRequest, "The value for the RequiresSession property of an existing Subscription cannot be changed")
	})
}

func TestWhatAConfigurationHasMadeShorterMayStaySo(t *testing.T) { // M3
	const text = `{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [
		{"Name": "q", "Properties": {"LockDuration": "PT1S", "DefaultMessageTimeToLive": "PT0.5S", "DuplicateDetectionHistoryTimeWindow": "PT2S"}}
	], "Topics": [{"Name": "t", "Subscriptions": [{"Name": "s", "Properties": {"LockDuration": "PT0.2S"}}]}]}], "Logging": {"Type": "File"}}}`
	c, err := servicebus.ReadConfig(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	managedAs(t, c, func(t *testing.T, w *world, a *admin.Client) {
		w.must(w.update(a, "q", 7))
		got, err := a.GetQueue(w.ctx, "q", nil)
		w.must(err)
		if *got.LockDuration != "PT1S" || *got.MaxDeliveryCount != 7 {
			t.Errorf("the queue has a lock of %s and %d deliveries", *got.LockDuration, *got.MaxDeliveryCount)
		}
		got.LockDuration = new("PT2S")
		_, err = a.UpdateQueue(w.ctx, "q", got.QueueProperties, nil)
		w.wantStatus(err, http.StatusBadRequest, "LockDuration must be at least PT5S, is PT2S")
		s, err := a.GetSubscription(w.ctx, "t", "s", nil)
		w.must(err)
		s.MaxDeliveryCount = new(int32(9))
		_, err = a.UpdateSubscription(w.ctx, "t", "s", s.SubscriptionProperties, nil)
		w.must(err)
	})
}

func TestTheTierDecidesHowLargeThingsMayBe(t *testing.T) { // M5
	type q = admin.QueueProperties
	for _, row := range []struct {
		tier, says string // empty if it is taken
		given      q
		size       int32
		message    int64
	}{
		{servicebus.Standard, "", q{EnablePartitioning: new(true), MaxSizeInMegabytes: new(int32(2048))}, 16 * 2048, 256},
		{servicebus.Standard, "", q{}, 1024, 256},
		{servicebus.Standard, "in the Premium tier only", q{MaxMessageSizeInKilobytes: new(int64(102400))}, 0, 0},
		{servicebus.Premium, "", q{MaxMessageSizeInKilobytes: new(int64(102400)), MaxSizeInMegabytes: new(int32(81920))}, 81920, 102400},
		{servicebus.Premium, "", q{}, 1024, 1024},
		{servicebus.Premium, "EnablePartitioning cannot be set in the Premium tier", q{EnablePartitioning: new(true)}, 0, 0},
		{servicebus.Premium, "MaxMessageSizeInKilobytes must be from 1024 to 102400, is 256", q{MaxMessageSizeInKilobytes: new(int64(256))}, 0, 0},
		{servicebus.Premium, "MaxMessageSizeInKilobytes must be from 1024 to 102400, is 102401", q{MaxMessageSizeInKilobytes: new(int64(102401))}, 0, 0},
		{servicebus.AnyTier, "", q{}, 1024, 256},
		{servicebus.AnyTier, "", q{MaxMessageSizeInKilobytes: new(int64(102400))}, 1024, 102400},
		{servicebus.AnyTier, "", q{EnablePartitioning: new(true)}, 16 * 1024, 256},
	} {
		managedAs(t, servicebus.Config{MessagingSKU: row.tier}, func(t *testing.T, w *world, a *admin.Client) {
			made, err := a.CreateQueue(w.ctx, "q", &admin.CreateQueueOptions{Properties: &row.given})
			if row.says != "" {
				w.wantStatus(err, http.StatusBadRequest, row.says)
				return
			}
			w.must(err)
			if *made.MaxSizeInMegabytes != row.size || *made.MaxMessageSizeInKilobytes != row.message {
				t.Errorf("%s: %d MB of messages of %d KB, want %d and %d", row.tier, *made.MaxSizeInMegabytes, *made.MaxMessageSizeInKilobytes, row.size, row.message)
			}
			again, err := a.UpdateQueue(w.ctx, "q", made.QueueProperties, nil)
			w.must(err)
			same(t, "the queue after an update with itself", again.QueueProperties, made.QueueProperties)
		})
	}
}

func TestTheNamespaceSaysItsTier(t *testing.T) { // M5
	for tier, want := range map[string]admin.NamespaceProperties{
		servicebus.Standard: {SKU: "Standard", Name: "sbemulatorns"},
		servicebus.AnyTier:  {SKU: "Standard", Name: "sbemulatorns"},
		servicebus.Premium:  {SKU: "Premium", Name: "sbemulatorns", MessagingUnits: new(int64(1))},
	} {
		managedAs(t, servicebus.Config{MessagingSKU: tier}, func(t *testing.T, w *world, a *admin.Client) {
			got, err := a.GetNamespaceProperties(w.ctx, nil)
			w.must(err)
			want.CreatedTime, want.ModifiedTime = w.hub.Now(), w.hub.Now()
			same(t, "the namespace", got.NamespaceProperties, want)
		})
	}
}

func TestTheTierDecidesHowLargeMessagesOfAConfiguredEntityMayBe(t *testing.T) { // M5
	const kilobyte = 1 << 10
	for tier, most := range map[string]int{servicebus.Standard: 256, servicebus.AnyTier: 256, servicebus.Premium: 1024} {
		c := servicebus.Config{MessagingSKU: tier}
		c.Namespace.Queues = []broker.QueueConfig{{Name: "q"}}
		c.Namespace.Topics = []broker.TopicConfig{{Name: "t", Subscriptions: []broker.SubscriptionConfig{{Name: "s"}}}}
		managedAs(t, c, func(t *testing.T, w *world, a *admin.Client) {
			client := w.client("worker-1")
			send := func(entity string, kilobytes int, fits bool) {
				t.Helper()
				m := message("large")
				m.Body = make([]byte, kilobytes*kilobyte)
				s := w.sender(client, entity)
				err := s.SendMessage(w.ctx, m, nil)
				if fits && err != nil || !fits && !errors.Is(err, azservicebus.ErrMessageTooLarge) {
					t.Errorf("%s: %d KB to %s: %v", tier, kilobytes, entity, err)
				}
				w.must(s.Close(w.ctx))
			}
			for _, entity := range []string{"q", "t"} {
				send(entity, most-1, true)
				send(entity, most+1, false)
			}
			q, err := a.GetQueue(w.ctx, "q", nil)
			w.must(err)
			if got := *q.MaxMessageSizeInKilobytes; got != int64(most) {
				t.Errorf("%s: messages of %d KB, want %d", tier, got, most)
			}
			if tier == servicebus.Standard {
				return
			}
			q.MaxMessageSizeInKilobytes = new(int64(102_400))
			_, err = a.UpdateQueue(w.ctx, "q", q.QueueProperties, nil)
			w.must(err)
			send("q", 3*kilobyte, true)
			r := w.receiver(client, "q")
			for _, want := range []int{most - 1, 3 * kilobyte} {
				if m := w.receive(r); len(m.Body) != want*kilobyte {
					t.Errorf("%s: received %d bytes, want %d KB", tier, len(m.Body), want)
				}
			}
		})
	}
}
