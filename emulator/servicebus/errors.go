package servicebus

import (
	"errors"
	"fmt"
	"net/http"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
)

// The service's own error conditions that this emulator answers by itself.
const (
	condLockLost        = amqp.Symbol("com.microsoft:message-lock-lost")
	condSessionLockLost = amqp.Symbol("com.microsoft:session-lock-lost")
	condSessionLocked   = amqp.Symbol("com.microsoft:session-cannot-be-locked")
	condDisabled        = amqp.Symbol("com.microsoft:entity-disabled")
	condNoMessage       = amqp.Symbol("com.microsoft:message-not-found")
	condTimeout         = amqp.Symbol("com.microsoft:timeout")
)

// lockLostText is what clients compare; it stands also in answers that wrap the engine's error.
const lockLostText = "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue."

// refusal is one way an operation is refused, on a link and over $management.
type refusal struct {
	err       error
	condition amqp.Symbol
	status    int32
}

// refusals maps the engine's errors to the wire. The first that fits counts. Conditions are chosen among those that
// clients take as final: what is wrong with a message does not become right by sending it again. Worse, azservicebus
// repeats a settlement that was rejected with a condition it does not know, finds it settled, and reports success: so
// what is not supported is not allowed, rather than not implemented.
var refusals = []refusal{
	{broker.ErrLockLost, condLockLost, http.StatusGone},
	{broker.ErrSessionLockLost, condSessionLockLost, http.StatusGone},
	{broker.ErrSessionLocked, condSessionLocked, http.StatusConflict},
	{broker.ErrDisabled, condDisabled, http.StatusBadRequest},
	{errClaim, amqp.ErrCondUnauthorizedAccess, http.StatusUnauthorized},
	{broker.ErrNoMessage, condNoMessage, http.StatusNotFound},
	{broker.ErrNotFound, amqp.ErrCondNotFound, http.StatusNotFound},
	{broker.ErrExists, "com.microsoft:entity-already-exists", http.StatusConflict},
	{broker.ErrTooLarge, amqp.ErrCondMessageSizeExceeded, http.StatusForbidden},
	{broker.ErrFull, amqp.ErrCondResourceLimitExceeded, http.StatusForbidden},
	{broker.ErrInvalid, amqp.ErrCondNotAllowed, http.StatusBadRequest},
	{broker.ErrUnsupported, amqp.ErrCondNotAllowed, http.StatusNotImplemented},
}

func refusalOf(err error) refusal {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r
		}
	}
	if _, ok := errors.AsType[*amqp.DecodeError](err); ok {
		return refusal{err, amqp.ErrCondDecodeError, http.StatusBadRequest}
	}
	return refusal{err, amqp.ErrCondInternalError, http.StatusInternalServerError}
}

// wireError is an engine's error as AMQP carries it.
func wireError(err error) *amqp.Error {
	if errors.Is(err, broker.ErrLockLost) {
		return amqp.Errorf(condLockLost, "%s", lockLostText)
	}
	return amqp.Errorf(refusalOf(err).condition, "%s", err)
}

// ordered is the error that a rule has ordered.
func ordered(d control.Decision) *amqp.Error {
	condition := amqp.Symbol(d.Condition)
	if condition == "" {
		condition = amqp.ErrCondInternalError
	}
	description := d.Description
	if description == "" {
		description = "ordered by a fault rule of the emulator"
	}
	return amqp.Errorf(condition, "%s", description)
}

// orderedReply is the reply that a rule has ordered for a request.
func orderedReply(d control.Decision) reply {
	status := int32(d.Status)
	if status == 0 {
		status = statusOf(amqp.Symbol(d.Condition))
	}
	return reply{status: status, condition: amqp.Symbol(d.Condition), description: fmt.Sprintf("%s: %s", d.Condition, ordered(d).Description)}
}

// statusOf finds the status that goes with a condition.
func statusOf(condition amqp.Symbol) int32 {
	for _, r := range refusals {
		if r.condition == condition {
			return r.status
		}
	}
	switch condition {
	case "com.microsoft:server-busy":
		return http.StatusServiceUnavailable
	case condTimeout:
		return http.StatusRequestTimeout
	}
	return http.StatusInternalServerError
}
