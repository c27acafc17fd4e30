package agree

import (
	"slices"
	"strconv"
	"time"
)

// set is a setting as internal/horizon has it.
type set struct {
	Name  string
	Value any
}

type group map[string]any

// horizons: the relations of internal/horizon hold on every target, and all of them
// can be checked.
func (w *world) horizons() error {
	for _, t := range w.targets {
		settings, err := w.horizonOf(t)
		if err != nil {
			return err
		}
		verdict, err := w.code.Horizon(settings)
		if err != nil {
			return err
		}
		for _, violation := range verdict.Violations {
			w.problem(t.file, "%s", violation)
		}
		for _, unchecked := range verdict.Unchecked {
			w.problem(t.file, "cannot be checked: %s", unchecked)
		}
	}
	return nil
}

func (w *world) horizonOf(t *target) (group, error) {
	entities, file, err := w.entitiesOf(t)
	if err != nil {
		return nil, err
	}
	of := func(name string) group { return entitySettings(file, name, entities[name]) }
	duration := func(p *process, flag string) set {
		_, name := w.setting(p, flag)
		return set{p.target.file + ": " + name + " of " + p.name, w.lasting(p, flag)}
	}
	count := func(p *process, flag string) set {
		value, name := w.setting(p, flag)
		n, err := strconv.Atoi(value)
		if err != nil {
			w.problem(t.file, "%s of %s: %v", name, p.name, err)
		}
		return set{t.file + ": " + name, n}
	}
	worker, orchestrator, projector := t.processes["worker"], t.processes["orchestrator"], t.processes["projector"]
	common := func(p *process) group {
		return group{
			"StoreTimeout": duration(p, "store-timeout"), "SettleTimeout": duration(p, "settle-timeout"),
			"LockRenewal": set{"the renewal of locks", w.lasting(p, "lock") / 3},
			"Grace":       duration(p, "grace"), "PreStop": set{t.file + ": preStop", time.Duration(0)},
			"Termination":   set{t.file + ": the time that " + p.name + " is given to stop", p.termination},
			"ContainerApps": set{"Container Apps", t.file == appsFile},
		}
	}
	return group{
		"Tasks": with(of(w.listened("worker")), group{
			"MaxMessage": set{"the size of a message", 256 << 10}, // of Standard, and of the emulators
		}),
		"Events":       of(w.listened("orchestrator")),
		"Reservations": of(w.listened("projector")),
		"Official":     set{"the official emulator", t.file == composeFile},
		"Worker": with(common(worker), group{
			"Lease": duration(worker, "lease"), "OwnerMargin": duration(worker, "owner-margin"), "ChallengerMargin": duration(worker, "challenger-margin"),
			"BusyWait": duration(worker, "busy-wait"), "Buffered": set{"the wait for a slot", time.Duration(0)},
			"PublishTimeout": duration(worker, "publish-timeout"), "KeyMargin": duration(worker, "key-margin"), "Keep": duration(worker, "keep"),
			"MaxAttempts": count(worker, "max-attempts"),
			"Renewal":     w.renewal(worker), "Cooldown": set{t.file + ": the cooldown of worker", worker.cooldown()},
		}),
		"Orchestrator": with(common(orchestrator), group{
			"SendTimeout": duration(orchestrator, "send-timeout"), "RelayAge": duration(orchestrator, "relay-age"), "RelayPeriod": duration(orchestrator, "relay-period"),
			"MaxMessage": count(orchestrator, "max-message"), "ReconcileAge": duration(orchestrator, "reconcile-age"),
			"ReconcilePeriod": duration(orchestrator, "reconcile-period"), "FirstRedispatch": duration(orchestrator, "reconcile-age"),
			"UnknownReplayAge": duration(orchestrator, "replay-settle"),
			// A reconciler is there: what an outage of the store turns into dead letters, it heals.
			"Outage": set{"the outage that is tolerated", 45 * time.Minute},
		}),
		"Projector": with(common(projector), group{
			"KeepReceipts": duration(projector, "keep-receipts"), "ReplayAge": duration(projector, "reservation-replay-age"), "WebhookRetry": duration(projector, "webhook-retry"),
		}),
		"Store": w.storeSettings(t),
	}, nil
}

// cooldown is how long whoever scales a process waits at least.
func (p *process) cooldown() time.Duration {
	if len(p.cooldowns) == 0 {
		return 24 * time.Hour // nobody scales here
	}
	return slices.Min(p.cooldowns)
}

func entitySettings(file, name string, e entity) group {
	g := group{
		"MaxDelivery": set{file + ": maxDeliveryCount of " + name, number(e["maxDeliveryCount"])},
		"DeadLetter":  set{file + ": deadLetteringOnMessageExpiration of " + name, e["deadLetteringOnMessageExpiration"] == "true"},
	}
	for field, key := range map[string]string{"Lock": "lockDuration", "TTL": "defaultMessageTimeToLive", "DuplicateWindow": "duplicateDetectionHistoryTimeWindow"} {
		if d, err := iso(e[key]); err == nil {
			g[field] = set{file + ": " + key + " of " + name, d}
		}
	}
	return g
}

func with(a, b group) group {
	for key, value := range b {
		a[key] = value
	}
	return a
}

// renewal is a third of the lease unless it is said.
func (w *world) renewal(p *process) set {
	value, name := w.setting(p, "renewal")
	d, err := time.ParseDuration(value)
	if err != nil || d == 0 {
		return set{"the renewal of leases", w.lasting(p, "lease") / 3}
	}
	return set{p.target.file + ": " + name, d}
}

func (w *world) storeSettings(t *target) group {
	f := w.bicep[storeFile]
	ttl := map[string]int{}
	for _, c := range w.code.Facts.Containers {
		ttl[c.ID] = c.TTL
	}
	multiple, session := false, true
	if t.real {
		ttl = map[string]int{}
		for _, d := range f.Resources("Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers") {
			ttl[f.Text(d.Body, "name")] = number(f.Text(d.Body, "properties", "resource", "defaultTtl"))
		}
		for _, d := range f.Resources("Microsoft.DocumentDB/databaseAccounts") {
			multiple = f.Text(d.Body, "properties", "enableMultipleWriteLocations") == "true"
			level := f.Text(d.Body, "properties", "consistencyPolicy", "defaultConsistencyLevel")
			session = level == "Session" || level == "BoundedStaleness" || level == "Strong"
		}
	}
	return group{
		"Skew":           set{"the skew of the store's clocks", 4 * time.Second},
		"KeepExecutions": set{storeFile + ": defaultTtl of executions", time.Duration(ttl["executions"]) * time.Second},
		"ClaimTTL":       set{storeFile + ": defaultTtl of claims", ttl["claims"] == -1},
		"InventoryTTL":   set{storeFile + ": defaultTtl of inventory", ttl["inventory"] == -1},
		"WebhookTTL":     set{storeFile + ": defaultTtl of webhooks", ttl["webhooks"] == -1},
		"MultipleWrites": set{storeFile + ": enableMultipleWriteLocations", multiple},
		"Session":        set{storeFile + ": defaultConsistencyLevel", session},
	}
}
