// Package sim runs the whole story in one process and in virtual time: real
// workers and a real orchestrator on the real SDKs, against the emulators, inside
// a testing/synctest bubble. It has tests only.
//
//	world    emulators, one hub of rules, events and clock
//	worker   as cmd/worker wires it; dies by being cut off from everything
//	stories  one per promise, asserted from what the emulators have seen
//
//	histories  random ones: who runs, what is asked for and what goes wrong is from a seed
//
// A history is a quarter of an hour in which everything goes wrong that the emulators
// can do, and then peace, in which everything has to come to its end. What happened is
// taken down by the emulators: their event log, every version of every document, every
// call and its effects (witness). Each promise is held against that, by code that
// knows the words of documents and events and none of the code that makes them
// (promises). Clocks are wrong by up to ten minutes and by half a thousandth, and so is
// the servers'.
//
//	plan     all that a seed fixes
//	faults   the kinds of what goes wrong; themes: what of them a history concentrates on
//	player   plays a plan, act by act
//	promises what must hold: of claims, events, executions, stock, effects
//	tally    how often each kind, verdict and promise has come up: none may be missing
//
// `make sim` plays them. A seed does not fix the scheduler, so one that failed is
// played until it fails again: go test ./internal/sim -run '^TestOneHistory$' -seed=N.
//
// A death in a bubble is an isolation: a cancelled context would run the clean-up
// code that a killed process does not.
package sim
