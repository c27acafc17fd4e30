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
//	D4  A change of an entity ends every link to it, with what it holds, before it is answered; a change of nothing
//	    ends nothing. A link is attached to what is there when it is attached, however long that was held.
//	D5  Every fault of testdata/faults.json does to a client what it says there.
//
// Of the management API, which Admin answers:
//
//	M1   What a client creates, reads, changes and deletes is what it has described; what it leaves out has the
//	     service's default. Names are compared without case and keep it.
//	M2   What is not there is said not to be, in the way that the service says it for each kind; what is there
//	     already is a conflict, whatever the kind.
//	M3   The service's limits hold, least and most, and every property that is out of them is said at once. An entity
//	     may keep what a configuration has made shorter.
//	M4   What is for life cannot be changed: sessions, duplicate detection, partitions.
//	M5   The tier decides how large messages and entities may be.
//	M6   A request that means nothing is refused by name and changes nothing; an answer has what its version knows.
//	M7   Lists come by name, in pages, each with the address of the next.
//	M8   Only a token that stands, for this resource and with the claim to manage, is good for anything.
//	M9   Counts are those of the moment: what is due has happened before. Times are the server's.
//	M10  Another set of rules decides from the next message on; a scheduled message meets the rules of its time. It
//	     ends no links.
//
// Kept and shown, and without effect here: the authorization rules of an entity, since tokens are signed with the keys of
// the namespace; partitions, batched operations, express and ordering.
//
// Every operation passes the hub's rules, before and after it is applied, in a goroutine of its own when a rule could
// hold it: a held operation keeps neither its link nor its connection nor the engine.
package servicebus
