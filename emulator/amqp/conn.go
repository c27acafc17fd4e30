package amqp

import (
	"context"
)

// Conn is one connection, as the handler sees it.
type Conn struct {
	// Peer is the open performative of the peer: its container-id, hostname and properties. Do not change it.
	Peer Open
	// Data is the handler's own, to be set in Handler.Open.
	Data any
}

// Context ends when the connection does; its cause says why.
func (c *Conn) Context() context.Context { panic("todo") }

// Close tells the peer that the connection is over, with an error or nil, and
// ends it once the peer has answered or CloseTimeout has passed. What was sent before is still written.
func (c *Conn) Close(e *Error) { panic("todo") }

// Cut ends the connection at once, without a word, as a broken network does. What waits to be written is lost.
func (c *Conn) Cut() { panic("todo") }
