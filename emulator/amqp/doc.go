// Package amqp is the server side of AMQP 1.0, written from the OASIS
// specification (amqp-core v1.0, parts 1 to 3 and 5). It knows connections,
// sessions, links and deliveries; it knows nothing of queues, locks or tokens.
// What a link means is the business of a [Handler].
//
//	            ┌── reader ──▶ Handler.Open, Attach, Credit, Transfer, Disposition, Detached
//	net.Conn ◀──┤
//	            └── writer ◀── Link.Accept, Refuse, Send, Drained, Detach · Delivery.Settle · Conn.Close
//
// What it promises:
//
//	A1  The codec never panics and never allocates by a length that the input
//	    does not back; every decoding failure is a *DecodeError.
//	A2  The bare part of a message passes through byte for byte: sections are
//	    views of the encoded message, and values of a section's map that nobody
//	    touches are written back in the bytes they came in.
//	A3  Only the reader goroutine calls the handler, except Closed, which comes last of all
//	    and from the same goroutine, and Credit, which the writer also calls. No lock of
//	    this package is held during a call, so a handler may call back at will.
//	A4  Every method of Conn, Link and Delivery may be called from any goroutine, never waits for the
//	    peer, and never calls the handler; so it may be called with the handler's own locks held.
//	A5  Nothing is sent for a link after its session has ended, nor for a
//	    session after its connection has: a late answer is an error to its caller, not a frame.
//	A6  A peer that has its answer to a detach, an end or a close can rely on it that the handler
//	    was told: whatever the links held is free again.
//	A7  Everything is bounded: frames, windows, sessions, links, what waits for a peer that does not read.
//	A8  When Serve returns, every goroutine it started has ended and the net.Conn is closed.
//
// What it does not do: it does not resume links (the unsettled map of an attach is
// carried and ignored), opens no sessions or links of its own, knows no transactions
// (an attach to a coordinator says so, and is the handler's to refuse), no SASL
// mechanism with a challenge, and no TLS, which belongs under the net.Conn.
package amqp
