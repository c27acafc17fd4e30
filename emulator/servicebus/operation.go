package servicebus

import (
	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
)

// operation is one thing a client has asked for, on its way past the rules.
type operation struct {
	op   control.Op
	link *amqp.Link // what a rule detaches

	// apply does it and returns how to answer. It is not called for what a rule has ended before. The answer waits until
	// nothing can take back what it says.
	apply func() (answer func())
	// fleeting says that there is nothing to wait for: what is answered ends with the connection.
	fleeting bool
	// refuse answers what a rule has ordered instead of the truth; nil detaches the link with it.
	refuse func(control.Decision)
	// lose ends the lock that the operation needs; nil if it needs none.
	lose func()
	// ended is called if apply never will be.
	ended func(control.Kind)
	// done is called last of all, whatever became of it.
	done func()
}

const service = "servicebus"

// perform takes an operation past the rules. When none can match it, that is at once and on the caller's goroutine;
// otherwise in a goroutine of its own, since a rule may hold it for as long as it likes.
func (c *connection) perform(o operation) {
	o.op.Service, o.op.Client = service, c.client
	if !c.concerned(o.op) {
		answer := o.apply()
		if o.fleeting {
			answer()
			o.finish()
			return
		}
		c.server.namespace.Kept(func() {
			answer()
			o.finish()
		})
		return
	}
	if err := c.server.enter(); err != nil {
		o.end(control.Drop) // the server is closing and the connection with it
		o.finish()
		return
	}
	go func() {
		defer c.server.work.Done()
		defer o.finish()
		c.underRules(o)
	}()
}

// concerned reports whether an operation of this client must pass the hub. Its body need not be filled in.
func (c *connection) concerned(op control.Op) bool {
	op.Service, op.Client = service, c.client
	return c.isolated() || c.server.hub.Concerns(op)
}

func (c *connection) isolated() bool {
	select {
	case <-c.cut:
		return true
	default:
		return false
	}
}

func (c *connection) underRules(o operation) {
	hub, peer := c.server.hub, c.amqp.Context()
	d := hub.Before(peer, o.op)
	if d.Kind == control.LoseLock {
		if o.lose != nil {
			o.lose()
		}
		d.Kind = control.Proceed
	}
	if d.Kind != control.Proceed {
		o.end(d.Kind)
		c.decide(o, d)
		return
	}
	answer := o.apply()
	if !o.fleeting && !c.server.awaitKept() {
		return
	}
	if d := hub.After(peer, o.op); d.Kind != control.Proceed {
		c.decide(o, d)
		return
	}
	answer()
}

func (o operation) end(how control.Kind) {
	if o.ended != nil {
		o.ended(how)
	}
}

func (o operation) finish() {
	if o.done != nil {
		o.done()
	}
}

// decide does what a rule has ordered instead of an answer.
func (c *connection) decide(o operation, d control.Decision) {
	switch d.Kind {
	case control.Drop, control.Reset:
		c.amqp.Cut()
	case control.Close:
		c.amqp.Close(ordered(d))
	case control.Detach:
		c.detach(o.link, ordered(d))
	case control.Answer:
		if o.refuse == nil {
			c.detach(o.link, ordered(d))
			return
		}
		o.refuse(d)
	}
}
