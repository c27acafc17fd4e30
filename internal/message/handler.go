package message

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Handler does the work of one task type: one call to the world outside. What
// it declares about that world computes every retry, takeover and dead letter.
type Handler interface {
	Declaration() Declaration
	// Call makes exactly one call and says what is known of it. It ends with ctx,
	// whose cause says why: the lease was lost, the process stops, time is up.
	Call(ctx context.Context, c Call) Outcome
}

// Declaration is what a handler says of its downstream.
type Declaration struct {
	Type       string
	Keyed      bool          // the downstream honours the key: a second call has no second effect
	KeyWindow  time.Duration // for so long after the first call
	Timeout    time.Duration // of one call
	Attempts   int           // calls that may end unknown before the task fails
	BackoffMin time.Duration
	BackoffMax time.Duration
}

// Call is one call of a handler.
type Call struct {
	Key     string // the execution's id; empty when the declaration is keyless
	Type    string
	Payload jsontext.Value
}

// Effect is what is known of the effect of a call.
type Effect int

// The three ways a call can end. The zero value is none of them.
const (
	_                Effect = iota
	EffectApplied           // it happened, now or at an earlier call under the same key
	EffectNotApplied        // it did not happen, and this call cannot make it happen any more
	EffectUnknown           // nobody here can tell
)

func (e Effect) String() string {
	return [...]string{"undecided", "applied", "not applied", "unknown"}[e]
}

// Outcome is what is known after a call.
type Outcome struct {
	Effect      Effect
	Ref         string         // Applied: where the result is
	Value       jsontext.Value // Applied: the reply, if it is JSON and small
	Retry       bool           // otherwise: another call under the same key may end better
	Free        bool           // with Retry: it costs no attempt, the downstream only asks to wait
	After       time.Duration  // with Retry: not before (Retry-After)
	Description string         // for people: status, error, problem title
}
