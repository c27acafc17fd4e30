// Package evidence writes down what a run has shown, so that somebody who was not
// there can check it, and says beside it what the run has not shown.
//
//	probe, crash cell, preflight ──Append──▶ records.jsonl ──Close──▶ manifest.json (head)
//	                                              │
//	                            Verify, offline ◀─┴─▶ page
//
// The record is the Idempotent Event Receipt Record, version 1. It has ten fields:
// event key, business entity, version, delivery attempt, receipt state, side effect,
// duplicate decision, ordering decision, evidence, residual risk. What a vendor says,
// what was observed here and what we conclude stand apart within the evidence.
//
//	V1  A record without one of the ten fields is EVIDENCE_INCOMPLETE. It is not
//	    appended, and a file that contains one does not pass.
//	V2  The class of a record is computed from its observations, when it is appended
//	    and again when it is verified. Nobody states it.
//	V3  A record has the hash of the one before it and its own, over canonical bytes
//	    (RFC 8785). A change of any value, an omission and another order show.
//	V4  A chain proves nothing about who made it: whoever can write the file can
//	    compute it anew. So its head is told to the caller and stands in a manifest,
//	    and without one of the two a file does not pass.
//	V5  A run has one writer. Its folder is made for it and is nobody's else.
//	V6  A run of the probes has all of them, each with the fixtures of its table.
//	V7  A source that is due for review is a notice. It never changes a verdict.
//	V8  Evidence is invalid where something that is relied on does not hold, by a
//	    preflight of the same run. Its file does not pass and says which, and its page
//	    says so before anything else and decides nothing.
package evidence
