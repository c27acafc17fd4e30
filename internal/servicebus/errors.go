package servicebus

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"oneeffect/internal/message"
)

// ErrStopping is the cause of a handler's cancelled context: the process stops
// and its grace is over.
var ErrStopping = errors.New("stopping: the grace is over")

// errLockLost: the message is somebody else's by now, or soon.
var errLockLost = errors.New("the lock is lost")

// translate says once what an error of the SDK means. Whatever is not known to
// have been refused may have been done: ErrUnknown.
func translate(op string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w: %w", op, message.ErrUnknown, err)
	}
	if errors.Is(err, azservicebus.ErrMessageTooLarge) {
		return fmt.Errorf("%s: %w: the message is larger than the entity's limit", op, message.ErrRefused)
	}
	if deadConnection(err) { // whatever ended it was not an answer to this
		return fmt.Errorf("%s: %w: %w", op, message.ErrUnknown, err)
	}
	if meaning, known := codes[codeOf(err)]; known {
		return fmt.Errorf("%s: %w: %w", op, meaning, err)
	}
	if answer, ok := errors.AsType[*amqp.Error](err); ok {
		if meaning, known := conditions[answer.Condition]; known {
			return fmt.Errorf("%s: %w: %w", op, meaning, err)
		}
	}
	return fmt.Errorf("%s: %w: %w", op, message.ErrUnknown, err)
}

// codes is what the SDK's own codes mean.
var codes = map[azservicebus.Code]error{
	azservicebus.CodeUnauthorizedAccess: message.ErrRefused,
	azservicebus.CodeNotFound:           message.ErrNotFound,
	azservicebus.CodeLockLost:           errLockLost,
	azservicebus.CodeClosed:             message.ErrRefused,
	azservicebus.CodeConnectionLost:     message.ErrUnknown,
	azservicebus.CodeTimeout:            message.ErrUnknown,
}

// codeOf is the SDK's own code of an error, empty if it has none.
func codeOf(err error) azservicebus.Code {
	if sdk, ok := errors.AsType[*azservicebus.Error](err); ok {
		return sdk.Code
	}
	return ""
}

// The conditions that the SDK hands on as they came.
const (
	condEntityDisabled = amqp.ErrCond("com.microsoft:entity-disabled")
	condServerBusy     = amqp.ErrCond("com.microsoft:server-busy")
	condLockLost       = amqp.ErrCond("com.microsoft:message-lock-lost")
	condSessionLost    = amqp.ErrCond("com.microsoft:session-lock-lost")
	condSessionTaken   = amqp.ErrCond("com.microsoft:session-cannot-be-locked")
	condCancelled      = amqp.ErrCond("com.microsoft:operation-cancelled")
)

// conditions is what the broker's refusals mean. A full or disabled entity is
// not applied and may be well again in a moment, by an operator's hand.
var conditions = map[amqp.ErrCond]error{
	condEntityDisabled:                message.ErrTransient,
	condServerBusy:                    message.ErrTransient,
	condCancelled:                     message.ErrTransient,
	amqp.ErrCondResourceLimitExceeded: message.ErrTransient,
	condLockLost:                      errLockLost,
	condSessionLost:                   errLockLost,
	condSessionTaken:                  errLockLost,
	amqp.ErrCondNotFound:              message.ErrNotFound,
	amqp.ErrCondUnauthorizedAccess:    message.ErrRefused,
	amqp.ErrCondNotAllowed:            message.ErrRefused,
	amqp.ErrCondMessageSizeExceeded:   message.ErrRefused,
	amqp.ErrCondDecodeError:           message.ErrRefused,
	amqp.ErrCondNotImplemented:        message.ErrRefused,
}

// deadConnection says whether the connection, or the session on it, has ended.
func deadConnection(err error) bool {
	_, connection := errors.AsType[*amqp.ConnError](err)
	_, session := errors.AsType[*amqp.SessionError](err)
	return connection || session
}

// deadLink says whether the link has ended, with its connection or alone.
func deadLink(err error) bool {
	_, link := errors.AsType[*amqp.LinkError](err)
	return link || deadConnection(err)
}

// busy says whether the broker asked for less: on a link, or over the management
// link, whose answers carry a status.
func busy(err error) bool {
	if answer, ok := errors.AsType[*amqp.Error](err); ok {
		return answer.Condition == condServerBusy
	}
	answer, ok := errors.AsType[interface {
		error
		RPCCode() int
	}](err)
	return ok && answer.RPCCode() == http.StatusServiceUnavailable
}

const noRemedy = "none needed: receiving goes on when the broker answers again"

// remedy is what an operator can do about a receiver that receives nothing.
func (c *Client) remedy(err error) string {
	if c.identity.fails.Load() {
		return "give this process an identity that Entra ID has a token for: receiving goes on when it has"
	}
	if answer, ok := errors.AsType[*amqp.Error](err); ok && answer.Condition == condEntityDisabled {
		return "enable the entity again (status Active or SendDisabled): receiving goes on by itself"
	}
	switch {
	case errors.Is(err, message.ErrNotFound):
		return "create the queue, or the topic and its subscription, or correct the name"
	case errors.Is(err, message.ErrRefused):
		return "grant this identity the right to listen (Azure Service Bus Data Receiver), or correct the key"
	}
	return noRemedy
}
