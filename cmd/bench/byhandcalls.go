package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"
)

// The calls of a loop that is written by hand.

// The bounds of its calls that are no flags of the worker.
const (
	callTimeout = 20 * time.Second // as handlers declares
	sendTimeout = servicebus.DefaultSendTimeout
)

// The kinds of its spans.
var (
	producer = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer)}
	client   = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}
	consumer = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}
)

// inOneWrite sends requests to the store as internal/cosmos does.
type inOneWrite struct{}

func (inOneWrite) Do(r *policy.Request) (*http.Response, error) {
	if err := cosmos.InOneWrite(r.Raw()); err != nil {
		return nil, err
	}
	return r.Next()
}

func (h *byHand) create(ctx context.Context, key azcosmos.PartitionKey, document []byte) (azcosmos.ItemResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, h.writing)
	defer cancel()
	return h.claims.CreateItem(ctx, key, document, nil)
}

// call makes the call and returns where its result is, and the reply.
func (h *byHand) call(ctx context.Context, t task) (location string, value []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ctx, span := h.tracer.Start(ctx, http.MethodPost, client...)
	defer span.End()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(t.Data.Payload))
	if err != nil {
		return "", nil, fmt.Errorf("call: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, application/problem+json;q=0.9, */*;q=0.1")
	r.Header.Set("User-Agent", "bench")
	r.Header.Set("Idempotency-Key", t.Data.ExecutionID)
	h.propagator.Inject(ctx, propagation.HeaderCarrier(r.Header))
	response, err := h.http.RoundTrip(r)
	if err != nil {
		return "", nil, fmt.Errorf("call: %w", err)
	}
	defer response.Body.Close()
	value, err = io.ReadAll(io.LimitReader(response.Body, claim.MaxValue))
	if err == nil && response.StatusCode != http.StatusCreated {
		err = errors.New(response.Status)
	}
	if err != nil {
		return "", nil, fmt.Errorf("call: %w", err)
	}
	return response.Header.Get("Location"), value, nil
}

// completed is the data of a TaskCompleted, and event what it travels in.
type (
	completed struct {
		ExecutionID   string `json:"taskExecutionId"`
		Run           int    `json:"run"`
		Fence         int    `json:"fence"`
		ResultRef     string `json:"resultRef"`
		ResultDigest  string `json:"resultDigest"`
		ExecutionETag string `json:"executionEtag"`
	}
	event struct {
		SpecVersion     string    `json:"specversion"`
		ID              string    `json:"id"`
		Source          string    `json:"source"`
		Type            string    `json:"type"`
		Subject         string    `json:"subject"`
		Time            time.Time `json:"time"`
		DataContentType string    `json:"datacontenttype"`
		Data            completed `json:"data"`
	}
)

func (h *byHand) publish(ctx context.Context, done completed) error {
	e := event{
		SpecVersion: "1.0", ID: done.ExecutionID + "/completed", Source: "/oneeffect/worker", Type: message.TypeCompleted,
		Subject: done.ExecutionID, Time: time.Now().UTC(), DataContentType: "application/json", Data: done,
	}
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	ctx, span := h.tracer.Start(ctx, "send task-events", producer...)
	defer span.End()
	err = h.events.SendMessage(ctx, &azservicebus.Message{
		MessageID: &e.ID, CorrelationID: &done.ExecutionID, Subject: new(message.TypeCompleted), ContentType: new(message.ContentType), Body: body,
		ApplicationProperties: h.inject(ctx),
	}, nil)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

func (h *byHand) complete(ctx context.Context, receiver *azservicebus.Receiver, m *azservicebus.ReceivedMessage) error {
	ctx, cancel := context.WithTimeout(ctx, h.settling)
	defer cancel()
	ctx, span := h.tracer.Start(ctx, "complete tasks", client...)
	defer span.End()
	if err := receiver.CompleteMessage(ctx, m, nil); err != nil {
		return fmt.Errorf("complete: %w", err)
	}
	h.settlements.Add(ctx, 1)
	return nil
}

// extract is ctx with the trace context that a message brought.
func (h *byHand) extract(ctx context.Context, properties map[string]any) context.Context {
	if len(properties) == 0 {
		return ctx
	}
	carrier := propagation.MapCarrier{}
	for _, name := range h.propagator.Fields() {
		carrier[name], _ = properties[name].(string)
	}
	return h.propagator.Extract(ctx, carrier)
}

// inject is the trace context for a message; nil if there is none.
func (h *byHand) inject(ctx context.Context) map[string]any {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	carrier, properties := propagation.MapCarrier{}, map[string]any{}
	h.propagator.Inject(ctx, carrier)
	for name, value := range carrier {
		properties[name] = value
	}
	return properties
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
