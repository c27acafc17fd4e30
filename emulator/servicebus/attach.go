package servicebus

import (
	"strings"
	"sync/atomic"
	"time"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
)

// attachment is what every link has besides its meaning: whether it is used, and which right it lives by.
type attachment struct {
	link  *amqp.Link
	path  string // of the entity, with /$management for its management; "" for $cbs
	right Rights // any of these keeps it; 0: it needs no token
	code  string // how the service calls such a link in the text of a detach
	kind  string // and the class that watches it

	used atomic.Int64 // nanoseconds since began
	at   time.Time    // when it began
}

// touch notes that the link is in use.
func (a *attachment) touch() { a.used.Store(int64(time.Since(a.at))) }

// idle is how long the link has not been used.
func (a *attachment) idle() time.Duration { return time.Since(a.at) - time.Duration(a.used.Load()) }

// usable is anything with an attachment.
type usable interface{ touch() }

// attachmentTo begins an attachment to an entity.
func attachmentTo(l *amqp.Link, path string, right Rights) *attachment {
	a := &attachment{link: l, path: path, right: right, code: "publisher", kind: "AmqpMessagePublisher", at: time.Now()}
	if l.Outgoing() {
		a.code, a.kind = "consumer", "AmqpMessageConsumer"
	}
	return a
}

// managementAttachment is one of a pair of links for requests and replies.
func managementAttachment(l *amqp.Link, path string, right Rights) *attachment {
	return &attachment{link: l, path: path, right: right, code: "requestresponse", kind: "AmqpControlProtocolClient", at: time.Now()}
}

// Attach gives a link its meaning by its address.
func (c *connection) Attach(l *amqp.Link) {
	address, ok := linkAddress(l)
	switch path, isManagement := cutSuffixFold(address, managementSuffix); {
	case l.Peer.Coordinator:
		c.refuse(l, amqp.Errorf(amqp.ErrCondNotAllowed, "transactions are not supported by this emulator yet"))
	case !ok:
		c.refuse(l, amqp.Errorf(amqp.ErrCondInvalidField, "the link %q names no address", l.Peer.Name))
	case strings.EqualFold(address, cbsAddress):
		c.attachCBS(l)
	case isManagement:
		c.attachManagement(l, path)
	default:
		c.attachEntity(l, address)
	}
}

func linkAddress(l *amqp.Link) (string, bool) {
	if l.Outgoing() {
		if l.Peer.Source == nil {
			return "", false
		}
		return l.Peer.Source.Address, l.Peer.Source.Address != ""
	}
	if l.Peer.Target == nil {
		return "", false
	}
	return l.Peer.Target.Address, l.Peer.Target.Address != ""
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if n := len(s) - len(suffix); n >= 0 && strings.EqualFold(s[n:], suffix) {
		return s[:n], true
	}
	return s, false
}

// attachEntity attaches a sender or a receiver of messages.
func (c *connection) attachEntity(l *amqp.Link, address string) {
	entity, err := c.server.namespace.Find(address)
	if err != nil {
		c.refuse(l, c.server.notFound(address))
		return
	}
	var accept func()
	right := Send
	if l.Outgoing() {
		right = Listen
		accept, err = c.attachReceiver(l, entity)
	} else {
		accept, err = c.attachSender(l, entity)
	}
	c.perform(operation{
		op:       control.Op{Operation: "attach", Entity: entityText(entity.Path())},
		link:     l,
		fleeting: true,
		apply: func() func() {
			if q, ok := entity.(*broker.Queue); ok && err == nil && l.Outgoing() {
				err = q.TakesReceives()
			}
			if refused := c.authorize(entity.Path(), address, right); refused != nil {
				err = refused
			}
			if err != nil {
				return func() { c.refuse(l, wireError(err)) }
			}
			return accept
		},
	})
}

// accept answers an attach and has the link end with its entity, its token or its use. An entity that has gone since the
// link was asked for is looked for after the link has joined its audience: one that goes later ends the link there.
func (c *connection) accept(l *amqp.Link, a *attachment, entity broker.Entity, how amqp.Acceptance) error {
	c.enroll(a)
	if entity != nil {
		c.server.audience.join(c, l, entity)
		if gone := c.gone(l, entity); gone != nil {
			c.refuse(l, gone)
			c.strike(l)
			return gone
		}
	}
	if err := l.Accept(how); err != nil {
		c.strike(l)
		return err
	}
	return nil
}

// gone is the refusal of a link whose entity is not there any more, or another of its name in its place.
func (c *connection) gone(l *amqp.Link, entity broker.Entity) *amqp.Error {
	switch now, err := c.server.namespace.Find(entity.Path()); {
	case err != nil:
		return c.server.notFound(entity.Path())
	case now != entity:
		return entityChanged(l)
	}
	return nil
}

// enroll puts a link under the connection's watch.
func (c *connection) enroll(a *attachment) {
	c.mu.Lock()
	c.links[a.link] = a
	if a.path != "" { // those to $cbs do not count
		c.open++
		c.hadLink = true
	}
	c.mu.Unlock()
	c.wakeWatch()
}

// touchNamed notes that a link is in use whose client asks something of $management in its name.
func (c *connection) touchNamed(name string) {
	if name == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for l, a := range c.links {
		if l.Peer.Name == name {
			a.touch()
		}
	}
}

// strike takes a link off the watch.
func (c *connection) strike(l *amqp.Link) {
	c.server.audience.leave(l)
	c.mu.Lock()
	if a := c.links[l]; a != nil && a.path != "" {
		c.open--
		c.linkless = time.Now() // if that was the last
	}
	delete(c.links, l)
	c.mu.Unlock()
	c.wakeWatch()
}

// authorize returns a *claimError unless a token that stands covers a path and allows one of the rights. The address
// is the path as the client wrote it.
func (c *connection) authorize(path, address string, rights Rights) error {
	if c.allowedUntil(entityText(path), rights).After(c.server.hub.Now()) || c.server.hub.Off("servicebus.claims") {
		return nil
	}
	return &claimError{need: rights.named(), resource: c.server.resource(address)}
}

// allowedUntil is until when tokens allow one of the rights on a path; the zero time if none does.
func (c *connection) allowedUntil(path string, rights Rights) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allowedLocked(path, rights)
}

func (c *connection) allowedLocked(path string, rights Rights) time.Time {
	var until time.Time
	for resource, g := range c.tokens {
		if g.rights&rights != 0 && g.until.After(until) && (resource == "" || covers(resource, path)) {
			until = g.until
		}
	}
	return until
}

func (s *Server) resource(address string) string { return "sb://" + s.name + "/" + address }

func (s *Server) notFound(path string) *amqp.Error {
	return amqp.Errorf(amqp.ErrCondNotFound, "The messaging entity '%s' could not be found.", s.resource(path))
}

// refuse answers an attach that cannot be. A link that has ended meanwhile needs no answer.
func (c *connection) refuse(l *amqp.Link, e *amqp.Error) { c.log("refuse link", l.Refuse(e)) }

// closable is what gives back what a link holds before the client learns that the link has ended.
type closable interface{ close() }

// detach ends a link, or refuses it if it is not attached yet. What it holds is free before the client knows.
func (c *connection) detach(l *amqp.Link, e *amqp.Error) {
	if held, ok := l.Data.(closable); ok {
		held.close()
	}
	c.log("detach link", l.Detach(e))
}
