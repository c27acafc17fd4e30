// Package horizon holds the relations between durations, counts and sizes that
// "one effect" rests on. Each part of the system may be right by itself, and a
// wrong pair of settings still makes a second effect: a claim that is forgotten
// while a message of it lives, a key that the downstream forgets between two calls.
//
// The relations are a table, H1 to H28. A row says what must hold, and what goes
// wrong otherwise; what is checked, what an operator reads and what stands in
// docs/guarantees.md are all made of the same row.
//
//	R1  Check finds every relation that does not hold, at once, and says of each
//	    the numbers on both sides and which settings to change, by the names that
//	    their owner gave them.
//	R2  A relation of which one side is not known is reported as not checked, and
//	    never passes for one that holds.
//	R3  Nothing here looks anything up: what is checked is what the caller says.
//	    So one table serves a process that starts, a deployment that is planned,
//	    and entities that are read from a namespace.
package horizon
