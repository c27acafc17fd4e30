package preflight

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"oneeffect/internal/cosmos"
	"oneeffect/internal/servicebus"
)

// Options say which endpoints are asked.
type Options struct {
	Store  cosmos.Options
	Broker servicebus.Options

	// Queue is an empty queue for the probes alone, with a lock of LockFor, MaxDelivery
	// deliveries and duplicate detection. Without one, a queue is made and deleted,
	// which needs the right to manage the namespace.
	Queue string
}

// What the probes' queue must have.
const (
	LockFor     = 5 * time.Second
	MaxDelivery = 3
)

// Verdict is what one probe came to.
type Verdict struct {
	Probe    string `json:"probe"`
	Reliance string `json:"reliance"` // what is relied on
	Sent     string `json:"sent"`
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
	Holds    bool   `json:"holds"`
}

// probe is one question to an endpoint.
type probe[on any] struct {
	name, reliance, sent, expected string
	ask                            func(ctx context.Context, endpoint on) (seen string, holds bool, err error)
}

// limit bounds one probe (F4).
const limit = time.Minute

// Run asks both endpoints everything. An error says that the options are of no use;
// whatever an endpoint does is in its verdicts.
func Run(ctx context.Context, o Options) ([]Verdict, error) {
	o.Store.Database = cmp.Or(o.Store.Database, cosmos.DefaultDatabase)
	nonce := rand.Text()
	s, err := openStore(o.Store, nonce)
	if err != nil {
		return nil, fmt.Errorf("preflight: %w", err)
	}
	defer s.client.Close()
	var ofStore, ofBroker []Verdict
	var both sync.WaitGroup
	both.Go(func() { ofStore = askAll(ctx, s, storeProbes) })
	both.Go(func() { ofBroker = askBroker(ctx, o, nonce) })
	both.Wait()
	return append(ofStore, ofBroker...), nil
}

func askBroker(ctx context.Context, o Options, nonce string) []Verdict {
	b, err := openBroker(ctx, o, nonce)
	if err != nil {
		return unasked(brokerProbes, err)
	}
	defer b.close(ctx)
	return askAll(ctx, b, brokerProbes)
}

func askAll[on any](ctx context.Context, endpoint on, probes []probe[on]) []Verdict {
	var verdicts []Verdict
	for _, p := range probes {
		verdicts = append(verdicts, p.run(ctx, endpoint))
	}
	return verdicts
}

func (p probe[on]) run(ctx context.Context, endpoint on) Verdict {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	v := p.verdict()
	seen, holds, err := p.ask(bounded, endpoint)
	v.Seen, v.Holds = seen, holds && err == nil
	if err != nil {
		v.Seen = "not known: " + errors.Join(err, ctx.Err()).Error()
	}
	return v
}

func (p probe[on]) verdict() Verdict {
	return Verdict{Probe: p.name, Reliance: p.reliance, Sent: p.sent, Expected: p.expected}
}

// unasked are the verdicts of probes that had nothing to ask (F1).
func unasked[on any](probes []probe[on], why error) []Verdict {
	var verdicts []Verdict
	for _, p := range probes {
		v := p.verdict()
		v.Seen = "not asked: " + why.Error()
		verdicts = append(verdicts, v)
	}
	return verdicts
}
