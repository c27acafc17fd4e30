// Package servicebus is the Service Bus emulator: the dialect that Azure's SDKs speak over AMQP 1.0, in front of the
// engine in package broker. It never stores anything; the engine never sees AMQP.
//
//	azservicebus ──AMQP──▶ emulator/amqp ──▶ dialect ──▶ broker
//	                                          $cbs          tokens: who may send and listen
//	                                          entity        senders and receivers
//	                                          …/$management renew, peek, schedule, cancel, settle
//
// It is an independent witness: it shares no code with the clients under test and is never kinder than Azure. What it
// cannot do is refused by name.
//
// What it promises, each held by the tests that name it:
//
//	D1  A link is attached, and a request answered, only under a token that stands and has the claim it needs.
//	D2  A link ends with the last token that covers it; a connection without any token that stands lives 20 seconds.
//	D3  A link that nobody uses for ten minutes ends, and so does a connection without links to entities after five,
//	    or after one if it never had any. Requests to $management in the name of a link are a use of it.
//	D4  A change of an entity ends every link to it, with what it holds; a change of nothing ends nothing.
//	D5  Every fault of testdata/faults.json does to a client what it says there.
//
// Every operation passes the hub's rules, before and after it is applied, in a goroutine of its own when a rule could
// hold it: a held operation keeps neither its link nor its connection nor the engine.
package servicebus
