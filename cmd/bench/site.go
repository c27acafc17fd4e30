package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
	"oneeffect/internal/telemetry"
	"oneeffect/measure"
)

// What every emulator is known by.
const (
	sasKey     = "SAS_KEY_VALUE"
	accountKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
)

// The types of tasks. The first is what is measured where nothing else is said: one call that honours a key.
const (
	taskType    = "customer.create"
	keylessType = "letter.print"     // one call that honours none
	stepsType   = "customer.move"    // three calls that honour theirs
	mixedType   = "customer.welcome" // two, of which one honours none
)

// payload is about the size of what is asked for in practice.
const payload = `{"name":"Ada Lovelace","email":"ada@example.org","address":{"street":"12 St James's Square","city":"London","postcode":"SW1Y 4JH","country":"GB"},"consents":["terms","newsletter"],"creditLimit":2500.50,"notes":"Prefers letters to calls. Was recommended by a customer of many years."}`

// payloadOf is a payload of so many kilobytes: the same customer, with as many orders as it takes. What it costs to
// check a payload goes by its values as well as by its length.
func payloadOf(kilobytes int) string {
	const order = `{"sku":"SKU-4711","quantity":3,"price":19.99,"gift":false,"note":"Leave it with the neighbour."}`
	var text strings.Builder
	text.WriteString(strings.TrimSuffix(payload, "}") + `,"orders":[` + order)
	for text.Len()+len(order)+len(`,]}`) <= kilobytes<<10 {
		text.WriteString("," + order)
	}
	return text.String() + "]}"
}

// site is an emulator and what fills its queue.
type site struct {
	server *measure.Server
	bus    *azservicebus.Client
	tasks  *azservicebus.Sender
	sent   int
}

// newSite starts an emulator and makes the database.
func (b *bench) newSite(ctx context.Context, name string, flags ...string) (s *site, err error) {
	s = &site{}
	if s.server, err = b.start(ctx, name, flags...); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.server.Stop())
		}
	}()
	db, err := cosmos.Open(cosmos.Options{Endpoint: s.cosmosURL(), Key: accountKey, ApplicationID: "bench", Timeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := db.Setup(ctx); err != nil {
		return nil, err
	}
	if s.bus, err = azservicebus.NewClientFromConnectionString(s.connectionString(), nil); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if s.tasks, err = s.bus.NewSender(message.Tasks, nil); err != nil {
		return nil, fmt.Errorf("make a sender: %w", err)
	}
	return s, nil
}

func (s *site) close(ctx context.Context) error {
	ctx, cancel := closing(ctx)
	defer cancel()
	return errors.Join(s.bus.Close(ctx), s.server.Stop())
}

// closeBound is how long what was measured may take to end. It has nothing left to do.
const closeBound = 30 * time.Second

// closing is for what ends also when the measurement was stopped.
func closing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), closeBound)
}

func (s *site) connectionString() string {
	return "Endpoint=sb://" + s.server.AMQP + ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=" + sasKey + ";UseDevelopmentEmulator=true"
}

func (s *site) cosmosURL() string { return "http://" + s.server.Cosmos }

// environment is what a worker at this site is told by variables.
func (s *site) environment() []string {
	return []string{"SERVICEBUS_CONNECTION_STRING=" + s.connectionString(), "COSMOS_KEY=" + accountKey, "CRM_URL=http://" + s.server.Downstream}
}

// connect connects as a command does.
func (s *site) connect(t telemetry.Providers, log *slog.Logger, throttled func()) (process.Connections, error) {
	var p process.Settings
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	p.Register(flags)
	args := []string{"-id=bench", "-cosmos-endpoint=" + s.cosmosURL()}
	if err := p.Parse(flags, args, s.environment(), func() error { return nil }); err != nil {
		return process.Connections{}, err
	}
	return p.Connect(t, log, throttled)
}

// fill puts tasks that nobody has met yet into the queue, with this payload, and with a trace context or without.
func (s *site) fill(ctx context.Context, n int, payload string, traced bool) error {
	for n > 0 {
		batch, err := s.tasks.NewMessageBatch(ctx, nil)
		if err != nil {
			return fmt.Errorf("fill the queue: %w", err)
		}
		for n > 0 {
			m, err := s.task(s.sent, payload)
			if err != nil {
				return err
			}
			if traced {
				m.ApplicationProperties = traceContext(s.sent)
			}
			err = batch.AddMessage(m, nil)
			if errors.Is(err, azservicebus.ErrMessageTooLarge) && batch.NumMessages() > 0 {
				break // into the next
			}
			if err != nil {
				return fmt.Errorf("fill the queue: %w", err)
			}
			s.sent, n = s.sent+1, n-1
		}
		if err := s.tasks.SendMessageBatch(ctx, batch, nil); err != nil {
			return fmt.Errorf("fill the queue: %w", err)
		}
	}
	return nil
}

func (s *site) task(number int, payload string) (*azservicebus.Message, error) {
	id := fmt.Sprintf("0f6b1c52-7d0e-4c49-9a3e-%012d", number)
	now := time.Now()
	m, err := message.Task{
		ExecutionID: id, Run: 1, Type: taskType, Payload: []byte(payload), ExecutionETag: `"00000000-0000-0000-0000-000000000000"`,
		Deadline: now.Add(execution.DeadlineAfter), NotAfter: now.Add(execution.NotAfterAfter),
	}.Message(message.TaskMessageID(id, 1), now)
	if err != nil {
		return nil, err
	}
	contentType := message.ContentType
	return &azservicebus.Message{MessageID: &m.ID, CorrelationID: &m.CorrelationID, Subject: &m.Subject, ContentType: &contentType, Body: m.Body}, nil
}

// oneIn is how many traces there are for each that is sampled, where telemetry is on.
const oneIn = 10

// traceContext is what an orchestrator that samples one trace in ten writes into its messages.
func traceContext(number int) map[string]any {
	sampled := 0
	if number%oneIn == 0 {
		sampled = 1
	}
	parent := fmt.Sprintf("00-%032x-%016x-%02x", number+1, number+1, sampled)
	return map[string]any{"traceparent": parent, "Diagnostic-Id": parent}
}
