// Package journal keeps a namespace of the Service Bus emulator on disk, so that what was acknowledged outlives the
// process, however it ends. It says what of the engine is which bytes; package disk keeps those, and with them go its
// promises: nothing is answered before it is kept (D1), whole operations only (D2), what is not ours or damaged is
// refused (D4), a disk that is full ends all answers (D5), and operations wait for room (D6).
//
// What it promises itself, held by the tests that name it:
//
//	J3  What is loaded is what was written: every field of every message, entity, rule, history and session.
//
// What never changes of a message has a key, and what does has another, so that a lock does not write the body again.
package journal
