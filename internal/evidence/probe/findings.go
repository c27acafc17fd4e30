package probe

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"oneeffect/internal/evidence"
	"oneeffect/internal/message"
	"oneeffect/internal/receipt"

	"github.com/go-json-experiment/json"
)

// findings are what one case has seen so far. What a record says of them is worked out
// from them, and not from what is expected.
type findings struct {
	c        evidence.Case
	keys     []string // whose receipts are looked for
	attempts []evidence.Attempt
	seen     []evidence.Observation
	event    evidence.Sent
	states   []evidence.State
}

func found(c evidence.Case) *findings { return &findings{c: c, keys: []string{c.EventKey}} }

func (f *findings) saw(source, format string, args ...any) {
	f.seen = append(f.seen, evidence.Observation{Source: source, Saw: fmt.Sprintf(format, args...)})
}

func (f *findings) sent(s evidence.Sent, saw string) {
	f.event = s
	f.seen = append(f.seen, evidence.Observation{Source: "producer", Saw: saw, Sent: &s})
}

func (f *findings) attempt(a evidence.Attempt) {
	f.attempts = append(f.attempts, a)
	if a.Transport == "servicebus" {
		f.saw("broker", "message %s (sequence number %d) delivered, delivery %d, to %s; its end: %s", a.ID, a.Sequence, a.Count, a.Process, a.Ended)
	}
}

// look reads what the store holds, and notes it.
func (p *Probes) look(ctx context.Context, f *findings, store receipt.Store, when string) error {
	s, err := p.read(ctx, f, store)
	if err != nil {
		return fmt.Errorf("look %s: %w", when, err)
	}
	f.note(s, when)
	return nil
}

// again is the pause between two looks.
const again = 200 * time.Millisecond

// lookChanged is look after another process has written, which it has told. A replica
// may not have that yet, and this process has no session in which it must: so it looks
// until something has changed, for as long as an operation may take.
func (p *Probes) lookChanged(ctx context.Context, f *findings, store receipt.Store, when string) error {
	before := f.states[len(f.states)-1]
	bounded, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	pause := time.NewTicker(again)
	defer pause.Stop()
	for {
		s, err := p.read(ctx, f, store)
		if err != nil {
			return fmt.Errorf("look %s: %w", when, err)
		}
		if changed := !reflect.DeepEqual(s, before); changed || bounded.Err() != nil {
			f.note(s, when)
			return nil
		}
		select {
		case <-pause.C:
		case <-bounded.Done():
		}
	}
}

func (f *findings) note(s evidence.State, when string) {
	f.states = append(f.states, s)
	f.seen = append(f.seen, evidence.Observation{Source: "store", Saw: when + ": " + s.String() + " of this event", State: &s})
}

// read reads the item, and the receipts that matter to the case.
func (p *Probes) read(ctx context.Context, f *findings, store receipt.Store) (evidence.State, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	s := evidence.State{Receipts: []evidence.ReceiptSeen{}}
	stored, err := store.Item(ctx, f.c.Entity)
	if err != nil && !errors.Is(err, message.ErrNotFound) {
		return s, err
	}
	s.Version, s.Stock = stored.Item.Version, stored.Item.Stock
	if len(stored.Item.State) > 0 {
		content, err := message.Canonical(stored.Item.State)
		if err != nil {
			return s, err
		}
		s.Content = string(content)
	}
	for _, key := range f.keys {
		r, err := store.Receipt(ctx, f.c.Entity, key)
		if errors.Is(err, message.ErrNotFound) {
			continue
		}
		if err != nil {
			return s, err
		}
		s.Receipts = append(s.Receipts, evidence.ReceiptSeen{
			Key: r.Key, Digest: r.Digest, Outcome: string(r.Outcome), Version: r.Version, Found: r.Found,
			Gap: r.Gap, Delta: r.Delta, Writer: r.W, Delivery: r.Delivery,
		})
	}
	return s, nil
}

// record is the record of a case that was carried out.
func (f *findings) record() evidence.Record {
	r := f.blank()
	first, last := f.states[0], f.states[len(f.states)-1]
	before := f.states[len(f.states)-2]
	r.Fields = evidence.Fields{
		EventKey: f.event.EventKey, BusinessEntity: f.event.Entity, Version: f.event.Version, DeliveryAttempt: f.attempts,
		ReceiptState:      receiptState(f.states),
		SideEffect:        sideEffect(f.event, first, last),
		DuplicateDecision: f.duplicateDecision(before, last),
		OrderingDecision:  f.orderingDecision(before, last),
		Evidence:          evidence.Evidence{LocalObservations: f.seen},
	}
	f.say(&r)
	if got := r.Class(); got != f.c.Expected {
		r.Evidence.Inference = []string{fmt.Sprintf("The observations come to %s where %s was expected: nothing of what this case was to show can be concluded.", got, f.c.Expected)}
		r.ResidualRisk = append([]string{"All of it: the case did not come out as expected."}, r.ResidualRisk...)
	}
	return r
}

// say adds what is known of the case beside what was seen.
func (f *findings) say(r *evidence.Record) {
	says := words(f.c)
	r.Evidence.VendorFacts = []evidence.VendorFact{}
	for _, c := range says.facts {
		r.Evidence.VendorFacts = append(r.Evidence.VendorFacts, evidence.Sources()[c.source].Fact(c.claim))
	}
	r.Evidence.Inference, r.ResidualRisk = says.inference, says.risk
}

// blank is a record of the case in which nothing has been seen yet.
func (f *findings) blank() evidence.Record {
	return evidence.Record{
		Kind: evidence.KindProbe, Expected: f.c.Expected,
		Probe: &evidence.Probe{Number: f.c.Probe, Name: f.c.Name, Case: f.c.Case, Sense: f.c.Sense},
	}
}

func receiptState(states []evidence.State) string {
	texts := make([]string, len(states))
	for i, s := range states {
		texts[i] = "none"
		for _, r := range s.Receipts {
			texts[i] = fmt.Sprintf("%s, version %d, written for %s", r.Outcome, r.Version, r.Delivery)
		}
	}
	return strings.Join(texts, " → ")
}

func sideEffect(e evidence.Sent, first, last evidence.State) string {
	switch {
	case e.Content != "" && first.Content == last.Content:
		return "none: the resource stays " + last.Content
	case e.Content != "":
		return fmt.Sprintf("the resource was %s and is %s", orNothing(first.Content), last.Content)
	case first.Stock == last.Stock:
		return fmt.Sprintf("none: the stock stays %d", last.Stock)
	}
	times := ""
	if e.Delta != 0 && (last.Stock-first.Stock)%e.Delta == 0 {
		times = fmt.Sprintf(", which is %d times %+d", (last.Stock-first.Stock)/e.Delta, e.Delta)
	}
	return fmt.Sprintf("the stock was %d and is %d%s", first.Stock, last.Stock, times)
}

func orNothing(content string) string {
	if content == "" {
		return "nothing"
	}
	return content
}

// duplicateDecision says what the last attempt found under the key.
func (f *findings) duplicateDecision(before, after evidence.State) string {
	last := f.attempts[len(f.attempts)-1]
	switch {
	case len(before.Receipts) == 0 && last.Reported == "" && len(f.attempts) > 1:
		return "not recognised: the effect of the attempt before had left no receipt, so the event was taken for a new one"
	case len(before.Receipts) == 0:
		return "no duplicate: there was no receipt under this key"
	case len(after.Receipts) == 0:
		return "the receipt that stood under this key is gone"
	case before.Receipts[0] == after.Receipts[0] && before.Receipts[0].Digest == f.event.Digest:
		return fmt.Sprintf("a duplicate: the receipt that delivery %s left stands under this key, with the same digest; this attempt is %s, delivery %d", before.Receipts[0].Delivery, last.ID, last.Count)
	}
	return "the receipt under this key was changed, or is another event's"
}

// orderingDecision compares the event's version with the one that the last attempt found.
func (f *findings) orderingDecision(before, after evidence.State) string {
	last := f.attempts[len(f.attempts)-1]
	switch {
	case last.Reported == "":
		return "none was made: the broken variant has no version rule"
	case len(before.Receipts) > 0:
		return "not asked: a duplicate is decided by its receipt alone"
	case f.event.Version > before.Version:
		return fmt.Sprintf("in order: version %d is greater than %d", f.event.Version, before.Version)
	}
	return fmt.Sprintf("stale: version %d is not greater than %d, and the version stays %d", f.event.Version, before.Version, after.Version)
}

// subjectRecord is a record about a record.
func subjectRecord(c evidence.Case, subject evidence.Fields) ([]evidence.Record, error) {
	text, err := json.Marshal(subject)
	if err != nil {
		return nil, err
	}
	missing := strings.Join(subject.Missing(), ", ")
	f := findings{c: c}
	r := f.blank()
	r.Probe.Subject = text
	r.Fields = subject
	r.Evidence = evidence.Evidence{LocalObservations: []evidence.Observation{{Source: "record", Saw: fmt.Sprintf("of the ten fields of the subject, these are missing: %s; everything else is that of %s", orNothing(missing), evidence.Baseline)}}}
	f.say(&r)
	return []evidence.Record{r}, nil
}
