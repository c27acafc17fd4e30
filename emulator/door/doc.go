// Package door answers AMQP, TLS and HTTP on one listener. It tells them apart by
// the first bytes that a peer sends.
//
//	"AMQP" ──────────────────▶ AMQP
//	16 03, a ClientHello ────▶ TLS ──▶ the same choice once more, inside
//	"GET ", "POST ", … ──────▶ HTTP/1.1 ──▶ WebSocket, if the client asks for it ──▶ AMQP
//	anything else ───────────▶ refused in words
//
// What it promises, each point held by a test:
//
//	D1  A peer has Patience, ten seconds by default, to say what it speaks and to
//	    shake hands under TLS. Then it is cut. What is none of the three is told so.
//	D2  Whoever gets the connection reads it from its first byte.
//	D3  HTTP is HTTP/1.1, also under TLS, so that a handler that aborts cuts the
//	    connection and not only one stream of it.
//	D4  At most Connections are open at the same time; further ones wait to be accepted.
//	D5  When Serve returns, nothing that it has started is left.
package door
