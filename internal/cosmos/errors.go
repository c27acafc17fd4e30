package cosmos

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/go-json-experiment/json"

	"oneeffect/internal/message"
)

// translate says once what an error means. The cause is text: no status and no
// type of the SDK goes further than here.
func (o *operation) translate(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, message.ErrRefused) {
		return fmt.Errorf("%s: %w", o.what(), err) // an answer that was read and is of no use
	}
	meaning, cause := message.ErrTransient, err
	if rolledBack, ok := errors.AsType[refusal](err); ok {
		meaning = meaningOf(rolledBack.status, "")
	} else if answer, ok := errors.AsType[*azcore.ResponseError](err); ok {
		meaning, cause = meaningOf(answer.StatusCode, substatus(answer)), errors.New(brief(answer))
	}
	switch {
	case o.lost:
		meaning = message.ErrUnknown
	case o.create && errors.Is(meaning, message.ErrNotFound):
		meaning = errNoContainer
	case !o.reached && !errors.Is(meaning, message.ErrTransient) && !errors.Is(meaning, message.ErrRefused):
		meaning = message.ErrRefused // of the account itself, not of a record
	}
	return fmt.Errorf("%s: %w: %w", o.what(), meaning, cause)
}

// refusal is the status of one operation of a batch that was rolled back.
type refusal struct{ status int }

func (r refusal) Error() string { return fmt.Sprintf("%d %s", r.status, http.StatusText(r.status)) }

// What a substatus adds.
const (
	writeForbidden     = "3"    // of 403: the account's write region moves
	accountNotFound    = "1008" // of 403: likewise
	metadataDenied     = "5301" // of 403: the identity has no role that allows this
	dataDenied         = "5302" // of 403: likewise
	sessionUnavailable = "1002" // of 404: no replica is as new as the session
	ownerNotFound      = "1003" // of 404: no such container, or no such database
)

// meaningOf is what a definite answer means. Of those that are not, it says what
// they mean where the doubt does not matter.
func meaningOf(status int, substatus string) error {
	switch status {
	case http.StatusConflict:
		return message.ErrExists
	case http.StatusPreconditionFailed:
		return message.ErrConflict
	case http.StatusNotFound:
		switch substatus {
		case sessionUnavailable:
			return message.ErrTransient
		case ownerNotFound:
			return errNoContainer
		}
		return message.ErrNotFound
	case http.StatusUnauthorized:
		return errNotSignedIn
	case http.StatusForbidden:
		switch substatus {
		case writeForbidden, accountNotFound:
			return message.ErrTransient
		case metadataDenied, dataDenied:
			return errNoRole
		}
		return message.ErrRefused
	case http.StatusTooManyRequests, statusRetryWith, http.StatusRequestTimeout, http.StatusGone, http.StatusFailedDependency:
		return message.ErrTransient
	}
	if status >= 500 {
		return message.ErrTransient
	}
	return message.ErrRefused
}

// statusRetryWith answers a write that met another one of the same item.
const statusRetryWith = 449

// Refusals whose remedy is known.
var (
	errNoContainer = fmt.Errorf("%w: the container or its database does not exist: create it", message.ErrRefused)
	errNotSignedIn = fmt.Errorf("%w: correct the account's key, or give this process an identity that the account knows", message.ErrRefused)
	errNoRole      = fmt.Errorf("%w: grant this identity the account's role Cosmos DB Built-in Data Contributor", message.ErrRefused)
)

func substatus(answer *azcore.ResponseError) string {
	if answer.RawResponse == nil {
		return ""
	}
	return answer.RawResponse.Header.Get(headerSubstatus)
}

// maxCause bounds what the service's own words add to an error.
const maxCause = 240

// brief is one line of what the SDK tells in twenty.
func brief(answer *azcore.ResponseError) string {
	text := fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	if answer.RawResponse == nil {
		return text
	}
	var said struct {
		Message string `json:"message"`
	}
	if body, err := runtime.Payload(answer.RawResponse); err == nil && json.Unmarshal(body, &said) == nil && said.Message != "" {
		words := strings.Join(strings.Fields(said.Message), " ")
		text += ": " + strings.ToValidUTF8(words[:min(len(words), maxCause)], "")
	}
	if activity := answer.RawResponse.Header.Get(headerActivity); activity != "" {
		text += " (activity " + activity + ")"
	}
	return text
}
