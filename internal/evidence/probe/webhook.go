package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"oneeffect/internal/evidence"
	"oneeffect/internal/message"
	"oneeffect/internal/projector"
	"oneeffect/internal/receipt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of one webhook.
const (
	webhookBody   = 16 << 10
	webhookBudget = 20 * time.Second
)

// hooks is a server of webhooks on this machine's loopback, and who signs for it.
type hooks struct {
	url    string
	secret []byte
	client http.Client
}

// serve runs the projector's webhooks until stop is called.
func (p *Probes) serve(ctx context.Context) (h *hooks, stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("listen for webhooks: %w", err)
	}
	h = &hooks{url: "http://" + listener.Addr().String() + "/webhooks/" + evidence.Source4401, secret: []byte(rand.Text()), client: http.Client{Timeout: webhookBudget + patience}}
	server := http.Server{
		Handler: (&projector.Webhooks{
			Book: p.book(p.Webhooks), Secrets: map[string][][]byte{evidence.Source4401: {h.secret}}, MaxBody: webhookBody,
			Budget: webhookBudget, Slots: make(chan struct{}, 1), Counters: p.Counters, Log: slog.New(&witness{Handler: p.Log.Handler()}),
		}).Handler(),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: webhookBudget, WriteTimeout: webhookBudget + patience,
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // it ends by Close
	}()
	return h, func() {
		h.client.CloseIdleConnections()
		_ = server.Close()
		<-ended
	}, nil
}

// webhook carries the rules over to a consumer of another kind.
func (p *Probes) webhook(ctx context.Context, cases []evidence.Case) ([]evidence.Record, error) {
	entity := cases[0].Entity
	keys := []string{cases[0].EventKey, cases[2].EventKey}
	if err := p.Unguarded.clear(ctx, webhooks, entity, keys...); err != nil {
		return nil, fmt.Errorf("remove what an earlier run has left: %w", err)
	}
	h, stop, err := p.serve(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	gold := message.Change{RequestID: evidence.RequestID, Resource: evidence.Resource, Version: cases[0].Version, State: jsontext.Value(`{"tier":"gold"}`)}
	silver := message.Change{RequestID: evidence.LaterRequest, Resource: evidence.Resource, Version: cases[2].Version, State: jsontext.Value(`{"tier":"silver"}`)}
	var records []evidence.Record
	for i, change := range []message.Change{gold, gold, silver} {
		f := found(cases[i])
		err := inTurn(
			func() error { return p.look(ctx, f, p.Webhooks, "before the request") },
			func() error { return p.request(ctx, f, h, change) },
			func() error { return p.look(ctx, f, p.Webhooks, "after the answer") },
		)
		if err != nil {
			return records, fmt.Errorf("%s: %w", cases[i].Case, err)
		}
		records = append(records, f.record())
	}
	return records, nil
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

// request signs one attempt and sends it.
func (p *Probes) request(ctx context.Context, f *findings, h *hooks, change message.Change) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	e, err := receipt.FromWebhook(evidence.Source4401, change)
	if err != nil {
		return err
	}
	content, err := message.Canonical(change.State)
	if err != nil {
		return err
	}
	id := f.c.Deliveries[0]
	now := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(projector.HeaderTimestamp, fmt.Sprint(now.Unix()))
	req.Header.Set(projector.HeaderSignature, projector.Sign(h.secret, now, body))
	req.Header.Set(projector.HeaderDelivery, id)
	f.sent(evidence.Sent{EventKey: e.Key, Entity: e.Entity, Version: e.Version, Digest: e.Digest, Content: string(content)},
		fmt.Sprintf("request %s about %s at version %d sent as delivery %s: %s", change.RequestID, change.Resource, change.Version, id, content))
	answer, err := h.client.Do(req)
	if err != nil {
		return fmt.Errorf("send the webhook: %w: %w", message.ErrUnknown, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w: %w", message.ErrUnknown, err)
	}
	var told struct {
		Class evidence.Class `json:"class"`
	}
	if err := json.Unmarshal(text, &told); err != nil {
		return fmt.Errorf("read the answer %s: %w", answer.Status, err)
	}
	f.attempt(evidence.Attempt{Transport: "http", ID: id, Count: 1, Process: processName(), Ended: answer.Status, Reported: told.Class})
	f.saw("http", "%s: %s", answer.Status, bytes.TrimSpace(text))
	return nil
}
