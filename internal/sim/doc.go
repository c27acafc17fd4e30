// Package sim runs the whole story in one process and in virtual time: real
// workers and a real orchestrator on the real SDKs, against the emulators, inside
// a testing/synctest bubble. It has tests only.
//
//	world    emulators, one hub of rules, events and clock
//	worker   as cmd/worker wires it; dies by being cut off from everything
//	stories  one per promise, asserted from what the emulators have seen
//
// A death in a bubble is an isolation: a cancelled context would run the clean-up
// code that a killed process does not.
package sim
