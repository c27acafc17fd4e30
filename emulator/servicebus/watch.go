package servicebus

import (
	"fmt"
	"time"

	"oneeffect/emulator/amqp"
)

// What the service does not put up with for longer.
const (
	linkIdle        = 10 * time.Minute // a link without transfer, settlement, credit or management in its name
	connectionIdle  = 5 * time.Minute  // a connection without links
	connectionBlank = time.Minute      // a connection that never had one
	tokenGrace      = 20 * time.Second // a connection without a token that stands
)

// watch ends what has been idle for too long or has no right to be any more. It is the connection's own goroutine and
// also cuts it off when its client is isolated. Idleness is measured in real time, which a jump of the server's clock
// does not touch; tokens end by the server's clock.
func (c *connection) watch() {
	timer := time.NewTimer(tokenGrace)
	defer timer.Stop()
	for {
		jumped := c.server.hub.Jumped()
		timer.Reset(c.inspect())
		select {
		case <-timer.C:
		case <-jumped:
		case <-c.attention:
		case <-c.cut:
			c.amqp.Cut()
			return
		case <-c.amqp.Context().Done():
			return
		}
	}
}

// wakeWatch has the watch look again: there is a new deadline.
func (c *connection) wakeWatch() {
	select {
	case c.attention <- struct{}{}:
	default:
	}
}

// inspect ends what is due and returns when to look again.
func (c *connection) inspect() time.Duration {
	next := time.Hour
	within := func(left time.Duration) bool {
		if left > 0 {
			next = min(next, left)
		}
		return left > 0
	}
	for l, e := range c.overdue(within) {
		c.detach(l, e)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == 0 {
		allowed := connectionIdle
		if !c.hadLink {
			allowed = connectionBlank
		}
		if !within(allowed-time.Since(c.linkless)) && !c.server.hub.Off("servicebus.idle-connection") {
			c.force("The connection was inactive for more than the allowed %d milliseconds and is closed by container 'LinkTracker'.", allowed.Milliseconds())
		}
	}
	now := c.server.hub.Now()
	for _, g := range c.tokens {
		if within(g.until.Sub(now)) {
			c.tokenless = time.Time{}
			return next
		}
	}
	if c.tokenless.IsZero() {
		c.tokenless = time.Now()
	}
	if !within(tokenGrace-time.Since(c.tokenless)) && !c.server.hub.Off("servicebus.token-expiry") {
		c.force("The connection has had no valid token for %v and is closed.", tokenGrace)
	}
	return next
}

// force closes the connection as the service does.
func (c *connection) force(format string, args ...any) {
	c.amqp.Close(amqp.Errorf(amqp.ErrCondConnectionForced, format, args...))
}

// overdue lists the links that have to end, with the reason.
func (c *connection) overdue(within func(time.Duration) bool) map[*amqp.Link]*amqp.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.server.hub.Now()
	due := make(map[*amqp.Link]*amqp.Error)
	for l, a := range c.links {
		if !within(linkIdle-a.idle()) && !c.server.hub.Off("servicebus.idle-link") {
			due[l] = forced(l, a.code+"(link)", fmt.Sprintf("%s.IdleTimerExpired: Idle timeout: 00:10:00.", a.kind))
		}
		if a.right != 0 && !within(c.allowedLocked(a.path, a.right).Sub(now)) && !c.server.hub.Off("servicebus.token-expiry") {
			refused := claimError{need: a.right.named(), resource: c.server.resource(a.path)}
			due[l] = forced(l, "RenewToken", refused.Error())
		}
	}
	return due
}
