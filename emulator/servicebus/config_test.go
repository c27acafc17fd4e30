package servicebus_test

import (
	"reflect"
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
				Subscriptions: []broker.SubscriptionConfig{{Name: "subscription.1", LockDuration: time.Minute, MaxDelivery: 3, TimeToLive: time.Hour}},
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
		{"Name": "-bad-", "Properties": {"LockDuration": "5m", "MaxDeliveryCount": 0, "RequiresSession": true, "Typo": 1}},
		{"Name": "Same", "Properties": {"DefaultMessageTimeToLive": "P1M", "ForwardTo": "other"}},
		{"Name": "same"}, {}, 7
	], "Topics": [{"Name": "t", "Subscriptions": [{"Name": "s", "Rules": [{"Name": "r", "Properties": {"FilterType": "Sql"}}]}]}]}], "Logging": {"Type": "Paper"}}, "More": 1}`
	_, err := servicebus.ReadConfig(strings.NewReader(text))
	if err == nil {
		t.Fatal("a configuration full of mistakes was read")
	}
	const queues = "UserConfig.Namespaces[0].Queues"
	for _, want := range []string{
		"More: is not known here",
		"UserConfig.Logging.Type: must be one of",
		queues + "[0].Name: must begin and end with a letter or digit",
		queues + `[0].Properties.LockDuration: must be an ISO 8601 duration such as PT1M, is "5m"`,
		queues + "[0].Properties.MaxDeliveryCount: must be a whole number of at least 1, is 0",
		queues + "[0].Properties.RequiresSession: sessions are not supported yet",
		queues + "[0].Properties.Typo: is not known here; known are",
		queues + "[1].Properties.DefaultMessageTimeToLive: must not use years or months",
		queues + `[1].Properties.ForwardTo: forwarding (here to "other") is not supported yet`,
		queues + `[2]: has the name "same", which ` + queues + "[1] has already",
		queues + "[3]: lacks Name",
		queues + "[4]: must be an object, is a number",
		`UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Rules[0]: rule "r": correlation and SQL rules are not supported yet`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s", want)
		}
	}
	if t.Failed() {
		t.Logf("said:\n%v", err)
	}
}

func TestReadConfigRefusesWhatIsNoDocument(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"UserConfig": {}, "UserConfig": {}}`, `{"UserConfig": {"Namespaces": [], "Logging": {}}}`, "null"} {
		if _, err := servicebus.ReadConfig(strings.NewReader(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
