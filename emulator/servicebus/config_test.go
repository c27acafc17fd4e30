package servicebus_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus"
	"oneeffect/emulator/servicebus/broker"
)

// official has the form of the file that ships with the official emulator, comments included.
const official = `{
  // The one namespace there is.
  "UserConfig": {
    "Namespaces": [
      {
        "Name": "sbemulatorns",
        "Queues": [
          {
            "Name": "queue.1",
            "Properties": {
              "DeadLetteringOnMessageExpiration": true,
              "DefaultMessageTimeToLive": "PT1H",
              "DuplicateDetectionHistoryTimeWindow": "PT5M",
              "ForwardDeadLetteredMessagesTo": "",
              "ForwardTo": "",
              "LockDuration": "PT5M",
              "MaxDeliveryCount": 10,
              "RequiresDuplicateDetection": true,
              "RequiresSession": false
            }
          },
          { "Name": "bare" } /* all defaults */
        ],
        "Topics": [
          {
            "Name": "topic.1",
            "Properties": { "DefaultMessageTimeToLive": "PT1H", "DuplicateDetectionHistoryTimeWindow": "PT20S", "RequiresDuplicateDetection": false },
            "Subscriptions": [
              {
                "Name": "subscription.1",
                "Properties": { "LockDuration": "PT1M", "MaxDeliveryCount": 3, "ForwardTo": "", "RequiresSession": false },
                "Rules": []
              },
            ]
          }
        ]
      }
    ],
    "Logging": { "Type": "File" }
  }
}`

func TestReadConfigReadsTheOfficialForm(t *testing.T) {
	got, err := servicebus.ReadConfig(strings.NewReader(official))
	if err != nil {
		t.Fatal(err)
	}
	want := servicebus.Config{
		Name: "sbemulatorns",
		Namespace: broker.Config{
			Queues: []broker.QueueConfig{
				{Name: "queue.1", LockDuration: 5 * time.Minute, MaxDelivery: 10, TimeToLive: time.Hour, DeadLetterExpired: true, DetectDuplicates: true, DuplicateWindow: 5 * time.Minute},
				{Name: "bare", LockDuration: time.Minute, MaxDelivery: 3, TimeToLive: time.Hour, DuplicateWindow: 20 * time.Second},
			},
			Topics: []broker.TopicConfig{{
				Name: "topic.1", TimeToLive: time.Hour, DuplicateWindow: 20 * time.Second,
				Subscriptions: []broker.SubscriptionConfig{{Name: "subscription.1", LockDuration: time.Minute, MaxDelivery: 3, TimeToLive: time.Hour, DeadLetterUnevaluated: true}},
			}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v\nwant %+v", got, want)
	}
	s, err := servicebus.New(control.New(), got)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestReadConfigSaysEveryMistakeAtOnceWithItsPath(t *testing.T) {
	const text = `{"UserConfig": {"Namespaces": [{"Name": "n", "Queues": [
		{"Name": "-bad-", "Properties": {"LockDuration": "5m", "MaxDeliveryCount": 0, "RequiresSession": true, "ForwardTo": "Same", "Typo": 1}},
		{"Name": "Same", "Properties": {"DefaultMessageTimeToLive": "P1M", "ForwardTo": "other", "LockDuration": "PT6M", "DuplicateDetectionHistoryTimeWindow": "P8D"}},
		{"Name": "past", "Properties": {"DefaultMessageTimeToLive": "-P200000D"}},
		{"Name": "same", "Properties": {"RequiresSession": 1, "MaxDeliveryCount": 2001}}, {}, 7, {"Name": "self", "Properties": {"ForwardDeadLetteredMessagesTo": "SELF"}}
	], "Topics": [{"Name": "t", "Subscriptions": [{"Name": "s", "Rules": [
		{"Name": "no filter", "Properties": {"FilterType": "Sql"}},
		{"Name": "sql", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a = 1 AND"}, "Action": {"SqlExpression": "SET sys.Size = 1"}}},
		{"Name": "SQL", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {}}},
		{"Name": "c", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {"Label": 1, "Subject": "s", "Properties": {"a": null}}}},
		{"Name": "d", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {"Properties": {}}}},
		{"Name": "both", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a=1"}, "CorrelationFilter": {"Label": "l"}}},
		{"Name": "empty", "Properties": {"FilterType": "Magic", "SqlFilter": {}}}
	]}]}]}], "Logging": {"Type": "Paper"}}, "More": 1}`
	_, err := servicebus.ReadConfig(strings.NewReader(text))
	if err == nil {
		t.Fatal("a configuration full of mistakes was read")
	}
	const queues, rules = "UserConfig.Namespaces[0].Queues", "UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Rules"
	for _, want := range []string{
		"More: is not known here",
		"UserConfig.Logging.Type: must be one of",
		queues + "[0].Name: must begin and end with a letter or digit",
		queues + `[0].Properties.LockDuration: must be an ISO 8601 duration such as PT1M, is "5m"`,
		queues + "[0].Properties.MaxDeliveryCount: must be a whole number of at least 1, is 0",
		queues + "[0].Properties: RequiresSession and ForwardTo exclude each other",
		queues + "[0].Properties.Typo: is not known here; known are",
		queues + "[1].Properties.DefaultMessageTimeToLive: must not use years or months",
		queues + "[1].Properties.LockDuration: must be at most PT5M, is \"PT6M\"",
		queues + "[1].Properties.DuplicateDetectionHistoryTimeWindow: must be at most P7D",
		queues + `[1].Properties.ForwardTo: must name a queue or a topic of this namespace, and there is no "other"`,
		queues + `[2].Properties.DefaultMessageTimeToLive: must be at least a millisecond, is "-P200000D"`,
		queues + `[3]: has the name "same", which ` + queues + "[1] has already",
		queues + "[3].Properties.RequiresSession: must be true or false, is a number",
		queues + "[3].Properties.MaxDeliveryCount: must be at most 2000, is 2001",
		queues + "[4]: lacks Name",
		queues + "[5]: must be an object, is a number",
		queues + "[6].Properties.ForwardDeadLetteredMessagesTo: must not name the queue itself",
		rules + "[0].Name: must hold only letters",
		rules + "[0].Properties: lacks SqlFilter, which its FilterType asks for",
		rules + "[1].Properties.SqlFilter: character 10: here is the end where a value should stand",
		rules + "[1].Properties.Action: character 5: an action cannot change sys.Size",
		rules + `[2]: has the name "SQL", which ` + rules + "[1] has already",
		rules + "[2].Properties.CorrelationFilter: a correlation filter needs at least one property",
		rules + "[3].Properties.CorrelationFilter.Label: must be a string, is a number",
		rules + "[3].Properties.CorrelationFilter.Subject: is not known here",
		rules + "[3].Properties.CorrelationFilter.Properties.a: must be a string, a number or a boolean, is null",
		rules + "[4].Properties.CorrelationFilter.Properties: must be an object with at least one property",
		rules + "[5].Properties: must have one filter, and has both",
		rules + "[6].Properties.FilterType: must be one of",
		rules + "[6].Properties.SqlFilter: lacks SqlExpression",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s", want)
		}
	}
	if t.Failed() {
		t.Logf("said:\n%v", err)
	}
}

func TestReadConfigAllowsMoreThanTheOfficialEmulatorAndSaysWhere(t *testing.T) {
	const text = `{"UserConfig": {"Namespaces": [{"Name": "mine", "Queues": [
		{"Name": "q", "Properties": {"LockDuration": "PT1S", "DefaultMessageTimeToLive": "PT2H", "MaxDeliveryCount": 11, "DuplicateDetectionHistoryTimeWindow": "PT1S"}}
	], "Topics": []}], "Logging": {"Type": "File"}}}`
	c, err := servicebus.ReadConfig(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	const properties = "UserConfig.Namespaces[0].Queues[0].Properties."
	want := []string{
		`UserConfig.Namespaces[0].Name: is "mine"; the official emulator knows only sbemulatorns`,
		properties + "DefaultMessageTimeToLive: is PT2H; the official emulator takes PT5M to PT1H",
		properties + "DuplicateDetectionHistoryTimeWindow: is PT1S; the official emulator takes PT5S to PT5M",
		properties + "LockDuration: is PT1S; the official emulator takes PT5S to PT5M",
		properties + "MaxDeliveryCount: is 11; the official emulator takes at most 10",
	}
	if !slices.Equal(c.Beyond, want) {
		t.Errorf("beyond the official limits: %q\nwant %q", c.Beyond, want)
	}
}

func TestReadConfigCountsQueuesAndTopicsTogether(t *testing.T) {
	const in = "UserConfig.Namespaces[0]"
	config := func(queues, topics int) string {
		list := func(kind, members string, n int) string {
			elements := make([]string, n)
			for i := range elements {
				elements[i] = fmt.Sprintf(`{"Name": "%s%d"%s}`, kind, i, members)
			}
			return strings.Join(elements, ",")
		}
		return `{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [` + list("q", "", queues) +
			`], "Topics": [` + list("t", `, "Subscriptions": [{"Name": "s"}]`, topics) + `]}], "Logging": {"Type": "Console,File"}}}`
	}
	for _, row := range []struct {
		queues, topics int
		want           []string
	}{
		{25, 25, nil},
		{50, 0, nil},
		{26, 25, []string{in + ": has 51 queues and topics; the official emulator takes at most 50 together"}},
		{51, 1, []string{in + ".Queues: has 51 elements; the official emulator takes at most 50"}},
	} {
		c, err := servicebus.ReadConfig(strings.NewReader(config(row.queues, row.topics)))
		if err != nil || !slices.Equal(c.Beyond, row.want) {
			t.Errorf("%d queues and %d topics: %q, %v; want %q", row.queues, row.topics, c.Beyond, err, row.want)
		}
	}
	c, err := servicebus.ReadConfig(strings.NewReader(`{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [], "Topics": [{"Name": "t", "Subscriptions": []}]}], "Logging": {"Type": "File"}}}`))
	if want := []string{in + ".Topics[0].Subscriptions: has no element; the official emulator wants at least one"}; err != nil || !slices.Equal(c.Beyond, want) {
		t.Errorf("a topic without subscriptions: %q, %v; want %q", c.Beyond, err, want)
	}
}

func TestReadConfigRefusesWhatIsNoDocument(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"UserConfig": {}, "UserConfig": {}}`, `{"UserConfig": {"Namespaces": [], "Logging": {}}}`, "null"} {
		if _, err := servicebus.ReadConfig(strings.NewReader(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
