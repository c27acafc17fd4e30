package servicebus_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	wire "oneeffect/emulator/amqp"
	"oneeffect/emulator/servicebus"
)

// order is a message with every property that a rule can look at.
func order() *azservicebus.Message {
	return &azservicebus.Message{
		MessageID: new("m"), CorrelationID: new("c"), ContentType: new("text/plain"), Subject: new("order"), ReplyTo: new("r"),
		ReplyToSessionID: new("rs"), SessionID: new("s"), To: new("t"), TimeToLive: new(time.Hour), Body: []byte("12345"),
		ApplicationProperties: map[string]any{
			"color": "Blue", "quantity": int32(10), "price": 12.5, "big": int64(1 << 40), "urgent": true, "at": time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
			"ratio": float32(0.5), "nothing": nil, "id": amqp.UUID{1, 2, 3}, "a.b": "dotted",
		},
	}
}

func TestASubscriptionGetsWhatItsRuleWants(t *testing.T) { // R1 to R5 over the wire
	filters := map[admin.RuleFilter]bool{
		&admin.TrueFilter{}: true, &admin.FalseFilter{}: false,
		&admin.CorrelationFilter{Subject: new("order")}: true,
		&admin.CorrelationFilter{Subject: new("Order")}: false,
		&admin.CorrelationFilter{
			Subject: new("order"), CorrelationID: new("c"), ContentType: new("text/plain"), MessageID: new("m"), ReplyTo: new("r"),
			ReplyToSessionID: new("rs"), SessionID: new("s"), To: new("t"), ApplicationProperties: map[string]any{"COLOR": "Blue", "quantity": int64(10)},
		}: true,
		&admin.CorrelationFilter{Subject: new("order"), To: new("else")}:                                                       false,
		&admin.CorrelationFilter{ApplicationProperties: map[string]any{"urgent": true}}:                                        true,
		&admin.CorrelationFilter{ApplicationProperties: map[string]any{"price": 12.5}}:                                         true,
		&admin.CorrelationFilter{ApplicationProperties: map[string]any{"price": 12.25}}:                                        false,
		&admin.CorrelationFilter{ApplicationProperties: map[string]any{"missing": "x"}}:                                        false,
		&admin.CorrelationFilter{ApplicationProperties: map[string]any{"quantity": "10"}}:                                      false,
		&admin.SQLFilter{Expression: "big = @b", Parameters: map[string]any{"@b": int64(1 << 40)}}:                             true,
		&admin.SQLFilter{Expression: "at > @t", Parameters: map[string]any{"@t": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}: true,
	}
	for expression, want := range map[string]bool{
		"color = 'Blue' AND quantity > 9":                     true,
		"color = 'blue'":                                      false,
		"user.price * 2 = 25 AND ratio < 1":                   true,
		"missing <> 'x'":                                      false,
		"NOT missing = 'x'":                                   false,
		"missing IS NULL AND nothing IS NULL":                 true,
		"EXISTS(nothing) AND NOT EXISTS(missing)":             true,
		"urgent = TRUE AND [a.b] LIKE 'd%'":                   true,
		"sys.Label IN ('order', 'parcel') AND sys.To = 't'":   true,
		"sys.MessageId = 'm' AND sys.CorrelationId = 'c'":     true,
		"sys.ContentType LIKE 'text/%' AND sys.ReplyTo = 'r'": true,
		"sys.ReplyToSessionId = 'rs' AND sys.SessionId = 's'": true,
		"sys.Size > 5 AND sys.Size < 1000":                    true,
		"sys.Label = 'parcel' OR quantity / 3 = 3":            true,
		"sys.PartitionKey IS NULL":                            true,
		"id = id AND color LIKE '_lu_'":                       true,
	} {
		filters[&admin.SQLFilter{Expression: expression}] = want
	}
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "t")
		wants := make(map[string]bool)
		says := make(map[string]string)
		for filter, want := range filters {
			name := fmt.Sprintf("s%d", len(wants))
			w.createSubscription(a, "t", name, filter, nil)
			wants[name], says[name] = want, fmt.Sprintf("%+v", filter)
		}
		c := w.client("sender")
		w.must(w.sender(c, "t").SendMessage(w.ctx, order(), nil))
		for name, want := range wants {
			got, err := a.GetSubscriptionRuntimeProperties(w.ctx, "t", name, nil)
			w.must(err)
			if has := got.ActiveMessageCount == 1; has != want || got.TotalMessageCount > 1 {
				t.Errorf("%s: %d messages of %d, want one: %v", says[name], got.ActiveMessageCount, got.TotalMessageCount, want)
			}
		}
	})
}

// What .NET has a type for and AMQP has not comes in its ticks, of which the last are far beyond Go's nanoseconds.
func TestARuleComparesTheTimesOfDotNet(t *testing.T) {
	const second, hour, since1970 = int64(1e7), int64(36e9), int64(621355968000000000)
	span := func(ticks int64) wire.Described {
		return wire.Described{Descriptor: wire.Symbol("com.microsoft:timespan"), Value: ticks}
	}
	offset := func(ticks int64) wire.Described {
		return wire.Described{Descriptor: wire.Symbol("com.microsoft:datetime-offset"), Value: ticks}
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678900, time.UTC)
	raw, err := wire.AppendMap(nil, wire.KindApplicationProperties, wire.Map{
		{Key: "at", Value: offset(since1970 + at.Unix()*second + int64(at.Nanosecond()/100))},
		{Key: "first", Value: offset(0)}, {Key: "last", Value: offset(3155378975999999999)},
		{Key: "hour", Value: span(hour)}, {Key: "least", Value: span(math.MinInt64)}, {Key: "most", Value: span(math.MaxInt64)},
	})
	if err != nil {
		t.Fatal(err)
	}
	raw = wire.AppendData(raw, []byte("x"))
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "t")
		expressions := []string{"at = @at", "at > first", "at < last", "last > @at", "first < @at", "hour < most", "hour > least"}
		for i, expression := range expressions {
			w.createSubscription(a, "t", fmt.Sprint("s", i), &admin.SQLFilter{Expression: expression, Parameters: map[string]any{"@at": at}}, nil)
		}
		p := w.plain()
		p.authorize()
		s, err := p.session().NewSender(w.ctx, "t", nil)
		w.must(err)
		w.must(s.Send(w.ctx, &amqp.Message{Format: 0x80013700, Data: [][]byte{raw}}, nil)) // a batch of one, which may be any bytes
		for i, expression := range expressions {
			if got := w.taken("t", fmt.Sprint("s", i)); len(got) != 1 {
				t.Errorf("%s is not true", expression)
			}
		}
	})
}

func TestOfSeveralRulesEachThatActsMakesACopyAndAllOthersOne(t *testing.T) { // R8
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "t", "copies", "plain")
		for name, r := range map[string]admin.CreateRuleOptions{
			"matches":      {Filter: &admin.SQLFilter{Expression: "quantity = 10"}},
			"matches too":  {Filter: &admin.CorrelationFilter{Subject: new("order")}},
			"does not":     {Filter: &admin.FalseFilter{}},
			"acts":         {Filter: &admin.TrueFilter{}, Action: &admin.SQLAction{Expression: "SET color = 'Red'; SET quantity = quantity + 1; REMOVE price; SET sys.Label = 'acted'"}},
			"acts as well": {Filter: &admin.SQLFilter{Expression: "urgent = TRUE"}, Action: &admin.SQLAction{Expression: "SET by = @who", Parameters: map[string]any{"@who": "me"}}},
			"acts on none": {Filter: &admin.FalseFilter{}, Action: &admin.SQLAction{Expression: "SET color = 'none'"}},
		} {
			r.Name = new(strings.ReplaceAll(name, " ", "-"))
			_, err := a.CreateRule(w.ctx, "t", "copies", &r)
			w.must(err)
		}
		c := w.client("sender")
		w.must(w.sender(c, "t").SendMessage(w.ctx, order(), nil))
		var got []string
		for _, m := range w.taken("t", "copies") {
			p := m.ApplicationProperties
			_, priced := p["price"]
			got = append(got, fmt.Sprintf("%s %s %v %T %v %v", *m.Subject, p["color"], p["quantity"], p["quantity"], priced, p["by"]))
		}
		slices.Sort(got)
		want := []string{"acted Red 11 int32 false <nil>", "order Blue 10 int32 true <nil>", "order Blue 10 int32 true me"}
		if !slices.Equal(got, want) {
			t.Errorf("copies %q\nwant %q", got, want)
		}
		plain := w.taken("t", "plain")
		if len(plain) != 1 || plain[0].ApplicationProperties["color"] != "Blue" || *plain[0].Subject != "order" || string(plain[0].Body) != "12345" {
			t.Errorf("what one subscription's action has changed, another sees: %+v", plain)
		}
	})
}

func TestWhatNoRuleWantsIsAcceptedAndGone(t *testing.T) {
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "t", "s")
		_, err := a.DeleteRule(w.ctx, "t", "s", "$Default", nil)
		w.must(err)
		w.send("t", "a", "b")
		if got := w.taken("t", "s"); len(got) != 0 {
			t.Errorf("a subscription without rules has got %v", idsOf(got))
		}
		topic, err := a.GetTopicRuntimeProperties(w.ctx, "t", nil)
		w.must(err)
		if topic.SizeInBytes != 0 {
			t.Errorf("the topic still holds %d bytes", topic.SizeInBytes)
		}
	})
}

func TestAMessageThatARuleCannotJudgeIsADeadLetterIfSoWanted(t *testing.T) { // R7
	for kept, filter := range map[bool]string{true: "quantity / 0 = 1", false: "color - 1 = 0"} {
		managed(t, func(t *testing.T, w *world, a *admin.Client) {
			w.createTopic(a, "t")
			_, err := a.CreateSubscription(w.ctx, "t", "s", &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
				EnableDeadLetteringOnFilterEvaluationExceptions: &kept,
				DefaultRule: &admin.RuleProperties{Name: "r", Filter: &admin.SQLFilter{Expression: filter}},
			}})
			w.must(err)
			c := w.client("sender")
			w.must(w.sender(c, "t").SendMessage(w.ctx, order(), nil))
			got, err := a.GetSubscriptionRuntimeProperties(w.ctx, "t", "s", nil)
			w.must(err)
			if got.ActiveMessageCount != 0 || (got.DeadLetterMessageCount == 1) != kept {
				t.Errorf("kept %v: %d active, %d dead", kept, got.ActiveMessageCount, got.DeadLetterMessageCount)
			}
			if !kept {
				return
			}
			r, err := c.NewReceiverForSubscription("t", "s", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
			w.must(err)
			m := w.receive(r)
			if *m.DeadLetterReason != "FilterException" || !strings.Contains(*m.DeadLetterErrorDescription, "division by zero") {
				t.Errorf("dead for %s: %s", *m.DeadLetterReason, *m.DeadLetterErrorDescription)
			}
		})
	}
}

func TestACopyThatOutgrowsTheLimitIsADeadLetterAsItCame(t *testing.T) { // R7
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "t", "plain")
		w.createSubscription(a, "t", "s", &admin.TrueFilter{}, &admin.SQLAction{Expression: "SET more = large"})
		m := message("a")
		m.ApplicationProperties = map[string]any{"large": strings.Repeat("x", 40_000)}
		c := w.client("sender")
		w.must(w.sender(c, "t").SendMessage(w.ctx, m, nil))
		r, err := c.NewReceiverForSubscription("t", "s", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
		w.must(err)
		dead := w.receive(r)
		if _, more := dead.ApplicationProperties["more"]; more || !strings.Contains(*dead.DeadLetterErrorDescription, "at most 65536 are allowed") {
			t.Errorf("dead with more %v: %s", more, *dead.DeadLetterErrorDescription)
		}
		if got := idsOf(w.taken("t", "plain")); !slices.Equal(got, []string{"a"}) {
			t.Errorf("the other subscription has got %q", got)
		}
	})
}

func TestARuleThatIsChangedDecidesFromTheNextMessageOn(t *testing.T) { // M10
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "t")
		w.createSubscription(a, "t", "even", &admin.SQLFilter{Expression: "n % 2 = 0"}, nil)
		w.createSubscription(a, "t", "all", &admin.TrueFilter{}, nil)
		const n, changed = 400, 150
		c := w.client("sender")
		s := w.sender(c, "t")
		sent := func(i int) {
			m := message(fmt.Sprint(i))
			m.ApplicationProperties = map[string]any{"n": i}
			w.must(s.SendMessage(w.ctx, m, nil))
		}
		// The sender goes on while the rule is changed: every message is judged by the rule before or by the one after, and
		// all those that are sent after the answer by the latter.
		for i := range changed {
			sent(i)
		}
		done := async(func() error {
			_, err := a.UpdateRule(w.ctx, "t", "even", admin.RuleProperties{Name: "first", Filter: &admin.SQLFilter{Expression: "n % 2 = 1"}})
			return err
		})
		last := changed
		for answered := false; !answered; last++ {
			sent(last)
			select {
			case err := <-done:
				w.must(err)
				answered = true
			default:
			}
		}
		for i := last; i < n; i++ {
			sent(i)
		}
		if got := len(w.taken("t", "all")); got != n {
			t.Fatalf("%d messages of %d came", got, n)
		}
		got := make(map[string]bool)
		for _, m := range w.taken("t", "even") {
			got[m.MessageID] = true
		}
		for i := range n {
			has, even := got[fmt.Sprint(i)], i%2 == 0
			if i < changed && has != even || i >= last && has == even {
				t.Errorf("message %d: came %v; the rule was changed between %d and %d", i, has, changed, last)
			}
		}
	})
}

func TestScheduledMessagesMeetTheRulesOfTheirTime(t *testing.T) { // M10
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "t", "s")
		c := w.client("sender")
		_, err := w.sender(c, "t").ScheduleMessages(w.ctx, []*azservicebus.Message{message("a"), message("b")}, w.hub.Now().Add(time.Hour), nil)
		w.must(err)
		_, err = a.UpdateRule(w.ctx, "t", "s", admin.RuleProperties{Name: "$Default", Filter: &admin.CorrelationFilter{MessageID: new("b")}})
		w.must(err)
		time.Sleep(time.Hour)
		if got := idsOf(w.taken("t", "s")); !slices.Equal(got, []string{"b"}) {
			t.Errorf("came %q, want b", got)
		}
	})
}

func TestAnExpressionThatMeansNothingIsRefusedWithItsPlace(t *testing.T) { // R6
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "t", "s")
		refused := func(r admin.RuleProperties, says string) {
			t.Helper()
			_, err := a.CreateRule(w.ctx, "t", "s", &admin.CreateRuleOptions{Name: new("r"), Filter: r.Filter, Action: r.Action})
			w.wantStatus(err, http.StatusBadRequest, says)
			_, err = a.CreateSubscription(w.ctx, "t", "n", &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{DefaultRule: &r}})
			w.wantStatus(err, http.StatusBadRequest, says)
			r.Name = "$Default"
			_, err = a.UpdateRule(w.ctx, "t", "s", r)
			w.wantStatus(err, http.StatusBadRequest, says)
		}
		sql := func(expression string) admin.RuleProperties {
			return admin.RuleProperties{Name: "r", Filter: &admin.SQLFilter{Expression: expression}}
		}
		refused(sql("color == 1"), "character 8: here is \"=\" where a value should stand")
		refused(sql("sys.Subject = 'x'"), "a message's subject is sys.Label")
		refused(sql("a = @a"), "character 5: the parameter @a has no value")
		refused(sql("a = '"+strings.Repeat("x", 1024)+"'"), "an expression has at most 1024 characters")
		refused(admin.RuleProperties{Name: "r", Filter: &admin.CorrelationFilter{}}, "a correlation filter needs at least one property")
		refused(admin.RuleProperties{Name: "r", Filter: &admin.TrueFilter{}, Action: &admin.SQLAction{Expression: "DROP TABLE"}}, "SET or REMOVE should stand")
		refused(admin.RuleProperties{Name: "r", Filter: &admin.TrueFilter{}, Action: &admin.SQLAction{Expression: "SET sys.Size = 1"}}, "an action cannot change sys.Size")
		rules := pages(w, a.NewListRulesPager("t", "s", nil), func(r admin.ListRulesResponse) []string {
			return namesOf(r.Rules, func(r admin.RuleProperties) string { return fmt.Sprintf("%s %T", r.Name, r.Filter) })
		})
		if !slices.Equal(rules, []string{"$Default *admin.TrueFilter"}) {
			t.Errorf("after all that the rules are %q", rules)
		}
	})
}

func TestTheRulesOfAConfigurationWork(t *testing.T) { // the official emulator's file
	const text = `{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [], "Topics": [{"Name": "t", "Subscriptions": [
		{"Name": "all"}, {"Name": "empty", "Rules": []},
		{"Name": "sql", "Rules": [{"Name": "r", "Properties": {"FilterType": "Sql",
			"SqlFilter": {"SqlExpression": "sys.MessageId = 'm' AND color LIKE 'B%'"}, "Action": {"SqlExpression": "SET color = 'Green'"}}}]},
		{"Name": "correlation", "Rules": [{"Name": "r", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {
			"ContentType": "text/plain", "CorrelationId": "c", "Label": "order", "MessageId": "m", "ReplyTo": "r", "ReplyToSessionId": "rs", "SessionId": "s", "To": "t",
			"Properties": {"color": "Blue", "quantity": 10, "price": 12.5, "urgent": true}}}}]},
		{"Name": "two", "Rules": [
			{"Name": "a", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {"Label": "order"}}},
			{"Name": "b", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "1=1"}}}]},
		{"Name": "other", "Rules": [{"Name": "r", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {"Label": "parcel"}}}]}
	]}]}], "Logging": {"Type": "Console"}}}`
	c, err := servicebus.ReadConfig(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	managedAs(t, c, func(t *testing.T, w *world, a *admin.Client) {
		sender := w.client("sender")
		w.must(w.sender(sender, "t").SendMessage(w.ctx, order(), nil))
		for name, want := range map[string][]string{
			"all": {"Blue"}, "empty": {"Blue"}, "sql": {"Green"}, "correlation": {"Blue"}, "two": {"Blue"}, "other": nil,
		} {
			var got []string
			for _, m := range w.taken("t", name) {
				got = append(got, fmt.Sprint(m.ApplicationProperties["color"]))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s has got %q, want %q", name, got, want)
			}
		}
		rule, err := a.GetRule(w.ctx, "t", "sql", "r", nil)
		w.must(err)
		same(t, "the rule as the management API shows it", rule.RuleProperties, admin.RuleProperties{
			Name: "r", Filter: &admin.SQLFilter{Expression: "sys.MessageId = 'm' AND color LIKE 'B%'"}, Action: &admin.SQLAction{Expression: "SET color = 'Green'"},
		})
		first, err := a.GetRule(w.ctx, "t", "empty", "$Default", nil)
		w.must(err)
		same(t, "the rule of a subscription without any", first.RuleProperties, admin.RuleProperties{Name: "$Default", Filter: &admin.TrueFilter{}})
	})
}
