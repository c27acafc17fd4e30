package servicebus

import (
	"fmt"
	"slices"
	"time"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/servicebus/broker"
)

const (
	sessionFilter  = amqp.Symbol("com.microsoft:session-filter")
	sessionTimeout = amqp.Symbol("com.microsoft:timeout")
	lockedUntilUTC = amqp.Symbol("com.microsoft:locked-until-utc")

	sessionNeeded = "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."

	// defaultSessionWait is how long a client waits for the next session that says nothing about it.
	defaultSessionWait = time.Minute
)

// sessionWish is the session that a client asks for in the filter of its source.
type sessionWish struct {
	index int                 // of the filter
	named bool                // or else the next one that is available
	id    string              // of a named one
	form  func(id string) any // the filter in the form it came in
}

// sessionWanted reads the filter; nil if there is none. Some clients send the session's id as a described value, others
// plain, and each understands only its own form.
func sessionWanted(l *amqp.Link) (*sessionWish, error) {
	filter := l.Peer.Source.Filter
	if len(filter) == 0 {
		return nil, nil
	}
	i := slices.IndexFunc(filter, func(e amqp.Entry) bool { return e.Key == sessionFilter || e.Key == string(sessionFilter) })
	if i < 0 {
		return nil, fmt.Errorf("filter %v: it is %w", filter[0].Key, broker.ErrUnsupported)
	}
	w := &sessionWish{index: i, form: func(id string) any { return id }}
	value := filter[i].Value
	if d, ok := value.(amqp.Described); ok {
		w.form = func(id string) any { return amqp.Described{Descriptor: d.Descriptor, Value: id} }
		value = d.Value
	}
	switch id := value.(type) {
	case nil:
	case string:
		w.named, w.id = true, id
	default:
		return nil, fmt.Errorf("session filter of type %T: %w: it must be a string or null", value, broker.ErrInvalid)
	}
	return w, nil
}

// acceptSession gets the session and then accepts the link, at once or when there is one.
func (r *receiver) acceptSession(wish *sessionWish) {
	c := r.connection
	if wish.named {
		consumer, err := r.queue.AcceptSession(c.client, r.mode, wish.id, r.wake)
		if err != nil {
			c.refuse(r.link, wireError(err))
			return
		}
		r.startSession(consumer, wish)
		return
	}
	changed := r.queue.Changed() // asked for first, so that no change falls between
	applicant, err := r.queue.AwaitSession(c.client, r.mode, r.wake)
	if err != nil {
		c.refuse(r.link, wireError(err))
		return
	}
	if c.server.enter() != nil {
		if consumer := applicant.Withdraw(); consumer != nil {
			consumer.Close()
		}
		return
	}
	go func() {
		defer c.server.work.Done()
		r.awaitSession(applicant, wish, changed)
	}()
}

// awaitSession waits for a session as long as the client does. A client that has given up gets nothing, and the session
// goes to the next.
func (r *receiver) awaitSession(applicant *broker.Applicant, wish *sessionWish, changed <-chan struct{}) {
	c := r.connection
	timer := time.NewTimer(r.sessionWait())
	defer timer.Stop()
	var refusal *amqp.Error
	select {
	case <-applicant.Granted():
	case <-timer.C:
		refusal = amqp.Errorf(condTimeout, "The operation did not complete within the allotted timeout: there was no session with messages in %s.", r.path)
	case <-changed:
		refusal = entityChanged(r.link)
	case <-r.link.Done():
	}
	consumer := applicant.Withdraw()
	if consumer != nil {
		r.startSession(consumer, wish)
		return
	}
	if refusal != nil {
		c.refuse(r.link, refusal)
	}
}

// startSession accepts the link to a session and says until when it is locked.
func (r *receiver) startSession(consumer *broker.Consumer, wish *sessionWish) {
	r.adopt(consumer)
	source := *r.link.Peer.Source
	source.Filter = slices.Clone(source.Filter)
	source.Filter[wish.index].Value = wish.form(consumer.Session())
	r.start(amqp.Acceptance{
		Source:     &source,
		Properties: amqp.Map{{Key: lockedUntilUTC, Value: ticks(consumer.SessionLockedUntil())}},
	})
}

// sessionWait is how long the client is ready to wait.
func (r *receiver) sessionWait() time.Duration {
	v, _ := annotation(r.link.Peer.Properties, sessionTimeout)
	ms, ok := amqp.Integer(v)
	if !ok || ms < 0 || ms > int64(time.Hour/time.Millisecond) {
		return defaultSessionWait
	}
	return time.Duration(ms) * time.Millisecond
}
