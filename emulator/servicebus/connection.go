package servicebus

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
)

const (
	cbsAddress       = "$cbs"
	managementSuffix = "/$management"

	// senderCredit is how many messages a sender may have on their way. It bounds what a rule holds.
	senderCredit = 1000
	// maxRequests bounds the requests of one connection that wait for their answers.
	maxRequests = 1000

	// idleTimeout is what the service announces; clients send something in half of it.
	idleTimeout = 4 * time.Minute
)

// connection is one client's connection. The client is whoever its ApplicationID says: the part of the user-agent
// before the SDK's own.
type connection struct {
	server  *Server
	amqp    *amqp.Conn
	client  string
	cut     <-chan struct{} // closed once the client is isolated
	greeted bool            // the log has its beginning, so it gets its end

	requests atomic.Int64 // that wait for their answers

	attention chan struct{} // for the watch: there may be an earlier deadline

	mu        sync.Mutex
	tokens    map[string]grant           // by resource below the host
	cbs       *amqp.Link                 // the one $cbs sender a connection may have
	repliers  map[string]*replier        // by the address that requests name in reply-to
	links     map[*amqp.Link]*attachment // accepted and not ended
	open      int                        // of them to entities
	hadLink   bool                       // there was one of these
	linkless  time.Time                  // since when there is none
	tokenless time.Time                  // since when no token stands; zero: one does
}

var _ amqp.Handler = (*connection)(nil)

// incoming is what an incoming link's messages go to; outgoing is what an outgoing link's credit goes to.
type (
	incoming interface{ transfer(*amqp.Delivery) }
	outgoing interface{ credit() }
	// settled is an outgoing link whose messages the client settles.
	settled interface {
		disposition(*amqp.Delivery, amqp.State, bool)
	}
)

func (s *Server) serve(ctx context.Context, nc net.Conn) error {
	c := &connection{
		server:    s,
		attention: make(chan struct{}, 1),
		tokens:    make(map[string]grant),
		repliers:  make(map[string]*replier),
		links:     make(map[*amqp.Link]*attachment),
		linkless:  time.Now(),
	}
	return amqp.Serve(ctx, nc, c, amqp.Options{
		ContainerID: s.name,
		MaxDelivery: 2 * s.largestMessage(),
		IdleTimeout: idleTimeout,
		Log:         s.log,
	})
}

// Open learns who the client is. An isolated client is cut off at once: to it, the server is gone.
func (c *connection) Open(conn *amqp.Conn) *amqp.Error {
	c.amqp = conn
	agent, _ := annotation(conn.Peer.Properties, "user-agent")
	c.client = clientName(agent)
	c.cut = c.server.hub.IsolatedC(c.client)
	if err := c.server.enter(); err != nil {
		return amqp.Errorf(amqp.ErrCondConnectionForced, "%s", err)
	}
	go func() {
		defer c.server.work.Done()
		c.watch()
	}()
	if c.isolated() {
		return nil
	}
	c.greeted = true
	c.server.hub.Record(control.Event{Service: service, Kind: "connected", Client: c.client})
	return nil
}

// clientName is the ApplicationID that azservicebus puts in front of its own user-agent.
func clientName(agent any) string {
	text, _ := agent.(string)
	name, _, ok := strings.Cut(text, " azsdk-")
	if !ok {
		return ""
	}
	return name
}

// Closed notes the end. Locks that the client held stay until they expire.
func (c *connection) Closed(_ *amqp.Conn, err error) {
	if !c.greeted {
		return
	}
	e := control.Event{Service: service, Kind: "disconnected", Client: c.client}
	if err != nil {
		e.Reason = err.Error()
	}
	c.server.hub.Record(e)
}

// log notes an answer that found nobody: the peer has moved on, which is its right.
func (c *connection) log(what string, err error) {
	if err != nil {
		c.server.log.Debug("answer not sent", slog.String("what", what), slog.String("client", c.client), slog.Any("err", err))
	}
}

// Transfer hands a message to what its link is attached to.
func (c *connection) Transfer(d *amqp.Delivery) {
	touch(d.Link)
	if to, ok := d.Link.Data.(incoming); ok {
		to.transfer(d)
	}
}

// Credit tells what a link is attached to that the client takes messages.
func (c *connection) Credit(l *amqp.Link) {
	touch(l)
	if to, ok := l.Data.(outgoing); ok {
		to.credit()
	}
}

// Disposition hands a settlement to the receiver it belongs to.
func (c *connection) Disposition(d *amqp.Delivery, state amqp.State, isSettled bool) {
	touch(d.Link)
	if to, ok := d.Link.Data.(settled); ok {
		to.disposition(d, state, isSettled)
	}
}

// Detached frees what the link had, before the client has its answer.
func (c *connection) Detached(l *amqp.Link, _ *amqp.Error) {
	if held, ok := l.Data.(closable); ok {
		held.close()
	}
	c.strike(l)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cbs == l && !c.server.hub.Off("servicebus.cbs-freed") {
		c.cbs = nil
	}
	for address, p := range c.repliers {
		if p.link == l {
			delete(c.repliers, address)
		}
	}
}

func touch(l *amqp.Link) {
	if u, ok := l.Data.(usable); ok {
		u.touch()
	}
}

// attachReplier attaches a link on which replies of $cbs or of an entity's $management go to the client. Requests ask
// for it by its target address or, as those of @azure/service-bus to $cbs, by its name if it has no such address.
func (c *connection) attachReplier(l *amqp.Link, a *attachment, entity broker.Entity, names replyNames) {
	address := l.Peer.Name
	if l.Peer.Target != nil && l.Peer.Target.Address != "" {
		address = l.Peer.Target.Address
	}
	p := &replier{attachment: a, names: names}
	l.Data = p
	if err := c.accept(l, a, entity, amqp.Acceptance{}); err != nil {
		c.log("accept link", err)
		return // there will be no word of its end
	}
	c.mu.Lock()
	c.repliers[address] = p // before the next frame is read, which may be a request
	c.mu.Unlock()
}

// reply sends a reply to the link that the request names.
func (c *connection) reply(r *request, names replyNames, answer reply) {
	c.mu.Lock()
	p := c.repliers[r.replyTo]
	c.mu.Unlock()
	if p == nil {
		c.log("reply", amqp.ErrGone)
		return
	}
	message, err := answer.encode(names, r.id)
	if err != nil {
		c.server.log.Error("reply not encoded", slog.Any("err", err))
		message, err = reply{status: http.StatusInternalServerError, description: err.Error()}.encode(names, r.id)
	}
	if err == nil {
		p.send(message)
	}
}

// request runs a request past the rules and replies.
func (c *connection) request(r *request, names replyNames, p plan) {
	if c.requests.Add(1) > maxRequests {
		c.requests.Add(-1)
		c.reply(r, names, reply{status: http.StatusServiceUnavailable, description: "too many requests of this connection wait for their answers"})
		return
	}
	c.perform(operation{
		op:   p.op,
		link: r.delivery.Link,
		lose: p.lose,
		apply: func() func() {
			answer := p.run()
			return func() { c.reply(r, names, answer) }
		},
		refuse: func(d control.Decision) { c.reply(r, names, orderedReply(d)) },
		done:   func() { c.requests.Add(-1) },
	})
}
