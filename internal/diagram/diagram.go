// Package diagram draws what happened to one execution: lifelines and numbered
// arrows, as in the drawing that this system is built after, from the claim's grants
// and the execution's history.
//
//	Timeline ─▶ Of ─▶ Diagram ─▶ SVG, or Text
//
// It is pure, so that the page and the command line show the same picture, arrow by
// arrow.
//
//	G1  An arrow stands for what is on record, or says that it is inferred. Of a call
//	    whose grant ended without a word, nobody knows: it is drawn as possible.
//	G2  The picture is bounded, whatever a history holds, and says what it leaves out.
//	G3  Nothing of what callers, downstreams and operators wrote reaches a terminal or
//	    a page as anything but text.
package diagram

import (
	"strings"
	"time"
	"unicode"
)

// Diagram is a picture, before it has a form.
type Diagram struct {
	ExecutionID string
	Type        string
	Status      string
	TraceID     string
	Lifelines   []Lifeline
	Arrows      []Arrow
	Omitted     int // arrows that are left out in the middle
}

// Lifeline is one of those who take part.
type Lifeline struct {
	Name string
	Kind Kind
}

// Kind says what a lifeline stands for.
type Kind string

// The kinds, in the order in which they stand.
const (
	Operator     Kind = "operator"
	Broker       Kind = "broker"
	Worker       Kind = "worker"
	Claims       Kind = "claims"
	Downstream   Kind = "downstream"
	Orchestrator Kind = "orchestrator"
	Store        Kind = "store"
)

// Arrow is one thing that happened, from one lifeline to another, or at one.
type Arrow struct {
	Number   int // from 1; 0: a remark between arrows
	From, To int // places among the lifelines
	Label    string
	At       time.Time // zero: not on record
	Mark     Mark
	Reply    bool // an answer, or what a broker brings: drawn dashed
	Inferred bool // not on record: it follows from what is, or may have been
}

// Self reports whether an arrow begins and ends at one lifeline.
func (a Arrow) Self() bool { return a.From == a.To }

// Mark says what is noteworthy about an arrow.
type Mark string

// The marks.
const (
	Plain     Mark = ""
	Crash     Mark = "crash"     // an owner went silent, or was ended
	Expired   Mark = "expired"   // a lock or a lease ran out, and the message came again
	Busy      Mark = "busy"      // somebody holds it: nobody else works on it
	Fenced    Mark = "fenced"    // what an earlier owner still writes is refused: it was, or would be
	Duplicate Mark = "duplicate" // it came again and changed nothing
	Failure   Mark = "failure"   // it ended without a result
	Success   Mark = "success"   // it ended with one
	Decision  Mark = "decision"  // an operator's
)

// maxArrows bounds a picture (G2): a claim keeps 32 grants, an execution 64 notes and
// one for each of its runs.
const maxArrows = 400

// bounded cuts the middle out of what is too long.
func (d *Diagram) bounded() {
	if d.Omitted = len(d.Arrows) - maxArrows; d.Omitted <= 0 {
		d.Omitted = 0
		return
	}
	begin := maxArrows / 4
	d.Arrows = append(d.Arrows[:begin:begin], d.Arrows[begin+d.Omitted:]...)
}

// maxLabel bounds the text at one arrow, in characters.
const maxLabel = 110

// plain makes one line of printable text (G3): control characters, also those that
// turn the direction of what follows, become visible marks, and what is too long is
// cut.
func plain(text string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n == most {
			b.WriteRune('…')
			break
		}
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			r = ' '
		case !unicode.IsPrint(r):
			r = '�'
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}
