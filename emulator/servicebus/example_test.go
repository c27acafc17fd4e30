package servicebus_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus"
	"oneeffect/emulator/servicebus/broker"
)

// The first send is applied and its answer is lost, so the client sends again: the queue has the message twice.
func Example() {
	hub := control.New()
	server, err := servicebus.New(hub, servicebus.Config{Namespace: broker.Config{
		Queues: []broker.QueueConfig{{Name: "tasks", LockDuration: time.Minute}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	defer hub.Close() // first: it lets go of whatever a rule still holds

	const connection = "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;" +
		"SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"
	client, err := azservicebus.NewClientFromConnectionString(connection, &azservicebus.ClientOptions{
		ApplicationID: "worker-1", // the name that rules and events know it by
		NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			return server.Dial(ctx) // no socket: the other end of a net.Pipe
		},
		RetryOptions: azservicebus.RetryOptions{RetryDelay: time.Millisecond},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer client.Close(ctx)

	_, err = hub.Arm(control.Rule{
		Match: control.Match{Service: "servicebus", Operation: "send", Entity: "tasks"},
		When:  "after", Do: "drop", Nth: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	sender, err := client.NewSender("tasks", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("once?")}, nil); err != nil {
		log.Fatal(err)
	}
	for _, e := range hub.Events(0) {
		if e.Kind == "rule-reached" || e.Kind == "enqueued" {
			fmt.Println(e.Kind, e.Entity)
		}
	}
	// Output:
	// enqueued tasks
	// rule-reached tasks
	// enqueued tasks
}

// Five minutes pass in a bubble as soon as nobody has anything left to do.
func TestALockPassesOnInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := control.New()
		server, err := servicebus.New(hub, servicebus.Config{Namespace: broker.Config{
			Queues: []broker.QueueConfig{{Name: "tasks", LockDuration: 5 * time.Minute}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { hub.Close(); _ = server.Close() })
		connect := func(name string) *azservicebus.Client {
			client, err := azservicebus.NewClientFromConnectionString(connectionString, &azservicebus.ClientOptions{
				ApplicationID: name,
				NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
					return server.Dial(ctx)
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close(context.Background()) })
			return client
		}
		receive := func(name string) *azservicebus.ReceivedMessage {
			r, err := connect(name).NewReceiverForQueue("tasks", nil)
			if err != nil {
				t.Fatal(err)
			}
			messages, err := r.ReceiveMessages(t.Context(), 1, nil)
			if err != nil || len(messages) != 1 {
				t.Fatalf("%s received %d messages, %v", name, len(messages), err)
			}
			return messages[0]
		}
		sender, err := connect("sender").NewSender("tasks", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := sender.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("task")}, nil); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		receive("worker-1")
		hub.Isolate("worker-1") // dead, as seen from outside: none of its clean-up code runs
		if m := receive("worker-2"); m.DeliveryCount != 2 || time.Since(start) < 5*time.Minute {
			t.Errorf("delivery %d after %v, want the second after the lock's five minutes", m.DeliveryCount, time.Since(start))
		}
	})
}
