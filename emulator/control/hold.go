package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// ErrNoRule is returned for a rule that is not armed, or not any more.
var ErrNoRule = errors.New("no such rule is armed")

// ErrNotReached is returned by Release for a rule that has not fired since it
// was armed or last released.
var ErrNotReached = errors.New("the rule has not been reached")

const rulesKept = 1024

// armed is a rule at work. rule and body never change; the rest is guarded by Hub.mu.
type armed struct {
	rule Rule
	body []bodyMatch

	disarmed       bool
	random         *rand.Rand // nil without Probability
	matched, fired int
	held           []*hold
	reached        *Firing // the first firing since the last release
	gone           *Firing // the first of those whose peer has gone
	changed        chan struct{}
}

// hold is one operation that a rule keeps waiting.
type hold struct {
	firing   *Firing
	ended    bool     // guarded by Hub.mu
	decision Decision // written before released is closed
	released chan struct{}
}

// Before asks the rules about an operation that has not been applied. It blocks
// while a rule holds or delays it. ctx is the peer's life: it ends when the
// peer's connection or request has gone.
func (h *Hub) Before(ctx context.Context, op Op) Decision { return h.ask(ctx, "before", op) }

// After asks the rules about an operation that has been applied and not been
// answered. Whatever it decides, the operation stays applied.
func (h *Hub) After(ctx context.Context, op Op) Decision { return h.ask(ctx, "after", op) }

func (h *Hub) ask(ctx context.Context, when string, op Op) Decision {
	h.mu.Lock()
	rules := h.rules // needs no copy: arming appends, and disarming replaces the slice
	i, known := h.isolation[op.Client]
	isolated := known && i.isolated
	h.mu.Unlock()
	if isolated {
		return Decision{Kind: Silence}
	}
	for _, r := range rules {
		if !r.about(when, op) {
			continue
		}
		held, fired := h.fire(r, op)
		if !fired {
			continue
		}
		decision := r.decision()
		if held != nil {
			decision = h.wait(ctx, r, held)
		}
		if decision.Kind != Proceed {
			return decision
		}
	}
	return Decision{}
}

// decision is what a rule that does not wait decides.
func (r *armed) decision() Decision {
	kinds := map[string]Kind{"drop": Drop, "answer": Answer, "detach": Detach, "close": Close, "lose-lock": LoseLock, "reset": Reset, "silence": Silence}
	return Decision{
		Kind:        kinds[r.rule.Do],
		Status:      r.rule.Status,
		Condition:   r.rule.Condition,
		Description: r.rule.Description,
		RetryAfter:  time.Duration(r.rule.RetryAfter),
	}
}

// fire counts a matching operation and reports whether the rule fires at it. A
// rule that makes it wait holds it from here on, under the same lock, so that
// whoever sees the rule reached can release it at once.
func (h *Hub) fire(r *armed, op Op) (*hold, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.disarmed {
		return nil, false
	}
	r.matched++
	if r.rule.Nth != 0 && r.matched != r.rule.Nth ||
		r.rule.Times != 0 && r.fired >= r.rule.Times ||
		r.random != nil && r.random.Float64() >= r.rule.Probability {
		return nil, false
	}
	r.fired++
	firing := &Firing{Op: op}
	if r.reached == nil {
		r.reached = firing
	}
	h.recordRule("rule-reached", r, op, "")
	r.notify()
	if r.rule.Do != "hold" && r.rule.Do != "delay" {
		return nil, true
	}
	held := &hold{firing: firing, released: make(chan struct{})}
	r.held = append(r.held, held)
	if h.isClosed() {
		h.end(r, held, Decision{Kind: Drop})
	}
	return held, true
}

// wait blocks the caller until its hold has ended.
func (h *Hub) wait(ctx context.Context, r *armed, held *hold) Decision {
	gone, isolated := ctx.Done(), h.IsolatedC(held.firing.Op.Client)
	var passed <-chan time.Time
	if r.rule.Do == "delay" {
		timer := time.NewTimer(time.Duration(r.rule.Delay))
		defer timer.Stop()
		passed = timer.C
	}
	for {
		select {
		case <-held.released:
			return held.decision
		case <-passed:
			h.mu.Lock()
			h.end(r, held, Decision{})
			h.mu.Unlock()
		case <-gone:
			h.peerGone(r, held, Decision{Kind: Drop})
			gone, isolated = nil, nil
		case <-isolated:
			h.peerGone(r, held, Decision{Kind: Silence})
			gone, isolated = nil, nil
		}
	}
}

// peerGone notes that nobody waits for a held operation's answer any more, and
// ends the hold with a decision unless the rule is late.
func (h *Hub) peerGone(r *armed, held *hold, decision Decision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held.ended {
		return // released first: that stands
	}
	held.firing.PeerGone = true
	if r.gone == nil {
		r.gone = held.firing
	}
	h.recordRule("peer-gone", r, held.firing.Op, "")
	if !r.rule.Late {
		h.end(r, held, decision)
	}
	r.notify()
}

// end lets a held operation go on with a decision, once. The caller holds h.mu.
func (h *Hub) end(r *armed, held *hold, decision Decision) {
	if held.ended {
		return
	}
	held.ended = true
	held.decision = decision
	close(held.released)
	r.held = slices.DeleteFunc(r.held, func(other *hold) bool { return other == held })
}

// notify wakes whoever waits for a change of the rule. The caller holds h.mu.
func (r *armed) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// releaseHeld ends all that a rule holds. The caller holds h.mu.
func (h *Hub) releaseHeld(r *armed, decision Decision, how string) {
	for _, held := range slices.Clone(r.held) {
		h.recordRule("rule-released", r, held.firing.Op, how)
		h.end(r, held, decision)
	}
	r.reached, r.gone = nil, nil
	r.notify()
}

// recordRule logs what became of an operation at a rule. The caller holds h.mu.
func (h *Hub) recordRule(kind string, r *armed, op Op, reason string) {
	h.Record(Event{
		Service: op.Service, Kind: kind, Entity: op.Entity, Client: op.Client, Key: op.Key,
		Operation: op.Operation, Rule: r.rule.Name, Reason: reason,
	})
}

// Arm puts a rule to work and returns its name. An error names every mistake in it.
func (h *Hub) Arm(rule Rule) (string, error) {
	if rule.When == "" {
		rule.When = "before"
	}
	body, err := rule.check()
	if err != nil {
		return "", fmt.Errorf("arm a rule: %w", err)
	}
	r := &armed{rule: rule, body: body, changed: make(chan struct{})}
	if rule.Probability > 0 {
		r.random = rand.New(rand.NewPCG(rule.Seed, rule.Seed))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isClosed() {
		return "", fmt.Errorf("arm a rule: %w", ErrClosed)
	}
	if len(h.rules) >= rulesKept {
		return "", fmt.Errorf("arm a rule: %d are armed already, the most there may be; disarm some", rulesKept)
	}
	for r.rule.Name == "" {
		h.named++
		if name := fmt.Sprintf("rule-%d", h.named); h.find(name) == nil {
			r.rule.Name = name
		}
	}
	if h.find(r.rule.Name) != nil {
		return "", fmt.Errorf("arm a rule: name %q is taken: choose another or disarm that rule", r.rule.Name)
	}
	h.setRules(append(h.rules, r))
	return r.rule.Name, nil
}

// Concerns reports whether any rule could match an operation, whatever its body, which need not be filled in. It is
// cheap: a dialect asks it for every operation, and only if it says so hands the operation to a goroutine of its own,
// since Before and After may block.
func (h *Hub) Concerns(op Op) bool {
	rules := h.concerns.Load()
	return rules != nil && slices.ContainsFunc(*rules, func(r *armed) bool { return r.rule.Match.covers(op) })
}

// setRules replaces the rules. The caller holds h.mu.
func (h *Hub) setRules(rules []*armed) {
	h.rules = rules
	h.concerns.Store(&rules)
}

// find returns the armed rule of a name, or nil. The caller holds h.mu.
func (h *Hub) find(name string) *armed {
	i := slices.IndexFunc(h.rules, func(r *armed) bool { return r.rule.Name == name })
	if i < 0 {
		return nil
	}
	return h.rules[i]
}

// Disarm takes a rule away and releases what it holds with "go".
func (h *Hub) Disarm(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.find(name)
	if r == nil {
		return fmt.Errorf("disarm rule %q: %w", name, ErrNoRule)
	}
	r.disarmed = true
	h.setRules(slices.DeleteFunc(slices.Clone(h.rules), func(other *armed) bool { return other == r }))
	h.releaseHeld(r, Decision{}, "disarmed")
	return nil
}

// Release lets go of everything a rule holds now, or, where its peer went away,
// held. The rule stays armed, and WaitReached waits for its next firing.
func (h *Hub) Release(name string, how Release) error {
	decision, err := how.decision()
	if err != nil {
		return fmt.Errorf("release rule %q: %w", name, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.find(name)
	if r == nil {
		return fmt.Errorf("release rule %q: %w", name, ErrNoRule)
	}
	if r.reached == nil {
		return fmt.Errorf("release rule %q: %w since it was armed or last released", name, ErrNotReached)
	}
	h.releaseHeld(r, decision, how.Action)
	return nil
}

// WaitReached waits until a rule has fired at least once since it was armed or
// last released, and returns the first such firing.
func (h *Hub) WaitReached(ctx context.Context, name string) (Firing, error) {
	firing, err := h.waitRule(ctx, name, func(r *armed) *Firing { return r.reached })
	if err != nil {
		return Firing{}, fmt.Errorf("wait until rule %q is reached: %w", name, err)
	}
	return firing, nil
}

// WaitPeerGone waits until the peer of an operation that the rule held since its
// last release has gone away.
func (h *Hub) WaitPeerGone(ctx context.Context, name string) error {
	_, err := h.waitRule(ctx, name, func(r *armed) *Firing { return r.gone })
	if err != nil {
		return fmt.Errorf("wait until the peer at rule %q is gone: %w", name, err)
	}
	return nil
}

func (h *Hub) waitRule(ctx context.Context, name string, happened func(*armed) *Firing) (Firing, error) {
	h.mu.Lock()
	r := h.find(name)
	h.mu.Unlock()
	if r == nil {
		return Firing{}, ErrNoRule
	}
	for {
		h.mu.Lock()
		disarmed, changed := r.disarmed, r.changed
		if firing := happened(r); firing != nil {
			defer h.mu.Unlock()
			return *firing, nil
		}
		h.mu.Unlock()
		if disarmed {
			return Firing{}, ErrNoRule
		}
		select {
		case <-changed:
		case <-h.closed:
			return Firing{}, ErrClosed
		case <-ctx.Done():
			return Firing{}, context.Cause(ctx)
		}
	}
}

// Rules lists the armed rules in the order in which operations ask them.
func (h *Hub) Rules() []RuleState {
	h.mu.Lock()
	defer h.mu.Unlock()
	states := make([]RuleState, 0, len(h.rules))
	for _, r := range h.rules {
		states = append(states, r.state())
	}
	return states
}

// state is a snapshot. The caller holds Hub.mu.
func (r *armed) state() RuleState {
	return RuleState{
		Rule: r.rule, Matched: r.matched, Fired: r.fired, Held: len(r.held),
		Reached: r.reached != nil, PeerGone: r.gone != nil,
	}
}
