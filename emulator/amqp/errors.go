package amqp

import (
	"errors"
	"fmt"
)

// Error is the error of the protocol, carried by detach, end, close and the rejected outcome.
//
//	<type name="error" class="composite" source="list">
//	  <descriptor name="amqp:error:list" code="0x00000000:0x0000001d"/>
//	  <field name="condition" type="symbol" requires="error-condition" mandatory="true"/>
//	  <field name="description" type="string"/>
//	  <field name="info" type="fields"/>
//	</type>
type Error struct {
	Condition   Symbol
	Description string
	Info        Map
}

// Errorf makes an error of the protocol.
func Errorf(condition Symbol, format string, args ...any) *Error {
	return &Error{Condition: condition, Description: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	if e.Description == "" {
		return string(e.Condition)
	}
	return string(e.Condition) + ": " + e.Description
}

// The error conditions of the specification (2.8.15 to 2.8.18).
const (
	ErrCondInternalError         Symbol = "amqp:internal-error"
	ErrCondNotFound              Symbol = "amqp:not-found"
	ErrCondUnauthorizedAccess    Symbol = "amqp:unauthorized-access"
	ErrCondDecodeError           Symbol = "amqp:decode-error"
	ErrCondResourceLimitExceeded Symbol = "amqp:resource-limit-exceeded"
	ErrCondNotAllowed            Symbol = "amqp:not-allowed"
	ErrCondInvalidField          Symbol = "amqp:invalid-field"
	ErrCondNotImplemented        Symbol = "amqp:not-implemented"
	ErrCondResourceLocked        Symbol = "amqp:resource-locked"
	ErrCondPreconditionFailed    Symbol = "amqp:precondition-failed"
	ErrCondResourceDeleted       Symbol = "amqp:resource-deleted"
	ErrCondIllegalState          Symbol = "amqp:illegal-state"
	ErrCondFrameSizeTooSmall     Symbol = "amqp:frame-size-too-small"

	ErrCondConnectionForced Symbol = "amqp:connection:forced"
	ErrCondFramingError     Symbol = "amqp:connection:framing-error"

	ErrCondWindowViolation  Symbol = "amqp:session:window-violation"
	ErrCondErrantLink       Symbol = "amqp:session:errant-link"
	ErrCondHandleInUse      Symbol = "amqp:session:handle-in-use"
	ErrCondUnattachedHandle Symbol = "amqp:session:unattached-handle"

	ErrCondDetachForced          Symbol = "amqp:link:detach-forced"
	ErrCondTransferLimitExceeded Symbol = "amqp:link:transfer-limit-exceeded"
	ErrCondMessageSizeExceeded   Symbol = "amqp:link:message-size-exceeded"
	ErrCondStolen                Symbol = "amqp:link:stolen"
)

// What a call may answer when the peer has moved on.
var (
	// ErrGone: the link, its session or its connection has ended, or the delivery is settled; nothing was sent.
	ErrGone = errors.New("the link has ended")
	// ErrNoCredit: the peer takes no message on this link now. Handler.Credit tells when that has changed.
	ErrNoCredit = errors.New("the link has no credit")
	// ErrAnswered: the link has been accepted or refused before, or is not accepted yet where it has to be.
	ErrAnswered = errors.New("the attach is not waiting for this answer")
)

// What is wrong with the input, wrapped by a DecodeError.
var (
	ErrTruncated = errors.New("input ends too early")
	ErrMalformed = errors.New("malformed")
	ErrTooDeep   = errors.New("nested too deeply")
	ErrTooMany   = errors.New("too many elements")
)

// DecodeError says where decoding stopped and why; errors.Is finds one of
// ErrTruncated, ErrMalformed, ErrTooDeep and ErrTooMany in it.
type DecodeError struct {
	At  int // offset in the input
	Err error
}

func (e *DecodeError) Error() string { return fmt.Sprintf("decode at byte %d: %v", e.At, e.Err) }
func (e *DecodeError) Unwrap() error { return e.Err }
