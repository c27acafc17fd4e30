package servicebus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/sosodev/duration"

	"oneeffect/internal/message"
)

// Entity is what a queue, or a topic and its subscription taken together, is set up
// to. What is not told is zero.
type Entity struct {
	Name               string
	Lock               time.Duration
	MaxDelivery        int
	TTL                time.Duration // the shorter one of topic and subscription
	DeadLetterExpired  bool
	DetectsDuplicates  bool
	DuplicateWindow    time.Duration
	MaxMessage         int // bytes; zero: the tier's
	RequiresSession    bool
	Forwards           bool
	DisabledForReceive bool
}

// Manager reads what entities are set up to and how long queues are, and makes and deletes queues. It needs
// the right to manage the namespace.
type Manager struct{ sdk *admin.Client }

// Manage prepares a manager. It does no I/O.
func Manage(o Options) (*Manager, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("prepare the management of Service Bus: %w", err)
	}
	options := &admin.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: o.Management, Telemetry: policy.TelemetryOptions{ApplicationID: o.ApplicationID},
	}}
	var m Manager
	var err error
	if o.ConnectionString == "" {
		m.sdk, err = admin.NewClient(o.Namespace, o.Credential, options)
	} else {
		if o.Management == nil && strings.Contains(o.ConnectionString, "UseDevelopmentEmulator=true") {
			options.Transport = plain{}
		}
		m.sdk, err = admin.NewClientFromConnectionString(o.ConnectionString, options)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare the management of Service Bus: %w", err)
	}
	return &m, nil
}

// plain speaks HTTP without TLS, as emulators do. The SDK knows https alone.
type plain struct{}

func (plain) Do(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	return http.DefaultClient.Do(r)
}

// Queue reads a queue.
func (m *Manager) Queue(ctx context.Context, name string) (Entity, error) {
	answer, err := m.sdk.GetQueue(ctx, name, nil)
	if err := shown("read queue "+name, answer, err); err != nil {
		return Entity{}, err
	}
	var errs []error
	p := answer.QueueProperties
	e := Entity{
		Name: name, Lock: lasting(p.LockDuration, &errs), MaxDelivery: int(value(p.MaxDeliveryCount)), TTL: lasting(p.DefaultMessageTimeToLive, &errs),
		DeadLetterExpired: value(p.DeadLetteringOnMessageExpiration), DetectsDuplicates: value(p.RequiresDuplicateDetection),
		DuplicateWindow: lasting(p.DuplicateDetectionHistoryTimeWindow, &errs), MaxMessage: int(value(p.MaxMessageSizeInKilobytes)) << 10,
		RequiresSession: value(p.RequiresSession), Forwards: value(p.ForwardTo) != "", DisabledForReceive: disabled(p.Status),
	}
	return e, errors.Join(errs...)
}

// Active is how many messages a queue has that are neither scheduled nor dead letters:
// what a scaler goes by.
func (m *Manager) Active(ctx context.Context, name string) (int, error) {
	answer, err := m.sdk.GetQueueRuntimeProperties(ctx, name, nil)
	if err := shown("read queue "+name, answer, err); err != nil {
		return 0, err
	}
	return int(answer.ActiveMessageCount), nil
}

// Subscription reads a topic and one of its subscriptions.
func (m *Manager) Subscription(ctx context.Context, topic, name string) (Entity, error) {
	above, err := m.sdk.GetTopic(ctx, topic, nil)
	if err := shown("read topic "+topic, above, err); err != nil {
		return Entity{}, err
	}
	answer, err := m.sdk.GetSubscription(ctx, topic, name, nil)
	if err := shown("read subscription "+topic+"/"+name, answer, err); err != nil {
		return Entity{}, err
	}
	var errs []error
	t, p := above.TopicProperties, answer.SubscriptionProperties
	e := Entity{
		Name: topic + "/" + name, Lock: lasting(p.LockDuration, &errs), MaxDelivery: int(value(p.MaxDeliveryCount)),
		TTL:               min(lasting(t.DefaultMessageTimeToLive, &errs), lasting(p.DefaultMessageTimeToLive, &errs)),
		DeadLetterExpired: value(p.DeadLetteringOnMessageExpiration), DetectsDuplicates: value(t.RequiresDuplicateDetection),
		DuplicateWindow: lasting(t.DuplicateDetectionHistoryTimeWindow, &errs), MaxMessage: int(value(t.MaxMessageSizeInKilobytes)) << 10,
		RequiresSession: value(p.RequiresSession), Forwards: value(p.ForwardTo) != "", DisabledForReceive: disabled(p.Status),
	}
	return e, errors.Join(errs...)
}

// MakeQueue makes a queue that deletes itself when nobody has used it for five
// minutes, the least that the service allows.
func (m *Manager) MakeQueue(ctx context.Context, e Entity) error {
	text := func(d time.Duration) *string { return new(duration.FromTimeDuration(d).String()) }
	_, err := m.sdk.CreateQueue(ctx, e.Name, &admin.CreateQueueOptions{Properties: &admin.QueueProperties{
		LockDuration: text(e.Lock), MaxDeliveryCount: new(int32(e.MaxDelivery)), DefaultMessageTimeToLive: text(e.TTL),
		DeadLetteringOnMessageExpiration: &e.DeadLetterExpired, RequiresDuplicateDetection: &e.DetectsDuplicates,
		DuplicateDetectionHistoryTimeWindow: text(e.DuplicateWindow), AutoDeleteOnIdle: text(5 * time.Minute),
	}})
	return managed("make queue "+e.Name, err)
}

// DeleteQueue deletes a queue.
func (m *Manager) DeleteQueue(ctx context.Context, name string) error {
	_, err := m.sdk.DeleteQueue(ctx, name, nil)
	return managed("delete queue "+name, err)
}

// shown is managed of an answer that shows an entity. The SDK tells by nothing at all
// that it is not there.
func shown[Answer any](op string, answer *Answer, err error) error {
	if err == nil && answer == nil {
		return fmt.Errorf("%s: %w", op, message.ErrNotFound)
	}
	return managed(op, err)
}

// managed says what an error of the management means.
func managed(op string, err error) error {
	refused, ok := errors.AsType[*azcore.ResponseError](err)
	switch {
	case err == nil:
		return nil
	case ok && refused.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: %w", op, message.ErrNotFound)
	case ok && refused.StatusCode < http.StatusInternalServerError && refused.StatusCode != http.StatusTooManyRequests:
		return fmt.Errorf("%s: %w: %w", op, message.ErrRefused, err)
	}
	return fmt.Errorf("%s: %w: %w", op, message.ErrUnknown, err)
}

// value is what a pointer of the SDK's points to; of nil the zero.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func disabled(s *admin.EntityStatus) bool {
	return s != nil && *s != admin.EntityStatusActive && *s != admin.EntityStatusSendDisabled
}

// longest is more than any duration here needs. For "never" the service says some
// thirty thousand years, which no time.Duration holds.
const longest = 100_000 * 24 * time.Hour

func lasting(text *string, errs *[]error) time.Duration {
	if text == nil {
		return 0
	}
	d, err := duration.Parse(*text)
	if err != nil {
		*errs = append(*errs, fmt.Errorf("read a duration %q: %w", *text, err))
		return 0
	}
	if d.Years > 0 || d.Days+d.Weeks*7+d.Months*31 > longest.Hours()/24 {
		return longest
	}
	return d.ToTimeDuration()
}
