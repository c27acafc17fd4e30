package receipt

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Class is what became of one delivery of an event.
type Class string

// The classes.
const (
	Applied   Class = "RECEIPT_COMMITTED_EFFECT_APPLIED"
	Duplicate Class = "DUPLICATE_SUPPRESSED"
	Stale     Class = "STALE_EVENT_REJECTED"
	Conflict  Class = "RECEIPT_CONFLICT"
)

// Outcome is what a receipt says.
type Outcome string

// The outcomes.
const (
	OutcomeApplied Outcome = "applied"
	OutcomeStale   Outcome = "stale"
)

// Event is something that is to take effect once.
type Event struct {
	Key     string // names it, however often and by whatever way it comes
	Entity  string // what it is about
	Version int64  // of the entity
	Digest  string // sha256:… over its canonical content
	Effect  Effect
}

// Item is what an entity is known to be.
type Item struct {
	Stock   int64          // of an item of the inventory
	State   jsontext.Value // of a resource that webhooks tell of
	Version int64
	Unknown jsontext.Value // members of later versions, kept
}

// Receipt says what became of an event. Delivery is for people: it is the
// transport's name for the delivery that wrote it, and decides nothing.
type Receipt struct {
	Key      string         `json:"key"`
	Digest   string         `json:"digest"`
	Outcome  Outcome        `json:"outcome"`
	Version  int64          `json:"version"`
	Found    int64          `json:"found"`          // the item's version before it, 0: there was none
	Gap      int64          `json:"gap,omitzero"`   // versions that were skipped between the two
	Delta    int64          `json:"delta,omitzero"` // what it adds to a stock, or would have
	W        string         `json:"w"`              // nonce of the recording that wrote it
	Delivery string         `json:"delivery,omitzero"`
	Trace    string         `json:"trace,omitzero"` // W3C traceparent of that delivery, if it is kept
	TTL      int            `json:"ttl"`            // seconds
	Schema   int            `json:"v"`
	Unknown  jsontext.Value `json:",embed"`
}

// ID is the id of the receipt of an event. A key may contain what an id must not,
// and an item is called "item"; no digest is.
func ID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "r:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Errors of events that never take effect, and nothing is written for.
var (
	ErrNoItem = errors.New("no such item, and this event does not begin one")
	ErrRange  = errors.New("the stock would be out of range")
)

// Decide says what an event does to what stands (nil: nothing). A receipt that is
// stale goes alone; one that is applied goes with the item. What is told here of an
// event holds once its receipt is written, and not before (R1).
func Decide(stands *Item, e Event) (next Item, r Receipt, err error) {
	r = Receipt{Key: e.Key, Digest: e.Digest, Outcome: OutcomeStale, Version: e.Version, Schema: 1}
	if d, ok := e.Effect.(Delta); ok {
		r.Delta = int64(d)
	}
	if stands == nil {
		if !e.Effect.begins(e.Version) {
			return Item{}, Receipt{}, ErrNoItem
		}
		stands = &Item{}
	}
	r.Found = stands.Version
	if e.Version <= stands.Version {
		return *stands, r, nil
	}
	next = *stands
	if err := e.Effect.apply(&next); err != nil {
		return Item{}, Receipt{}, err
	}
	next.Version = e.Version
	r.Outcome = OutcomeApplied
	if stands.Version > 0 {
		r.Gap = e.Version - stands.Version - 1
	}
	return next, r, nil
}

// Recognise says what a receipt that stands means for a recording of an event
// under the nonce w.
func Recognise(stands Receipt, e Event, w string) Class {
	switch {
	case stands.Digest != e.Digest || stands.Key != e.Key:
		return Conflict
	case stands.W != w:
		return Duplicate
	case stands.Outcome == OutcomeApplied:
		return Applied
	}
	return Stale
}

// check refuses a receipt that this version does not write.
func (r Receipt) check() error {
	if r.Outcome == OutcomeApplied || r.Outcome == OutcomeStale {
		return nil
	}
	return fmt.Errorf("%w: the receipt of %q says %q, a later version may have written it", message.ErrRefused, r.Key, r.Outcome)
}

// digest is over the canonical form of the content.
func digest(content any) (string, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("%w: digest: %w", message.ErrPoison, err)
	}
	canonical, err := message.Canonical(text)
	if err != nil {
		return "", fmt.Errorf("%w: digest: %w", message.ErrPoison, err)
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// nonce is 64 random bits: enough to tell apart those who write one receipt.
func nonce() string {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}
