package horizon

import "time"

// Defaults are the proposals: what the commands' flags default to, what
// deployments are told, and two handlers as handlers.yaml declares them. Change one
// with a reason, and let Check say what it moves.
func Defaults() Settings {
	return Settings{
		Tasks:           defaultEntity("tasks"),
		Events:          defaultEntity("task-events"),
		Reservations:    defaultEntity("reservations"),
		Official:        Constant("the official emulator", false),
		Worker:          defaultWorker(),
		Handlers:        defaultHandlers(),
		Orchestrator:    defaultOrchestrator(),
		Projector:       defaultProjector(),
		Store:           defaultStore(),
		TaskLife:        Constant("the life of a task", 21*day),
		ExecutionID:     Constant("an execution's id", 96),
		MessageIDSuffix: Constant("what a MessageID has behind it", 32),
	}
}

func defaultEntity(name string) Entity {
	return Entity{
		Lock:            Is(name+" LockDuration", 5*time.Minute),
		MaxDelivery:     Is(name+" MaxDeliveryCount", 10),
		TTL:             Is(name+" DefaultMessageTimeToLive", 14*day),
		DeadLetter:      Is(name+" DeadLetteringOnMessageExpiration", true),
		DuplicateWindow: Is(name+" DuplicateDetectionHistoryTimeWindow", 5*time.Minute),
		MaxMessage:      Is(name+" MaxMessageSizeInKilobytes", 256<<10),
	}
}

func defaultProcess(name string) Process {
	return Process{
		StoreTimeout:  Is(name+" -store-timeout", 10*time.Second),
		SettleTimeout: Is(name+" -settle-timeout", 10*time.Second),
		LockRenewal:   Is(name+" lock renewal", 100*time.Second),
		Grace:         Is(name+" -grace", 90*time.Second),
		PreStop:       Is(name+" preStop", time.Duration(0)),
		Termination:   Is(name+" terminationGracePeriodSeconds", 120*time.Second),
		ContainerApps: Constant(name+" Container Apps", true),
	}
}

func defaultWorker() Worker {
	return Worker{
		Process:          defaultProcess("worker"),
		Lease:            Is("-lease", 5*time.Minute),
		Renewal:          Is("-renewal", 100*time.Second),
		OwnerMargin:      Is("-owner-margin", 10*time.Second),
		ChallengerMargin: Is("-challenger-margin", 5*time.Second),
		BusyWait:         Is("-busy-wait", 20*time.Second),
		Buffered:         Constant("the wait for a slot", time.Duration(0)),
		PublishTimeout:   Is("-publish-timeout", 30*time.Second),
		KeyMargin:        Is("-key-margin", 15*time.Minute),
		Keep:             Is("-keep", 30*day),
		MaxAttempts:      Is("-max-attempts", 8),
		Cooldown:         Is("KEDA cooldownPeriod", 600*time.Second),
	}
}

func defaultHandlers() []Handler {
	return []Handler{
		{
			Type: "keyed", Keyed: true,
			Call: Is("keyed request.timeout", 20*time.Second), Calls: Constant("keyed steps", 1),
			KeyWindow: Is("keyed idempotency.window", day), Attempts: Is("keyed retry.attempts", 8),
			BackoffMax: Is("keyed retry.backoff", 5*time.Minute), Result: Constant("a keyed reply", 64<<10),
		},
		{
			Type: "keyless",
			Call: Is("keyless request.timeout", 20*time.Second), Calls: Constant("keyless steps", 1),
			Attempts: Constant("keyless attempts", 1), BackoffMax: Constant("keyless backoff", time.Duration(0)),
			Result: Constant("a keyless reply", 64<<10),
		},
	}
}

func defaultOrchestrator() Orchestrator {
	return Orchestrator{
		Process:          defaultProcess("orchestrator"),
		SendTimeout:      Is("-send-timeout", 20*time.Second),
		RelayAge:         Is("-relay-age", 30*time.Second),
		RelayPeriod:      Is("-relay-period", 30*time.Second),
		MaxMessage:       Is("-max-message", 240<<10),
		Reconciler:       Is("-reconcile", true),
		ReconcileAge:     Is("-reconcile-age", 15*time.Minute),
		ReconcilePeriod:  Is("-reconcile-period", 5*time.Minute),
		ReconcileBudget:  Is("-reconcile-budget", time.Minute),
		FirstRedispatch:  Is("-redispatch-age", 15*time.Minute),
		ReplayAge:        Is("-replay-age", 21*day),
		UnknownReplayAge: Is("-unknown-replay-age", 21*time.Minute),
		Outage:           Is("-tolerated-outage", 45*time.Minute),
	}
}

func defaultProjector() Projector {
	return Projector{
		Process:      defaultProcess("projector"),
		KeepReceipts: Is("-keep-receipts", 60*day),
		ReplayAge:    Is("-reservation-replay-age", 21*day),
		WebhookRetry: Is("-webhook-retry", 3*day),
	}
}

func defaultStore() Store {
	return Store{
		Skew:           Constant("the skew of the store's clocks", 4*time.Second),
		KeepExecutions: Is("executions defaultTtl", 90*day),
		ClaimTTL:       Is("claims defaultTtl", true),
		InventoryTTL:   Is("inventory defaultTtl", true),
		WebhookTTL:     Is("webhooks defaultTtl", true),
		MultipleWrites: Is("enableMultipleWriteLocations", false),
		Session:        Is("defaultConsistencyLevel", true),
	}
}
