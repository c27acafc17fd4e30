package main

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"

	"oneeffect/internal/claim"
	proof "oneeffect/internal/evidence"
	"oneeffect/internal/message"
)

// signals are the modes as the evidence names them.
var signals = map[mode]string{sigkill: "SIGKILL", sigstop: "SIGSTOP, SIGCONT", alive: "none (an answer lost, or late)", sigterm: "SIGTERM"}

// openRecord begins the evidence of a run. No folder is none.
func openRecord(dir string) (*proof.Run, error) {
	if dir == "" {
		return nil, nil
	}
	revision := "unknown revision"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	const where = "emulator on this machine's loopback, one for each cell"
	return proof.NewRun(dir, proof.About{
		Purpose: "crash matrix", Program: "local crash, " + revision, ServiceBus: where, CosmosDB: where,
		Machine: fmt.Sprintf("%s/%s, %s", runtime.GOOS, runtime.GOARCH, plural(runtime.NumCPU(), "processor")),
	})
}

// record is the evidence of one cell.
func (v verdict) record() proof.Record {
	c := v.cell
	return proof.Record{
		Kind: proof.KindCell, Expected: proof.Held, Fields: v.fields,
		Cell: &proof.Cell{
			Row: c.titled(), Handler: c.kind(), Signal: signals[c.mode],
			Expected: []proof.Counts{counts(c.want, c.want)}, Observed: counts(v.saw, c.want),
		},
	}
}

// counts are the numbers of an outcome. A dead letter counts for one only with the
// reason that it must have, where there are as many as there must be.
func counts(o, want outcome) proof.Counts {
	dead := len(o.DeadLetters)
	if dead == len(want.DeadLetters) {
		for i, reason := range o.DeadLetters {
			if reason != want.DeadLetters[i] {
				dead--
			}
		}
	}
	return proof.Counts{Effects: o.Effects, Completions: o.Completions, DeadLetters: dead, Failures: o.Failures}
}

// fields are the ten of the record, each from where the thing is kept.
func (s *stage) fields(saw outcome, failed error) proof.Fields {
	p := s.cell.point
	f := proof.Fields{
		EventKey: s.id, BusinessEntity: "execution " + s.id, Version: max(int64(saw.Runs), 1),
		DeliveryAttempt: s.attempts(),
		ReceiptState:    "no claim was read",
		SideEffect:      plural(saw.Effects, "effect") + " in the downstream's ledger",
		ResidualRisk:    []string{"Processes were caught at operations that others can see, not at every instruction."},
	}
	if c := s.claim; c.ID != "" {
		f.ReceiptState = fmt.Sprintf("claim %s, run %d, fence %d", c.Status, c.Run, c.Fence)
	}
	calls := s.events.count(func(e event) bool { return e.Service == "downstream" && e.Kind == "call" })
	f.DuplicateDecision = fmt.Sprintf("%s, %s, %s", plural(len(f.DeliveryAttempt), "attempt"), plural(calls, "call"), plural(saw.Completions, "completion"))
	f.OrderingDecision = fmt.Sprintf("%s of the claim refused, since it had changed", plural(s.refused("claims"), "write"))
	switch {
	case p.program == "projector":
		f.EventKey, f.BusinessEntity, f.Version = reservationKey(s.id), s.id, 2
		f.ReceiptState, f.SideEffect = "receipt and item are one batch", plural(saw.Effects, "reservation")+" taken from the stock"
		f.DuplicateDecision = plural(len(f.DeliveryAttempt), "attempt") + ", " + plural(saw.Effects, "effect")
		f.OrderingDecision = fmt.Sprintf("%s of the inventory refused", plural(s.refused("inventory"), "write"))
	case s.cell.isKeyed:
		f.ResidualRisk = append(f.ResidualRisk, "One effect rests on the downstream, which knows a key for as long as it says and no longer.")
	case s.claim.Failure != nil && s.claim.Failure.Reason == claim.OutcomeUnknown:
		f.ResidualRisk = append(f.ResidualRisk, "Whether the call had its effect is not known here: a person has to look, and may be wrong.")
	}
	f.Evidence = s.observations(saw, failed)
	return f
}

// observations are what this run has seen, and what follows from it.
func (s *stage) observations(saw outcome, failed error) proof.Evidence {
	e := proof.Evidence{
		VendorFacts: []proof.VendorFact{},
		LocalObservations: []proof.Observation{
			{Source: "downstream, execution, broker", Saw: saw.String()},
		},
		Inference: []string{"The process has no part in its being caught: it is held, or left without an answer, by the emulators."},
	}
	for _, event := range s.events.seen {
		if reached(event) {
			e.LocalObservations = append(e.LocalObservations, proof.Observation{
				Source: "emulators", Saw: fmt.Sprintf("event %d: %s %s of %s by %s", event.Seq, event.Service, event.Operation, event.Entity, event.Client),
			})
			break
		}
	}
	if failed != nil {
		e.LocalObservations = append(e.LocalObservations, proof.Observation{Source: "driver", Saw: failed.Error()})
	}
	return e
}

// refused is how many writes found something else than they expected.
func (s *stage) refused(container string) int {
	return s.events.count(func(e event) bool {
		return e.Service == "cosmos" && e.Entity == container && (e.Status == http.StatusPreconditionFailed || e.Status == http.StatusConflict)
	})
}

// attempts are the deliveries of what the cell is about, and how each ended.
func (s *stage) attempts() []proof.Attempt {
	entity := message.Tasks
	if s.cell.point.program == "projector" {
		entity = inventory
	}
	var attempts []proof.Attempt
	open := map[int64]int{} // by the broker's number of the message
	for _, e := range s.events.seen {
		if e.Entity != entity || e.Key == countMessage {
			continue
		}
		i, known := open[e.Sequence]
		switch {
		case e.Kind == "delivered":
			open[e.Sequence] = len(attempts)
			attempts = append(attempts, proof.Attempt{
				Transport: "servicebus", ID: e.Key, Count: e.Delivery, Sequence: e.Sequence, Process: e.Client, Ended: "nothing more was heard",
			})
		case known && e.Kind == "settled":
			attempts[i].Ended = e.Disposition
		case known && e.Kind == "lock-expired":
			attempts[i].Ended = "lock expired"
			if s.victim != nil && attempts[i].Process == s.victim.name {
				attempts[i].Ended += " after " + signals[s.cell.mode]
			}
		}
	}
	return attempts
}
