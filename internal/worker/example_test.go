package worker_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
	"oneeffect/internal/worker"
)

// clerk is a handler that says what it is asked to do.
type clerk struct{}

func (clerk) Declaration() message.Declaration {
	return message.Declaration{
		Type: "customer.create", Keyed: true, KeyWindow: 24 * time.Hour, Timeout: 20 * time.Second,
		Attempts: 8, BackoffMin: 2 * time.Second, BackoffMax: 5 * time.Minute,
	}
}

func (clerk) Call(_ context.Context, c message.Call) message.Outcome {
	fmt.Println("call with key", c.Key)
	return message.Outcome{Effect: message.EffectApplied, Ref: "/customers/7"}
}

// A task is done, and its settlement is lost: it is delivered once more. Nothing is
// called then. The same event is told again, under the same id, and the message is
// settled as the first time.
func ExampleWorker_Handle() {
	hub := control.New()
	server := emulator.New(hub, emulator.Options{})
	defer server.Close()
	defer hub.Close()
	ctx := context.Background()
	db, err := cosmos.Open(cosmos.Options{Endpoint: "http://worker.example:8081/", Key: emulator.EmulatorKey, ApplicationID: "worker-1", Transport: server.Transport()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Setup(ctx); err != nil {
		log.Fatal(err)
	}
	w := &worker.Worker{
		Claims: &claim.Desk{
			Store: db.Claims(), Process: "worker-1/" + claim.Nonce(), Timeout: 10 * time.Second,
			Terms: claim.Terms{Lease: 5 * time.Minute, OwnerMargin: 10 * time.Second, ChallengerMargin: 5 * time.Second, MaxAttempts: 8, Keep: 30 * 24 * time.Hour},
		},
		Handlers: map[string]message.Handler{"customer.create": clerk{}},
		Publish: func(_ context.Context, m message.Message) error {
			fmt.Println("publish", m.ID)
			return nil
		},
		BusyWait: 20 * time.Second, PublishTimeout: 30 * time.Second, SettleTimeout: 10 * time.Second, KeyMargin: 15 * time.Minute,
		Log: slog.New(slog.DiscardHandler),
	}

	now := time.Now()
	m, err := message.Task{
		ExecutionID: "82f3", Run: 1, Type: "customer.create", Payload: []byte(`{"name":"Ada"}`), ExecutionETag: `"1"`,
		Deadline: now.Add(24 * time.Hour), NotAfter: now.Add(21 * 24 * time.Hour),
	}.Message("82f3", now)
	if err != nil {
		log.Fatal(err)
	}
	for count := range 2 {
		fmt.Println("delivery", count+1)
		s := w.Handle(ctx, message.Delivery{MessageID: m.ID, Body: m.Body, Count: count + 1, Taken: now, Received: now})
		fmt.Println(s.Action)
	}
	// Output:
	// delivery 1
	// call with key 82f3
	// publish 82f3/completed
	// complete
	// delivery 2
	// publish 82f3/completed
	// complete
}
