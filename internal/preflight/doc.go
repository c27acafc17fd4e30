// Package preflight asks a broker and a store whether they keep the rules that
// this product relies on, before the first message does.
//
//	probe ──own items, own queue──▶ endpoint ──▶ verdict: what was sent, expected and seen
//
// An endpoint that breaks one of them (an emulator, a proxy, an account that is set up
// otherwise) makes everything that is shown on it worthless: evidence that was taken
// there is invalid.
//
//	F1  A verdict says what was seen. What could not be asked does not hold, and says
//	    why: nothing is taken for granted, and no probe is left out in silence.
//	F2  A probe touches nothing but what it made: items under keys of its own, which
//	    expire by themselves, and a queue of its own. A queue that is given instead
//	    must be none of the product's, and empty.
//	F3  What a probe made it removes, also when it is interrupted.
//	F4  Every probe has a bound.
//
// The probes use the SDKs as they are. The product's adapters would repair or
// translate what is to be seen.
package preflight
