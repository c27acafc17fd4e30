package amqp

// Link is one link, from the peer's attach on.
type Link struct {
	// Peer is the attach performative of the peer. Do not change it.
	Peer Attach
	// Data is the handler's own, to be set in Handler.Attach.
	Data any
}

// Acceptance is how a link is accepted. Name, handle, settle modes are those of the peer.
type Acceptance struct {
	Source         *Source // nil: the peer's, echoed
	Target         *Target // nil: the peer's, echoed
	Properties     Map
	MaxMessageSize uint64 // enforced on incoming links; 0: not sent, no limit but Options.MaxDelivery
	// Credit is the credit window of an incoming link: credit is renewed by itself so that
	// messages on their way and messages not settled yet are never more than this.
	Credit uint32
}

// Conn returns the connection of the link.
func (l *Link) Conn() *Conn { panic("todo") }

// Outgoing reports whether messages go to the peer on this link, that is, whether the peer is its receiver.
func (l *Link) Outgoing() bool { panic("todo") }

// Done is closed when the link has ended: nothing can be sent on it any more.
func (l *Link) Done() <-chan struct{} { panic("todo") }

// Accept answers the attach. An incoming link gets its credit.
func (l *Link) Accept(a Acceptance) error { panic("todo") }

// Refuse answers the attach with a link that has neither source nor target, and detaches it with the error.
func (l *Link) Refuse(e *Error) error { panic("todo") }

// Detach ends the link (closed, as opposed to suspended) with an error or nil. A
// link whose attach is not answered yet is refused. Deliveries that wait for the peer's window are lost.
func (l *Link) Detach(e *Error) error { panic("todo") }

// Credit is how many more messages the peer takes now on an outgoing link: what it granted minus what
// Send took. It is 0 while too much waits for the peer to read.
func (l *Link) Credit() uint32 { panic("todo") }

// Draining reports whether the peer waits for Drained.
func (l *Link) Draining() bool { panic("todo") }

// Drained tells a draining peer that nothing more is there: its remaining
// credit is used up. It does nothing if the peer does not drain.
func (l *Link) Drained() error { panic("todo") }

// SetCredit changes the credit window of an incoming link. A smaller one takes effect as messages come; 0 stops renewal.
func (l *Link) SetCredit(window uint32) error { panic("todo") }

// Outgoing is a message to be sent.
type Outgoing struct {
	Tag     []byte   // delivery-tag, at most 32 bytes; nil: one is made
	Format  uint32   // message-format, 0 for an AMQP message
	Settled bool     // sent settled: no disposition will follow
	Message [][]byte // the encoded message in consecutive parts; kept until written, so must not be changed
	Data    any      // becomes Delivery.Data
}

// Send takes one credit and sends a message on an outgoing link; it is written
// as soon as the windows of the session allow. ErrNoCredit: nothing was taken
// or sent; Handler.Credit will be called. The delivery is valid also if it is sent settled.
func (l *Link) Send(m Outgoing) (*Delivery, error) { panic("todo") }
