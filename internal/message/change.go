package message

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Change is what a webhook brings: the state of a resource at a version.
type Change struct {
	RequestID string         `json:"requestId"` // the same for every repetition
	Resource  string         `json:"resource"`
	Version   int64          `json:"version"`
	State     jsontext.Value `json:"state"` // an object, the sender's business alone
	Unknown   jsontext.Value `json:",embed"`
}

// ParseChange reads the body of a webhook, or says with ErrPoison what is wrong.
func ParseChange(body []byte) (Change, error) {
	var c Change
	if err := Decode(body, &c); err != nil {
		return Change{}, fmt.Errorf("%w: %w", ErrPoison, err)
	}
	errs := []error{checkRequestID(c.RequestID), checkEntity("resource", c.Resource), checkVersion(c.Version)}
	if c.State.Kind() != '{' {
		errs = append(errs, errors.New("state is missing, or not an object"))
	}
	if err := errors.Join(errs...); err != nil {
		return Change{}, fmt.Errorf("%w: %w", ErrPoison, err)
	}
	return c, nil
}
