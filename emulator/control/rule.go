package control

import "time"

// Op is one operation of a client as a rule sees it.
type Op struct {
	Service   string // "servicebus", "cosmos" or "downstream"
	Operation string // one of the service's operations, see operations
	Entity    string // lower case: "tasks", "task-events/subscriptions/orchestrator", "claims", "/customers"
	Client    string // the caller's ApplicationID, "" if it gave none
	Key       string // Service Bus: MessageID; Cosmos: item id; downstream: Idempotency-Key
	Body      []byte // the JSON document, if there is one; not to be changed afterwards
}

// operations is what each service calls its operations; a rule that names
// another one could never fire and is refused.
var operations = map[string][]string{
	"servicebus": {
		"put-token", "attach", "send", "schedule", "deliver", "complete", "abandon",
		"dead-letter", "release", "defer", "renew-lock", "cancel-scheduled", "peek",
		"receive-deferred", "renew-session-lock", "get-session-state", "set-session-state", "list-sessions",
		"add-rule", "remove-rule", "list-rules",
		"admin-create", "admin-update", "admin-read", "admin-list", "admin-delete",
	},
	"cosmos": {
		"create", "upsert", "read", "replace", "patch", "delete", "batch", "query",
		"change-feed", "account", "metadata",
	},
	"downstream": {"call"},
}

// Kind is what an emulator has to do with an operation.
type Kind int

const (
	// Proceed goes on as if there were no rule.
	Proceed Kind = iota
	// Drop sends no answer and cuts the connection; before apply, nothing is applied.
	Drop
	// Answer sends the decision's Status or Condition instead of the true answer;
	// before apply, nothing is applied.
	Answer
	// Detach detaches the AMQP link with the decision's Condition.
	Detach
	// Reset cuts the connection. For HTTP it is the same as Drop.
	Reset
	// Close closes the AMQP connection with the decision's Condition.
	Close
	// LoseLock ends the lock of the message that the operation is about, or of its session, as if its time had come; then
	// the operation goes on, and finds it gone.
	LoseLock
	// Silence never answers and keeps the connection; before apply, nothing is applied.
	Silence
)

// String names the kind as a rule's "do" does.
func (k Kind) String() string {
	switch k {
	case Proceed:
		return "proceed"
	case Drop:
		return "drop"
	case Answer:
		return "answer"
	case Detach:
		return "detach"
	case Reset:
		return "reset"
	case Close:
		return "close"
	case LoseLock:
		return "lose-lock"
	case Silence:
		return "silence"
	}
	return "unknown"
}

// Decision is what the rules have decided about one operation. Its zero value
// is to proceed.
type Decision struct {
	Kind        Kind
	Status      int    // HTTP status of an Answer
	Condition   string // AMQP error condition of an Answer or Detach
	Description string
	RetryAfter  time.Duration
}

// Rule is one fault: where (Match, Nth, Times, Probability), when (When) and
// what (Do). Its JSON form is what POST /control/rules takes.
//
// An operation asks the rules in the order in which they were armed. A rule that
// lets it proceed (a delay that has passed, a hold released with "go") passes it
// on to the next; any other ends the asking, so that later rules do not count it.
type Rule struct {
	Name  string `json:"name,omitempty"` // unique; "rule-1", "rule-2", … if empty
	Match Match  `json:"match,omitzero"`
	When  string `json:"when,omitempty"` // "before" apply (default) or "after"
	Do    string `json:"do"`             // "hold", "drop", "delay", "answer", "detach", "close", "reset", "lose-lock" or "silence"

	Delay       Duration `json:"delay,omitzero"`        // of "delay"
	Status      int      `json:"status,omitempty"`      // of "answer" over HTTP
	Condition   string   `json:"condition,omitempty"`   // of "answer" over AMQP, "detach" and "close"
	Description string   `json:"description,omitempty"` // of "answer", "detach" and "close"
	RetryAfter  Duration `json:"retryAfter,omitzero"`   // of "answer" over HTTP

	// Late keeps a "hold" or "delay" going when its peer has gone, and then applies
	// the operation all the same: a request that was on its way when its sender died.
	Late bool `json:"late,omitempty"`

	Nth         int     `json:"nth,omitempty"`         // fires at the nth matching operation only; 0: at every one
	Times       int     `json:"times,omitempty"`       // fires at most so often; 0: without limit
	Probability float64 `json:"probability,omitempty"` // fires with this chance; 0: always
	Seed        uint64  `json:"seed,omitempty"`        // of Probability
}

// Match says which operations a rule is about. An empty field matches any.
type Match struct {
	Service   string `json:"service,omitempty"`
	Operation string `json:"operation,omitempty"`
	Entity    string `json:"entity,omitempty"`
	Client    string `json:"client,omitempty"`
	Key       string `json:"key,omitempty"`

	// Body maps JSON pointers (RFC 6901) to the value that must stand there. A
	// segment "*" stands for any array element or object member, so that one
	// operation of a batch can be matched: "/*/resourceBody/status".
	Body map[string]any `json:"body,omitempty"`
}

// Release lets go of what a rule holds. Action is "go", "drop" or "answer"; the
// other fields belong to "answer".
type Release struct {
	Action      string   `json:"action"`
	Status      int      `json:"status,omitempty"`
	Condition   string   `json:"condition,omitempty"`
	Description string   `json:"description,omitempty"`
	RetryAfter  Duration `json:"retryAfter,omitzero"`
}

// Firing is one operation at which a rule has fired.
type Firing struct {
	Op       Op
	PeerGone bool // its peer went away while the rule held or delayed it
}

// RuleState is an armed rule and what has become of it.
type RuleState struct {
	Rule     Rule `json:"rule"`
	Matched  int  `json:"matched"`  // operations that matched
	Fired    int  `json:"fired"`    // operations at which it fired
	Held     int  `json:"held"`     // operations it holds now
	Reached  bool `json:"reached"`  // fired since the last release
	PeerGone bool `json:"peerGone"` // the peer of one of those has gone
}

// Duration is a time.Duration that is written "1.5s" in JSON.
type Duration time.Duration

// String is that of time.Duration.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration as time.Duration.String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration takes.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}
