package servicebus_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus"
	"oneeffect/emulator/servicebus/broker"
)

// signature is a shared access signature for a resource, as a tool would make it.
func signature(resource, key string, expires time.Time) string {
	sr, se := url.QueryEscape(resource), strconv.FormatInt(expires.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(sr + "\n" + se))
	sig := url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return "SharedAccessSignature sr=" + sr + "&sig=" + sig + "&se=" + se + "&skn=" + servicebus.DefaultKeyName
}

// presenting is the connection string of who has a signature and no key.
func presenting(signature string) string {
	return "Endpoint=sb://localhost;UseDevelopmentEmulator=true;SharedAccessSignature=" + signature
}

func TestOnlyAValidTokenIsTaken(t *testing.T) {
	later := func(w *world) time.Time { return w.hub.Now().Add(time.Hour) }
	for _, row := range []struct {
		name       string
		connection func(w *world) string
		want       string // in the error; none if empty
	}{
		{"the key", func(*world) string { return connectionString }, ""},
		{"a wrong key", func(*world) string { return strings.Replace(connectionString, "SAS_KEY_VALUE", "WRONG", 1) }, "invalid signature"},
		{"an unknown key name", func(*world) string { return strings.Replace(connectionString, "RootManage", "Other", 1) }, "no key named"},
		{"a signature for the entity", func(w *world) string {
			return presenting(signature("amqp://localhost/tasks", servicebus.DefaultKey, later(w)))
		}, ""},
		{"a signature for the namespace, without a scheme", func(w *world) string {
			return presenting(signature("LOCALHOST/", servicebus.DefaultKey, later(w)))
		}, ""},
		{"a signature for another entity", func(w *world) string {
			return presenting(signature("amqp://localhost/task", servicebus.DefaultKey, later(w)))
		}, "InvalidAudience"},
		{"an expired signature", func(w *world) string {
			return presenting(signature("amqp://localhost/tasks", servicebus.DefaultKey, w.hub.Now()))
		}, "ExpiredToken: The token is expired. Expiration time:"},
		{"a signature by another key", func(w *world) string {
			return presenting(signature("amqp://localhost/tasks", "OTHER", later(w)))
		}, "invalid signature"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.clientWith("worker-1", row.connection(w))
				err := w.sender(c, "tasks").SendMessage(w.ctx, message("a"), nil)
				if row.want == "" {
					w.must(err)
					w.receive(w.receiver(c, "tasks"))
					return
				}
				w.wantCode(err, azservicebus.CodeUnauthorizedAccess)
				if !strings.Contains(err.Error(), row.want) {
					t.Errorf("error %v, want it to say %q", err, row.want)
				}
				_, err = w.receiver(c, "tasks").ReceiveMessages(w.ctx, 1, nil)
				w.wantCode(err, azservicebus.CodeUnauthorizedAccess)
			})
		})
	}
}

func TestAnUnknownEntityIsNotFound(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		w.wantCode(w.sender(c, "nothing").SendMessage(w.ctx, message("a"), nil), azservicebus.CodeNotFound)
		r, err := c.NewReceiverForSubscription("task-events", "nobody", nil)
		w.must(err)
		_, err = r.ReceiveMessages(w.ctx, 1, nil)
		w.wantCode(err, azservicebus.CodeNotFound)
	})
}

func TestATopicCannotBeReceivedFrom(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_, err := w.receiver(w.client("worker-1"), "task-events").ReceiveMessages(w.ctx, 1, nil)
		if err == nil || !strings.Contains(err.Error(), "one of its subscriptions") {
			t.Errorf("receive from a topic: %v", err)
		}
	})
}

func TestTokensAreRenewedWhileAClientLives(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
		w.must(s.SendMessage(w.ctx, message("a"), nil))
		w.must(r.CompleteMessage(w.ctx, w.receive(r), nil))
		for range 6 * 12 { // used, since the service drops what is idle
			time.Sleep(5 * time.Minute)
			w.must(s.SendMessage(w.ctx, message("b"), nil))
			w.must(r.CompleteMessage(w.ctx, w.receive(r), nil))
		}
		w.must(s.SendMessage(w.ctx, message("b"), nil))
		w.must(r.CompleteMessage(w.ctx, w.receive(r), nil))
		if n := w.count("connected", ""); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

func TestConnectionsAreRecordedByApplicationID(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		_, err := w.hub.WaitEvent(w.ctx, 0, func(e control.Event) bool { return e.Kind == "disconnected" && e.Client == "sender" })
		w.must(err)
		var kinds []string
		for _, e := range w.hub.Events(0) {
			kinds = append(kinds, e.Kind+" "+e.Client)
		}
		if want := []string{"connected sender", "enqueued sender", "disconnected sender"}; !slices.Equal(kinds, want) {
			t.Errorf("events %q, want %q", kinds, want)
		}
		w.must(w.sender(w.client(""), "tasks").SendMessage(w.ctx, message("b"), nil))
		if e := w.event("enqueued", "b"); e.Client != "" {
			t.Errorf("a client without a name is called %q", e.Client)
		}
	})
}

func TestAnIsolatedClientIsCutOffAndItsLocksStay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a", "b")
		worker := w.client("worker-1")
		r := w.receiver(worker, "tasks")
		m := w.receive(r)
		w.hub.Isolate("worker-1")
		isolated := w.hub.Last()
		if err := r.CompleteMessage(w.ctx, m, nil); err == nil {
			t.Error("an isolated client completed a message")
		}
		other := w.receiver(w.client("worker-2"), "tasks")
		if got := w.receive(other); got.MessageID != "b" {
			t.Errorf("received %s, want b", got.MessageID)
		}
		if got := w.receive(other); got.MessageID != "a" || got.DeliveryCount != 2 {
			t.Errorf("received %s, delivery %d", got.MessageID, got.DeliveryCount)
		}
		for _, e := range w.hub.Events(isolated) {
			if e.Client == "worker-1" && e.Kind != "disconnected" && e.Kind != "lock-expired" {
				t.Errorf("something of the isolated client got through: %+v", e)
			}
		}
		w.hub.Rejoin("worker-1")
		w.must(w.sender(worker, "tasks").SendMessage(w.ctx, message("c"), nil))
	})
}

func TestAClosedServerTakesNoConnections(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.must(w.server.Close())
		if _, err := w.server.Dial(w.ctx); !errors.Is(err, servicebus.ErrServerClosed) {
			t.Errorf("dial: %v", err)
		}
		client, server := net.Pipe()
		if err := w.server.ServeConn(w.ctx, server); !errors.Is(err, servicebus.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
		if _, err := client.Read(make([]byte, 1)); err == nil {
			t.Error("the connection was left open")
		}
	})
}

// Everything else runs in bubbles; this is the way the SDK dials by itself.
func TestTheUsualConnectionStringWorksOverTCP(t *testing.T) {
	server, err := servicebus.New(control.New(), servicebus.Config{Namespace: broker.Config{Queues: []broker.QueueConfig{{Name: "tasks"}}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		if err := server.ServeConn(t.Context(), c); err != nil {
			t.Errorf("a connection the client closed ended with %v", err)
		}
	})
	client, err := azservicebus.NewClientFromConnectionString(strings.Replace(connectionString, "localhost", l.Addr().String(), 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := client.NewSender("tasks", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMessage(t.Context(), message("a"), nil); err != nil {
		t.Error(err)
	}
	if err := errors.Join(client.Close(t.Context()), l.Close()); err != nil {
		t.Error(err)
	}
	served.Wait()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}
