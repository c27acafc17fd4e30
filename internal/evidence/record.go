package evidence

import (
	"strings"
	"time"

	"oneeffect/internal/receipt"

	"github.com/go-json-experiment/json/jsontext"
)

// Version names the form of a record.
const Version = "idempotent-event-receipt-record/v1"

// Kind says what a record is about.
type Kind string

// The kinds. Each has a member of its name in the record that says more; the ten
// fields belong to probes and crash cells.
const (
	KindRun       Kind = "run" // first in each file: what ran, where, and by which sources
	KindProbe     Kind = "probe"
	KindCell      Kind = "crashCell"
	KindPreflight Kind = "preflight"
)

// Class is what a record comes to.
type Class string

// The classes: those of receipts, and those that only evidence has.
const (
	Applied    = Class(receipt.Applied)
	Duplicate  = Class(receipt.Duplicate)
	Stale      = Class(receipt.Stale)
	Conflict   = Class(receipt.Conflict)
	NonAtomic  = Class("NON_ATOMIC_DUPLICATE_RISK")
	Incomplete = Class("EVIDENCE_INCOMPLETE")

	Held   = Class("HELD")   // of a crash cell or a preflight: it is as it must be
	Broken = Class("BROKEN") // … it is not

	// Unclassified observations fit no class: something is wrong with the run.
	Unclassified = Class("UNCLASSIFIED")
)

// Record is one line of the evidence.
type Record struct {
	Schema   string    `json:"schema"`
	Run      string    `json:"run"`
	Sequence int       `json:"sequence"` // 0 is the run's own record
	Previous string    `json:"previous"` // hash of the record before this one; of the first, none
	At       time.Time `json:"at"`
	Kind     Kind      `json:"kind"`

	About     *About   `json:"about,omitzero"`
	Probe     *Probe   `json:"probe,omitzero"`
	Cell      *Cell    `json:"crashCell,omitzero"`
	Preflight *Verdict `json:"preflight,omitzero"`

	Expected Class `json:"expected,omitzero"`
	Observed Class `json:"observed,omitzero"` // computed by Append (V2)

	Fields // of probes and crash cells

	Hash string `json:"hash,omitzero"` // over the canonical form of all the rest
}

// Fields are the ten of a record.
type Fields struct {
	EventKey          string    `json:"eventKey,omitzero"`
	BusinessEntity    string    `json:"businessEntity,omitzero"`
	Version           int64     `json:"version,omitzero"`
	DeliveryAttempt   []Attempt `json:"deliveryAttempt,omitzero"` // in their order; the last is the one that decides
	ReceiptState      string    `json:"receiptState,omitzero"`
	SideEffect        string    `json:"sideEffect,omitzero"`
	DuplicateDecision string    `json:"duplicateDecision,omitzero"`
	OrderingDecision  string    `json:"orderingDecision,omitzero"`
	Evidence          Evidence  `json:"evidence,omitzero"`
	ResidualRisk      []string  `json:"residualRisk,omitzero"`
}

// Attempt is one delivery. What identifies it is the transport's, and decides nothing.
type Attempt struct {
	Transport string `json:"transport"`         // servicebus, http
	ID        string `json:"id"`                // MessageID, or the name that a sender gives to an attempt
	Count     int    `json:"count"`             // which delivery of that message it was
	Sequence  int64  `json:"sequence,omitzero"` // the broker's number of the message
	Process   string `json:"process"`           // who worked on it
	Ended     string `json:"ended"`             // complete, 200, SIGKILL …: what the transport or the system says of its end
	Reported  Class  `json:"reported,omitzero"` // what the process said it came to; it is compared, not believed
}

// Evidence keeps three kinds of statement apart.
type Evidence struct {
	VendorFacts       []VendorFact  `json:"vendorFacts"`
	LocalObservations []Observation `json:"localObservations"`
	Inference         []string      `json:"inference"`
}

// VendorFact is what a source says, and when that was last looked up.
type VendorFact struct {
	Claim    string `json:"claim"`
	Source   string `json:"source"` // its locator
	Checked  Date   `json:"checked"`
	ReviewBy Date   `json:"reviewBy"`
}

// Observation is something that was seen here: in words, and as data if a class
// depends on it.
type Observation struct {
	Source string `json:"source"` // who showed it: producer, broker, store, process, http
	Saw    string `json:"saw"`
	Sent   *Sent  `json:"sent,omitzero"`
	State  *State `json:"state,omitzero"`
}

// Sent is the event that was sent.
type Sent struct {
	EventKey string `json:"eventKey"`
	Entity   string `json:"entity"`
	Version  int64  `json:"version"`
	Digest   string `json:"digest"`
	Delta    int64  `json:"delta,omitzero"`   // of a stock, or
	Content  string `json:"content,omitzero"` // what the resource is to be, in canonical JSON
}

// State is what the store held: the entity, and the receipts of the events that the
// record is about.
type State struct {
	Version  int64         `json:"version"` // 0: nothing was known of the entity
	Stock    int64         `json:"stock,omitzero"`
	Content  string        `json:"content,omitzero"`
	Receipts []ReceiptSeen `json:"receipts"`
}

// ReceiptSeen is a receipt as it was read.
type ReceiptSeen struct {
	Key      string `json:"key"`
	Digest   string `json:"digest"`
	Outcome  string `json:"outcome"`
	Version  int64  `json:"version"`
	Found    int64  `json:"found"`
	Gap      int64  `json:"gap,omitzero"`
	Delta    int64  `json:"delta,omitzero"`
	Writer   string `json:"writer"` // the nonce of the recording that wrote it
	Delivery string `json:"delivery,omitzero"`
}

// Probe says which probe a record belongs to, and which of its cases it is.
type Probe struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	Case   string `json:"case"`
	Sense  Sense  `json:"sense"`
	// Subject is the record that the probe is about, where that is a record itself.
	Subject jsontext.Value `json:"subject,omitzero"`
}

// Sense is what a case is evidence of.
type Sense string

// The senses: it works, it fails or is refused as it should, it works elsewhere too.
const (
	Positive       Sense = "positive"
	Negative       Sense = "negative"
	ChangedContext Sense = "changed-context"
)

// Cell is one cell of the crash matrix.
type Cell struct {
	Row      string   `json:"row"`     // the point at which the process was stopped
	Handler  string   `json:"handler"` // keyed, keyless; none where no handler is involved
	Signal   string   `json:"signal"`
	Expected []Counts `json:"expected"` // all that is allowed
	Observed Counts   `json:"observed"`
}

// Counts are what the world had in the end, each counted where it is kept.
type Counts struct {
	Effects     int `json:"effects"`
	Completions int `json:"completions"`
	DeadLetters int `json:"deadLetters,omitzero"`
	Failures    int `json:"failures,omitzero"`
}

// Verdict is one preflight probe: whether something that the system relies on holds.
type Verdict struct {
	Reliance string `json:"reliance"` // what is relied on
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
	Holds    bool   `json:"holds"`
}

// About is the run's own record.
type About struct {
	Purpose    string   `json:"purpose"`    // PurposeProbes, or another's own
	Program    string   `json:"program"`    // what made the records, with its revision
	ServiceBus string   `json:"serviceBus"` // where; never a key
	CosmosDB   string   `json:"cosmosDB"`
	Machine    string   `json:"machine"`
	Sources    []Source `json:"sources"`
}

// PurposeProbes is the purpose of a run that must have every probe (V6).
const PurposeProbes = "probes"

// Source is a page of a vendor, and what it is taken for here.
type Source struct {
	Title        string `json:"title"`
	Locator      string `json:"locator"`
	Supports     string `json:"supports"`
	DoesNotProve string `json:"doesNotProve"`
	Checked      Date   `json:"checked"`
	ReviewBy     Date   `json:"reviewBy"`
}

// Date is a day, 2006-01-02.
type Date string

// Passed says whether a day is over.
func (d Date) Passed(now time.Time) bool { return now.UTC().Format(time.DateOnly) > string(d) }

// Fact is a claim that rests on a source.
func (s Source) Fact(claim string) VendorFact {
	return VendorFact{Claim: claim, Source: s.Locator, Checked: s.Checked, ReviewBy: s.ReviewBy}
}

// Missing names the fields that are empty, as people call them.
func (f Fields) Missing() []string {
	var missing []string
	for _, field := range []struct {
		name  string
		empty bool
	}{
		{"Event Key", blank(f.EventKey)},
		{"Business Entity", blank(f.BusinessEntity)},
		{"Version", f.Version < 1},
		{"Delivery Attempt", len(f.DeliveryAttempt) == 0},
		{"Receipt State", blank(f.ReceiptState)},
		{"Side Effect", blank(f.SideEffect)},
		{"Duplicate Decision", blank(f.DuplicateDecision)},
		{"Ordering Decision", blank(f.OrderingDecision)},
		{"Evidence", len(f.Evidence.LocalObservations) == 0 || blank(f.Evidence.Inference...)},
		{"Residual Risk", blank(f.ResidualRisk...)},
	} {
		if field.empty {
			missing = append(missing, field.name)
		}
	}
	return missing
}

// blank says whether there is nothing to read: no text, or one of nothing but blanks.
func blank(texts ...string) bool {
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			return true
		}
	}
	return len(texts) == 0
}

// What says what a record is about, in two steps; nothing for the run's own.
func (r Record) What() (name, which string) {
	switch {
	case r.Probe != nil:
		return r.Probe.Name, r.Probe.Case
	case r.Cell != nil:
		return r.Cell.Row, r.Cell.Handler + ", " + r.Cell.Signal
	case r.Preflight != nil:
		return "preflight", r.Preflight.Reliance
	}
	return "", ""
}
