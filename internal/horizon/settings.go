package horizon

import "time"

// Setting is a value and what its owner calls it: a flag, a member of a file, a
// parameter of a template. Without a name it is not known.
type Setting[T any] struct {
	Name     string
	Value    T
	constant bool
}

// The kinds of settings.
type (
	Duration = Setting[time.Duration]
	Count    = Setting[int] // of things or of bytes
	Switch   = Setting[bool]
)

// Is a setting that its owner can change.
func Is[T any](name string, value T) Setting[T] {
	return Setting[T]{Name: name, Value: value}
}

// Constant is known and cannot be changed by whoever runs the system, so no remedy
// asks for it.
func Constant[T any](name string, value T) Setting[T] {
	return Setting[T]{Name: name, Value: value, constant: true}
}

// Settings are what is known of one deployment.
type Settings struct {
	Tasks        Entity // the queue
	Events       Entity // the topic task-events and its subscription
	Reservations Entity // the topic reservations and its subscription
	Official     Switch // they are the official emulator's, with its narrower limits

	Worker       Worker
	Handlers     []Handler
	Orchestrator Orchestrator
	Projector    Projector
	Store        Store

	TaskLife        Duration // from creation to notAfter
	ExecutionID     Count    // its longest, in characters
	MessageIDSuffix Count    // the longest that is put behind an execution's id
}

// Entity is a queue, or a topic and its subscription taken together.
type Entity struct {
	Lock            Duration
	MaxDelivery     Count
	TTL             Duration // the shorter one of topic and subscription
	DeadLetter      Switch   // what expires becomes a dead letter
	DuplicateWindow Duration
	MaxMessage      Count // bytes
}

// Process is what every process is told.
type Process struct {
	StoreTimeout  Duration // one operation of the store, with its retries
	SettleTimeout Duration
	LockRenewal   Duration // between two renewals of a message's lock
	Grace         Duration // from SIGTERM to the end
	PreStop       Duration // before SIGTERM
	Termination   Duration // until SIGKILL
	ContainerApps Switch   // it runs there
}

// Worker is what a worker is told.
type Worker struct {
	Process
	Lease            Duration
	Renewal          Duration // between two renewals of a lease
	OwnerMargin      Duration // an owner stops trusting so long before the end
	ChallengerMargin Duration // another waits so long after it
	BusyWait         Duration
	Buffered         Duration // how long a message may wait here for a free slot
	PublishTimeout   Duration
	KeyMargin        Duration // a key window is taken to end so much earlier
	Keep             Duration // of a claim, from its last write
	MaxAttempts      Count    // starts of one task
	Cooldown         Duration // of the scaler, before it takes workers away
}

// Handler is what a handler declares.
type Handler struct {
	Type       string
	Keyed      bool
	Call       Duration // one call; with several steps, the longest
	Calls      Count    // one for each step
	KeyWindow  Duration
	Attempts   Count    // calls that may end unknown
	BackoffMax Duration // the longest wait between two of them
	Result     Count    // bytes of a reply that are kept
}

// Orchestrator is what an orchestrator is told.
type Orchestrator struct {
	Process
	SendTimeout      Duration
	RelayAge         Duration // younger outbox entries are their creator's business
	RelayPeriod      Duration
	MaxMessage       Count    // bytes of a task message
	Reconciler       Switch   // it reads the claims of old executions
	ReconcileAge     Duration // from which on it does
	ReconcilePeriod  Duration
	ReconcileBudget  Duration // of one round
	FirstRedispatch  Duration // the age at which a task is sent again; doubling from there
	ReplayAge        Duration // the oldest dead letter that may be replayed
	UnknownReplayAge Duration // the youngest, where the outcome is unknown
	Outage           Duration // of the store, that events must outlast
}

// Projector is what a projector is told.
type Projector struct {
	Process
	KeepReceipts Duration
	ReplayAge    Duration // the oldest dead-lettered reservation that may be replayed
	WebhookRetry Duration // how long a sender of webhooks tries
}

// Store is what is known of the database.
type Store struct {
	Skew           Duration // between the clocks of gateway and replicas
	KeepExecutions Duration
	ClaimTTL       Switch // every claim says how long it lives
	InventoryTTL   Switch // every receipt does
	WebhookTTL     Switch
	MultipleWrites Switch // of several regions
	Session        Switch // consistency is Session or stronger
}
