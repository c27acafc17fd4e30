package amqp

import (
	"context"
	"log/slog"
	"net"
	"time"
)

// Handler gives the connections of a server their meaning. Its methods are
// called one at a time per connection from that connection's reader (Credit also from its writer, at the
// same time as others) and must not wait for anything: what takes time is started there and
// answered later, from any goroutine.
type Handler interface {
	// Open: the peer has opened the connection; c.Peer says who it is. A non-nil error refuses it.
	Open(c *Conn) *Error

	// Attach: the peer wants a link; l.Peer says which. Answer with l.Accept or l.Refuse, now or
	// later. If the link ends first (l.Done), the answer is not sent and returns ErrGone.
	Attach(l *Link)

	// Credit: the peer has granted credit on an outgoing link or asks to drain it, or there is room
	// again after a Send that answered ErrNoCredit. Read l.Credit and l.Draining; when draining, send
	// what there is at once and then call l.Drained. Coming from the writer, it may be late: the link may have ended.
	Credit(l *Link)

	// Transfer: a whole message has come on an incoming link. Answer with d.Settle, unless d.Settled.
	Transfer(d *Delivery)

	// Disposition: the peer has told the state of a message that was sent unsettled on an outgoing
	// link. If settled, the delivery is over; otherwise answer with d.Settle, possibly with another
	// state. State is nil if the peer sent none.
	Disposition(d *Delivery, state State, settled bool)

	// Detached: the link has ended, by the peer's detach, by its end of the session, with its
	// connection, or by Link.Detach once the peer has answered; err is the peer's error, if any. Called
	// once for every link that Attach was called for, except those that were refused. Unsettled
	// deliveries of the link are over, without any Disposition.
	Detached(l *Link, err *Error)

	// Closed: the connection is gone and every link was told Detached. Called once for every
	// connection that Open was called for. The error is nil after a clean close by the peer.
	Closed(c *Conn, err error)
}

// Options of a server connection. The zero value is usable: every zero field has the default it names.
type Options struct {
	ContainerID string // our name in open; "amqp"
	Properties  Map    // of our open

	MaxFrameSize   uint32 // largest frame we take; 65,536
	ChannelMax     uint16 // highest channel number, so one less than the sessions of a connection; 4,999
	HandleMax      uint32 // highest link handle of a session; 4,999
	IncomingWindow uint32 // transfer frames the peer may send before we renew its window; 5,000
	MaxDelivery    uint64 // largest message we assemble, also where a link sets no limit; 100 MiB
	MaxQueued      int    // bytes that may wait for the peer to read before Send answers ErrNoCredit; 1 MiB

	IdleTimeout  time.Duration // silence of the peer after which we close; half of it is announced; 0: none is announced, none enforced
	WriteTimeout time.Duration // longest single write before the connection is cut; 1 minute
	CloseTimeout time.Duration // how long a close waits to be written and answered; 1 second
	OpenTimeout  time.Duration // how long the peer may take from connecting until its open; 1 minute

	// Mechanisms are the SASL mechanisms offered; MSSBCBS, PLAIN, ANONYMOUS, EXTERNAL.
	Mechanisms []Symbol
	// Authenticate decides on the mechanism a peer has chosen and its initial response. nil: ANONYMOUS is
	// accepted and nothing else. It must not wait.
	Authenticate func(mechanism Symbol, response []byte) error

	Log *slog.Logger // protocol errors of peers, at debug and info level; discarded if nil
}

// Serve runs one connection: SASL, open, sessions, links, until it ends. It
// returns nil if the peer closed it cleanly, and the cause if ctx ended; in that case
// the peer is told amqp:connection:forced, if it reads within CloseTimeout. The net.Conn is closed in every case.
func Serve(ctx context.Context, nc net.Conn, h Handler, o Options) error {
	return serve(ctx, nc, h, o.withDefaults())
}
