package servicebus_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/emulator/broken"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus"
	"oneeffect/emulator/servicebus/broker"
)

const connectionString = "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"

const lock = 5 * time.Minute

// keys may do what their names say.
var keys = map[string]servicebus.Key{
	servicebus.DefaultKeyName: {Value: servicebus.DefaultKey, Rights: servicebus.AllRights},
	"NoManage":                {Value: servicebus.DefaultKey, Rights: servicebus.Send | servicebus.Listen},
	"SendOnly":                {Value: servicebus.DefaultKey, Rights: servicebus.Send},
	"ListenOnly":              {Value: servicebus.DefaultKey, Rights: servicebus.Listen},
}

// checkToken takes one JSON web token.
func checkToken(token, _ string) (time.Time, error) {
	if token != "good" {
		return time.Time{}, errors.New("forged")
	}
	return time.Now().Add(time.Hour), nil
}

// world is an emulator and its clients, the real SDK, all in one synctest bubble.
type world struct {
	t      *testing.T
	hub    *control.Hub
	server *servicebus.Server
	ctx    context.Context
}

// usual is the namespace of most tests.
var usual = servicebus.Config{Namespace: broker.Config{
	Queues: []broker.QueueConfig{
		{Name: "tasks", LockDuration: lock, MaxDelivery: 3, TimeToLive: time.Hour, DeadLetterExpired: true},
		{Name: "steps", LockDuration: time.Minute, MaxDelivery: 2, RequiresSession: true},
		{Name: "small", MaxSize: 1_000},
		{Name: "Once", LockDuration: lock, DetectDuplicates: true, DuplicateWindow: 5 * time.Minute},
	},
	Topics: []broker.TopicConfig{{
		Name: "task-events",
		Subscriptions: []broker.SubscriptionConfig{
			{Name: "orchestrator", LockDuration: lock, MaxDelivery: 2}, {Name: "audit", LockDuration: lock},
		},
	}},
}}

// inBubble runs a test in a world of its own. Every goroutine of the emulator and of the clients must have ended when
// the test has, or synctest fails it.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	inBubbleOf(t, usual, test)
}

// inPacedBubble is inBubble with a pace of deliveries.
func inPacedBubble(t *testing.T, pace time.Duration, test func(t *testing.T, w *world)) {
	t.Helper()
	c := usual
	c.Pace = pace
	inBubbleOf(t, c, test)
}

// inBubbleOf is inBubble with another namespace.
func inBubbleOf(t *testing.T, c servicebus.Config, test func(t *testing.T, w *world)) {
	t.Helper()
	if *kept && c.Data == "" && c.Namespace.Journal == nil {
		c.Data = t.TempDir()
	}
	synctest.Test(t, func(t *testing.T) {
		hub := control.New()
		broken.Break(t, hub)
		c.Keys, c.TokenCheck = keys, checkToken
		server, err := servicebus.New(hub, c)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t, hub, server, t.Context()}
		t.Cleanup(func() { // runs after the clients are closed
			hub.Close()
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
		test(t, w)
	})
}

// client makes a client that is closed when the test ends.
func (w *world) client(name string) *azservicebus.Client {
	return w.clientWith(name, connectionString)
}

func (w *world) clientWith(name, connection string) *azservicebus.Client {
	w.t.Helper()
	client, err := azservicebus.NewClientFromConnectionString(connection, &azservicebus.ClientOptions{
		ApplicationID: name,
		NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			return w.server.Dial(ctx)
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

func (w *world) sender(c *azservicebus.Client, entity string) *azservicebus.Sender {
	w.t.Helper()
	s, err := c.NewSender(entity, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) receiver(c *azservicebus.Client, queue string) *azservicebus.Receiver {
	w.t.Helper()
	r, err := c.NewReceiverForQueue(queue, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) deadLetters(c *azservicebus.Client, queue string) *azservicebus.Receiver {
	w.t.Helper()
	r, err := c.NewReceiverForQueue(queue, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func message(id string) *azservicebus.Message {
	return &azservicebus.Message{MessageID: &id, Body: []byte(`{"id":"` + id + `"}`)}
}

// send sends messages with these ids from a client of its own.
func (w *world) send(entity string, ids ...string) {
	w.t.Helper()
	c := w.client("sender")
	s := w.sender(c, entity)
	for _, id := range ids {
		if err := s.SendMessage(w.ctx, message(id), nil); err != nil {
			w.t.Fatalf("send %s: %v", id, err)
		}
	}
	if err := c.Close(w.ctx); err != nil {
		w.t.Fatal(err)
	}
}

// receives is a receiver with or without a session.
type receives interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
}

// receive waits for exactly one message, also while the service drops the idle link and the SDK makes a new one; but
// not for longer than two hours.
func (w *world) receive(r receives) *azservicebus.ReceivedMessage {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 2*time.Hour)
	defer cancel()
	for {
		got, err := r.ReceiveMessages(ctx, 1, nil)
		switch {
		case ctx.Err() != nil && len(got) == 0:
			w.t.Fatal("no message came")
		case err != nil || len(got) > 1:
			w.t.Fatalf("received %d messages, %v; want 1", len(got), err)
		case len(got) == 1:
			return got[0]
		}
	}
}

// receiveNothing waits a minute for a message that must not come.
func (w *world) receiveNothing(r receives) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	var got []*azservicebus.ReceivedMessage
	var err error
	for len(got) == 0 && err == nil {
		got, err = r.ReceiveMessages(ctx, 1, nil)
	}
	if len(got) != 0 {
		w.t.Fatalf("received %s (delivery %d), want nothing", got[0].MessageID, got[0].DeliveryCount)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		w.t.Fatalf("receive: %v", err)
	}
}

// wantCode checks the code of an SDK error.
func (w *world) wantCode(err error, code azservicebus.Code) {
	w.t.Helper()
	sdk, ok := errors.AsType[*azservicebus.Error](err)
	if !ok || sdk.Code != code {
		w.t.Fatalf("error %v (%T), want code %s", err, err, code)
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// event waits for an event of a kind about a message.
func (w *world) event(kind, key string) control.Event {
	w.t.Helper()
	e, err := w.hub.WaitEvent(w.ctx, 0, func(e control.Event) bool { return e.Kind == kind && e.Key == key })
	w.must(err)
	return e
}

// count counts the events of a kind about a message so far.
func (w *world) count(kind, key string) int {
	n := 0
	for _, e := range w.hub.Events(0) {
		if e.Kind == kind && e.Key == key {
			n++
		}
	}
	return n
}
