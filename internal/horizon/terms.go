package horizon

import (
	"cmp"
	"time"
)

// terms are the settings as amounts, each with its symbol.
type terms struct {
	Settings
	lock, maxDelivery, ttl, window     amount // of the queue
	eventLock, eventDelivery, eventTTL amount

	lease, renewal, ownerMargin, challengerMargin amount
	busy, buffered, publish, keyMargin, keep      amount
	attempts                                      amount
	store, settle, grace                          amount // the worker's
	taskLife                                      amount

	send, relayAge, relayPeriod                        amount
	reconcileAge, reconcilePeriod, reconcileBudget     amount
	firstRedispatch, replayAge, unknownAge, outage     amount
	reconciler, official, keepExecutions, keepReceipts amount

	takeover amount // how long a dead owner's task rests

	handlers  []handler
	processes []process
	entities  []entity
}

func termsOf(s Settings) terms {
	w, o := s.Worker, s.Orchestrator
	t := terms{
		Settings:    s,
		lock:        setting("L", "lock of the queue", "", s.Tasks.Lock),
		maxDelivery: setting("N", "max delivery count of the queue", "", s.Tasks.MaxDelivery),
		ttl:         setting("Q", "time to live of a task message", "", s.Tasks.TTL),
		window:      setting("D", "duplicate detection window of the queue", "", s.Tasks.DuplicateWindow),

		eventLock:     setting("L_ev", "lock of the subscription to task events", "", s.Events.Lock),
		eventDelivery: setting("N_ev", "its max delivery count", "", s.Events.MaxDelivery),
		eventTTL:      setting("T_ev", "time to live of a task event", "", s.Events.TTL),

		lease:            setting("ℓ", "lease of a claim", "", w.Lease),
		renewal:          setting("R", "time between two renewals of a lease", "", w.Renewal),
		ownerMargin:      setting("m_o", "an owner stops trusting its lease so long before it ends", "", w.OwnerMargin),
		challengerMargin: setting("m_s", "another waits so long after it ended", "", w.ChallengerMargin),
		busy:             setting("w_b", "how long a delivery waits in the worker for a lease to end", "", w.BusyWait),
		buffered:         setting("w_l", "how long a message waits in the worker for a free slot", "", w.Buffered),
		publish:          setting("T_p", "budget of publishing one event", "", w.PublishTimeout),
		keyMargin:        setting("m_k", "a downstream's key window is taken to end so much earlier", "", w.KeyMargin),
		keep:             setting("T_c", "how long a claim is kept after its last write", "", w.Keep),
		attempts:         setting("A", "starts of one task", "", w.MaxAttempts),
		store:            setting("T_w", "one operation of the store, its retries included", "the worker", w.StoreTimeout),
		settle:           setting("T_s", "bound of settling one message", "the worker", w.SettleTimeout),
		grace:            setting("G", "from SIGTERM to the end of a process", "the worker", w.Grace),
		taskLife:         setting("H_msg", "life of a task, from its creation to notAfter", "", s.TaskLife),

		send:            setting("T_send", "sending one task, its retries included", "", o.SendTimeout),
		relayAge:        setting("T_relay", "age from which on the relay takes an outbox entry", "", o.RelayAge),
		relayPeriod:     setting("P_relay", "time between two rounds of the relay", "", o.RelayPeriod),
		reconcileAge:    setting("X", "age from which on the reconciler takes an execution", "", o.ReconcileAge),
		reconcilePeriod: setting("P", "time between two rounds of the reconciler", "", o.ReconcilePeriod),
		reconcileBudget: setting("T_x", "bound of one round of the reconciler", "", o.ReconcileBudget),
		firstRedispatch: setting("X_1", "age at which a task is first sent again", "", o.FirstRedispatch),
		replayAge:       setting("A_dl", "age up to which a dead letter may be replayed", "", o.ReplayAge),
		unknownAge:      setting("A_u", "age from which on a dead letter of unknown outcome may be replayed", "", o.UnknownReplayAge),
		outage:          setting("Y", "outage of the store that is tolerated", "", o.Outage),
		reconciler:      setting("the reconciler", "whether the orchestrator reads the claims of old executions", "", o.Reconciler),
		official:        setting("the official emulator", "whether the entities are its", "", s.Official),
		keepExecutions:  setting("T_e", "how long an execution is kept after its last write", "", s.Store.KeepExecutions),
		keepReceipts:    setting("T_r", "how long a receipt is kept", "", s.Projector.KeepReceipts),
	}
	t.takeover = longer(t.lock, t.lease.plus(t.challengerMargin))
	t.handlers, t.processes, t.entities = handlersOf(t), processesOf(s), entitiesOf(s)
	return t
}

// handler is one handler's terms.
type handler struct {
	keyed                          bool
	call, window, answers, backoff amount
	result                         amount
	attempt                        amount // T_h
	story                          amount // S
}

// handlersOf are the declared ones. Where none is known, one of each kind is there
// whose every number is missing.
func handlersOf(t terms) []handler {
	declared := t.Handlers
	if len(declared) == 0 {
		declared = []Handler{{Keyed: true}, {}}
	}
	all := make([]handler, len(declared))
	for i, d := range declared {
		h := handler{
			keyed:   d.Keyed,
			call:    setting("T_call", "one call of the downstream", "the handlers", d.Call),
			window:  setting("W_k", "how long the downstream remembers a key", "the handlers", d.KeyWindow),
			answers: setting("a", "calls of one run that may end unknown", "the handlers", d.Attempts),
			backoff: setting("B", "longest wait between two calls", "the handlers", d.BackoffMax),
		}
		calls := setting("k", "calls of one attempt, one for each step", "the handlers", d.Calls)
		h.result = sized("V", "bytes of a reply that are kept", "the handlers", d.Result).times(calls)
		h.attempt = t.store.plus(h.call.plus(t.store).times(calls)).
			as("T_h", "one attempt, from the claim to the result in it", "an attempt", h.call, t.store)
		// Every start dies at its end, waits for lock and lease to run out, and backs off.
		h.story = h.attempt.plus(t.publish).plus(t.takeover).plus(t.busy).plus(h.backoff).times(t.attempts).
			as("S", "the longest automatic story", "the longest story of "+cmp.Or(d.Type, "a task"), t.attempts, h.backoff)
		all[i] = h
	}
	return all
}

// process is what every process has.
type process struct {
	name                                         string
	store, settle, renewal, grace, preStop, term amount
	containerApps                                amount
}

func processesOf(s Settings) []process {
	var all []process
	for _, p := range []struct {
		owner string
		is    Process
	}{{"the worker", s.Worker.Process}, {"the orchestrator", s.Orchestrator.Process}, {"the projector", s.Projector.Process}} {
		all = append(all, process{
			name:          p.owner,
			store:         setting("T_w", "", p.owner, p.is.StoreTimeout),
			settle:        setting("T_s", "", p.owner, p.is.SettleTimeout),
			renewal:       setting("r", "time between two renewals of a message's lock", p.owner, p.is.LockRenewal),
			grace:         setting("G", "", p.owner, p.is.Grace),
			preStop:       setting("preStop", "how long a container waits before SIGTERM", p.owner, p.is.PreStop),
			term:          setting("T_term", "terminationGracePeriodSeconds: from there to SIGKILL", p.owner, p.is.Termination),
			containerApps: setting("Container Apps", "whether a process runs there", p.owner, p.is.ContainerApps),
		})
	}
	return all
}

// entity is what every entity that is received from has.
type entity struct {
	lock, maxDelivery, ttl amount
	deadLetter             amount
}

func entitiesOf(s Settings) []entity {
	var all []entity
	for _, e := range []struct {
		owner string
		is    Entity
	}{{"tasks", s.Tasks}, {"task-events", s.Events}, {"reservations", s.Reservations}} {
		all = append(all, entity{
			lock:        setting("L", "", e.owner, e.is.Lock),
			maxDelivery: setting("N", "", e.owner, e.is.MaxDelivery),
			ttl:         setting("Q", "", e.owner, e.is.TTL),
			deadLetter:  setting("DeadLetteringOnMessageExpiration", "what expires becomes a dead letter", e.owner, e.is.DeadLetter),
		})
	}
	return all
}

// What the relations assume of the machines, since nobody can set it.
const (
	// Drift is how far a clock runs wrong at most: what the kernel's time discipline corrects.
	Drift = 500 // of a million
	// Stall is how long a runnable process may have to wait: a few periods of a CPU
	// quota, or a collection of garbage.
	Stall = 250 * time.Millisecond
	// Closing is what a process needs to close its connections and flush its telemetry.
	Closing = 5 * time.Second
	// Grain is the resolution of the store's clock.
	Grain = time.Second
)
