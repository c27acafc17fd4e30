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
// Every operation passes the hub's rules, before and after it is applied, in a goroutine of its own when a rule could
// hold it: a held operation keeps neither its link nor its connection nor the engine.
package servicebus
