package servicebus

import (
	"context"
	"errors"
	"sync/atomic"
)

// Attachment tells whether a receiver receives, for whoever asks from outside. Its
// zero is that of one which has not begun.
type Attachment struct{ stands atomic.Bool }

// errNotAttached: the receiver's link does not stand; its log says why.
var errNotAttached = errors.New("not receiving: the broker does not answer, or refuses (the log says which)")

// Check is nil while the receiver's link stands.
func (a *Attachment) Check(context.Context) error {
	if !a.stands.Load() {
		return errNotAttached
	}
	return nil
}

func (p *pump) attached(is bool) {
	if p.Attachment != nil {
		p.Attachment.stands.Store(is)
	}
}
