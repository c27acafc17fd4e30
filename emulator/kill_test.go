package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func (v *victim) client(name string) *azservicebus.Client {
	v.t.Helper()
	c, err := azservicebus.NewClientFromConnectionString("Endpoint=sb://"+v.addresses["amqp"]+
		";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;",
		// One attempt: a second one would make two sends of one.
		&azservicebus.ClientOptions{ApplicationID: name, RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}})
	if err != nil {
		v.t.Fatal(err)
	}
	return c
}

// killConfig has a queue of each kind and a topic.
const killConfig = `{"UserConfig": {"Logging": {"Type": "File"}, "Namespaces": [{"Name": "sbemulatorns",
	"Queues": [
		{"Name": "work", "Properties": {"LockDuration": "PT5M", "MaxDeliveryCount": 10}},
		{"Name": "once", "Properties": {"RequiresDuplicateDetection": true, "DuplicateDetectionHistoryTimeWindow": "PT5M"}},
		{"Name": "relay", "Properties": {"ForwardTo": "work"}},
		{"Name": "steps", "Properties": {"RequiresSession": true}}
	],
	"Topics": [{"Name": "news", "Properties": {}, "Subscriptions": [{"Name": "left", "Properties": {}}, {"Name": "right", "Properties": {}}]}]
}]}}`

// TestAnAcknowledgedMessageOutlivesTheEmulator counts: every acknowledged send is there once or was settled, no answered
// settlement is undone, locks hold, counts have not gone down. What got no answer may be either way, but whole.
func TestAnAcknowledgedMessageOutlivesTheEmulator(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, []byte(killConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	survive(t, newLedger(t), "-config", config)
}

func (l *ledger) in(t *testing.T) { l.t = t }

// load is what is done to the emulator until it is killed.
func (l *ledger) load(v *victim, round int) (all []func(context.Context) error, end func()) {
	client := v.client("load")
	for who, work := range []func(context.Context, *azservicebus.Client, *ledger, func() string) error{
		sendTo("work"), sendTo("work"), sendTo("relay"), sendBatches, publish, schedule, sendTwice, keepState, consumeHeld, consume,
	} {
		n := 0
		id := func() string {
			n++
			return fmt.Sprintf("%d-%d-%d", round, who, n)
		}
		all = append(all, func(ctx context.Context) error { return work(ctx, client, l, id) })
	}
	return all, func() { _ = client.Close(l.t.Context()) } // its connection is gone
}

func TestADiskThatTakesNoMoreEndsTheEmulator(t *testing.T) {
	answered := 0
	data := fillDisk(t, "keep the data in ", func(v *victim) {
		client := v.client("sender")
		s, err := client.NewSender("tasks", nil)
		for err == nil {
			if answered == fills {
				t.Fatalf("%d messages of 10 kB were answered", answered)
			}
			m := newMessage(fmt.Sprint(answered))
			m.Body = bytes.Repeat([]byte("x"), 10_000)
			if err = s.SendMessage(t.Context(), m, nil); err == nil {
				answered++
			}
		}
		_ = client.Close(t.Context()) // its connection is gone
	})
	client := startVictim(t, "-data", data).client("auditor")
	defer func() { _ = client.Close(t.Context()) }()
	r, err := client.NewReceiverForQueue("tasks", nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger(t)
	if there := len(l.all(t.Context(), r)); answered == 0 || there < answered || there > answered+1 {
		t.Errorf("%d messages were answered and %d are there", answered, there)
	}
}
