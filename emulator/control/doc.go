// Package control is what the emulators share: a clock, fault rules, an event
// log, switches, isolation and lags. Tests and drivers arm faults here and wait here
// for what happens; nobody polls and nobody sleeps.
//
//	client ──▶ dialect ──▶ Before ──▶ apply ──▶ After ──▶ answer
//	                         │                    │
//	                         └── rules: hold, drop, delay, answer, detach, close, reset, lose-lock, silence
//
// What it promises, each held by the tests that name it:
//
//	H1  A held operation blocks its own caller and nothing else.
//	H2  An operation held before apply whose peer goes away is never applied,
//	    unless its rule says late; then its release applies it all the same.
//	H3  Whoever waits for a rule to be reached, or for its peer to be gone, sees
//	    it whether it happens before or after the waiting begins.
//	H4  A rule with a seed fires at the same matching operations every time.
//	H5  Nothing of an isolated client gets past Before, and no answer to it past
//	    After.
//	H6  Events are numbered without gaps in the order in which they were recorded;
//	    the log keeps the newest 65,536 and a forgotten one is never skipped in silence.
//	H7  A rule, switch, lag or clock setting that is not understood is refused, with
//	    every mistake in it named at once.
//	H8  All of it runs inside a testing/synctest bubble: no mutex is held over a
//	    wait, and the package starts no goroutine.
//
// Locks: Hub.mu guards rules, holds, isolation, lags and the clock; eventLog.mu guards
// the log. Hub.mu may be held while eventLog.mu is taken, never the reverse.
package control
