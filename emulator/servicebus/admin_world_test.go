package servicebus_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"oneeffect/emulator/inprocess"
	"oneeffect/emulator/servicebus"
)

// managed runs a test in a bubble of its own, on a namespace without entities, with its management client.
func managed(t *testing.T, test func(t *testing.T, w *world, a *admin.Client)) {
	t.Helper()
	managedAs(t, servicebus.Config{}, test)
}

// managedAs is managed with another namespace.
func managedAs(t *testing.T, c servicebus.Config, test func(t *testing.T, w *world, a *admin.Client)) {
	t.Helper()
	inBubbleOf(t, c, func(t *testing.T, w *world) { test(t, w, w.management()) })
}

// management is the SDK's client of the management API, in the bubble.
func (w *world) management() *admin.Client {
	w.t.Helper()
	return w.managementBy(servicebus.DefaultKeyName)
}

// managementBy is the management client that signs with another key.
func (w *world) managementBy(key string) *admin.Client {
	w.t.Helper()
	transport := inprocess.Transport(w.server.Admin())
	w.t.Cleanup(transport.Close)
	c, err := admin.NewClientFromConnectionString(signedBy(key), &admin.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: transport},
	})
	w.must(err)
	return c
}

// answered is what came of a request.
type answered struct {
	status int
	header http.Header
	body   string
}

// ask sends a request as no SDK would. Its token is good unless the header says otherwise.
func (w *world) ask(method, path, body string, header http.Header) answered {
	w.t.Helper()
	transport := inprocess.Transport(w.server.Admin())
	defer transport.Close()
	r, err := http.NewRequestWithContext(w.ctx, method, "https://localhost"+path, strings.NewReader(body))
	w.must(err)
	r.Header.Set("Authorization", "good")
	for name, values := range header {
		r.Header[name] = values
	}
	response, err := transport.RoundTrip(r)
	w.must(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	w.must(err)
	return answered{response.StatusCode, response.Header, string(text)}
}

// wantStatus checks the status of an SDK error and what it says.
func (w *world) wantStatus(err error, status int, texts ...string) {
	w.t.Helper()
	e, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok || e.StatusCode != status {
		w.t.Errorf("error %v, want status %d", err, status)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			w.t.Errorf("%q is not in: %v", text, err)
		}
	}
}

func (w *world) createQueue(a *admin.Client, name string, p *admin.QueueProperties) {
	w.t.Helper()
	_, err := a.CreateQueue(w.ctx, name, &admin.CreateQueueOptions{Properties: p})
	w.must(err)
}

// createTopic makes a topic with subscriptions that get everything.
func (w *world) createTopic(a *admin.Client, name string, subscriptions ...string) {
	w.t.Helper()
	_, err := a.CreateTopic(w.ctx, name, nil)
	w.must(err)
	for _, s := range subscriptions {
		_, err := a.CreateSubscription(w.ctx, name, s, nil)
		w.must(err)
	}
}

// createSubscription makes one with a rule of its own.
func (w *world) createSubscription(a *admin.Client, topic, name string, filter admin.RuleFilter, action admin.RuleAction) {
	w.t.Helper()
	_, err := a.CreateSubscription(w.ctx, topic, name, &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
		DefaultRule: &admin.RuleProperties{Name: "first", Filter: filter, Action: action},
	}})
	w.must(err)
}

// taken takes what a subscription holds and leaves it empty.
func (w *world) taken(topic, subscription string) []*azservicebus.ReceivedMessage {
	w.t.Helper()
	c := w.client("reader")
	defer func() { w.must(c.Close(w.ctx)) }()
	r, err := c.NewReceiverForSubscription(topic, subscription, &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	w.must(err)
	var all []*azservicebus.ReceivedMessage
	for {
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
		got, err := r.ReceiveMessages(ctx, 100, nil)
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				w.t.Fatal(err)
			}
			return all
		}
		all = append(all, got...)
	}
}

func idsOf(messages []*azservicebus.ReceivedMessage) []string {
	ids := make([]string, len(messages))
	for i, m := range messages {
		ids[i] = m.MessageID
	}
	return ids
}
