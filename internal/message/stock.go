package message

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// What stock events travel by. A subscription has its consumer's name.
const (
	Reservations = "reservations" // topic without duplicate detection: Reservation, StockCount
	Inventory    = "inventory"    // subscription of Reservations
)

// The types of stock events.
const (
	TypeReservation = "ReservationAccepted"
	TypeStockCount  = "StockCounted"
)

// Limits of a stock event. The version is that of JSON's own integers, less one:
// there is always a number after it.
const (
	MaxSKU      = 128
	MaxEventKey = 256
	MaxVersion  = 1<<53 - 1
	MaxQuantity = 1_000_000_000
	MaxStock    = 1_000_000_000_000
)

// keyBegins is how the key of every stock event begins; its sku comes next.
const keyBegins = "inventory:"

// Reservation says that a quantity of stock was promised to somebody. It is a
// difference: whoever misses one has a wrong stock from there on.
type Reservation struct {
	EventKey      string         `json:"eventKey"` // inventory:<sku>:… names the event, however often it is sent
	SKU           string         `json:"sku"`
	ReservationID string         `json:"reservationId"`
	Version       int64          `json:"version"` // of the sku, by its producer: 1 is the first
	Quantity      int64          `json:"quantity"`
	Unknown       jsontext.Value `json:",embed"`
}

// StockCount says how much stock there was at a version, whatever was known
// before: it opens the books of a sku, and it corrects them.
type StockCount struct {
	EventKey string         `json:"eventKey"`
	SKU      string         `json:"sku"`
	Version  int64          `json:"version"`
	Stock    int64          `json:"stock"`
	Unknown  jsontext.Value `json:",embed"`
}

// Message is the reservation as it travels. The id is the transport's, and may
// be another one every time.
func (r Reservation) Message(id string, at time.Time) (Message, error) {
	return sealStock(id, TypeReservation, r.SKU, at, r)
}

// Message is the count as it travels.
func (c StockCount) Message(id string, at time.Time) (Message, error) {
	return sealStock(id, TypeStockCount, c.SKU, at, c)
}

// sealStock gives an event its sku as its session: a broker that keeps order keeps
// it within a sku.
func sealStock[T any](id, eventType, sku string, at time.Time, event T) (Message, error) {
	m, err := seal(id, "/oneeffect/reservations", eventType, sku, at, event)
	m.Session = sku
	return m, err
}

// StockEvent is what the topic of reservations carries: exactly one of the two is set.
type StockEvent struct {
	Reservation *Reservation
	Count       *StockCount
}

// Key is the event's key.
func (e StockEvent) Key() string {
	if e.Reservation != nil {
		return e.Reservation.EventKey
	}
	return e.Count.EventKey
}

// SKU is whose stock it is about.
func (e StockEvent) SKU() string {
	if e.Reservation != nil {
		return e.Reservation.SKU
	}
	return e.Count.SKU
}

// ParseStockEvent reads a stock event, or says with ErrPoison why nobody ever will.
func ParseStockEvent(body []byte) (StockEvent, error) {
	eventType, data, err := open(body)
	if err != nil {
		return StockEvent{}, err
	}
	switch eventType {
	case TypeReservation:
		var r Reservation
		if err := openData(eventType, data, &r); err != nil {
			return StockEvent{}, err
		}
		if err := r.check(); err != nil {
			return StockEvent{}, fmt.Errorf("%w: %w", ErrPoison, err)
		}
		return StockEvent{Reservation: &r}, nil
	case TypeStockCount:
		// Zero is a count like any other: one that is missing must not look like it.
		var given struct {
			Stock *int64 `json:"stock"`
		}
		var c StockCount
		if err := errors.Join(openData(eventType, data, &c), openData(eventType, data, &given)); err != nil {
			return StockEvent{}, err
		}
		if err := c.check(given.Stock != nil); err != nil {
			return StockEvent{}, fmt.Errorf("%w: %w", ErrPoison, err)
		}
		return StockEvent{Count: &c}, nil
	}
	return StockEvent{}, fmt.Errorf("%w: type is %q, the topic carries %s and %s", ErrPoison, eventType, TypeReservation, TypeStockCount)
}

func (r Reservation) check() error {
	errs := []error{checkStock(r.EventKey, r.SKU, r.Version)}
	if r.ReservationID == "" {
		errs = append(errs, errors.New("reservationId is missing"))
	} else {
		errs = append(errs, checkText("reservationId", r.ReservationID, MaxSKU))
	}
	if r.Quantity < 1 || r.Quantity > MaxQuantity {
		errs = append(errs, fmt.Errorf("quantity is %d: a reservation takes 1 to %d", r.Quantity, MaxQuantity))
	}
	return errors.Join(errs...)
}

func (c StockCount) check(counted bool) error {
	errs := []error{checkStock(c.EventKey, c.SKU, c.Version)}
	switch {
	case !counted:
		errs = append(errs, errors.New("stock is missing"))
	case c.Stock < 0 || c.Stock > MaxStock:
		errs = append(errs, fmt.Errorf("stock is %d: what is counted is 0 to %d", c.Stock, MaxStock))
	}
	return errors.Join(errs...)
}

// checkStock holds what all stock events have in common.
func checkStock(key, sku string, version int64) error {
	errs := []error{checkEntity("sku", sku)}
	if begins := keyBegins + sku + ":"; !strings.HasPrefix(key, begins) || len(key) == len(begins) {
		errs = append(errs, fmt.Errorf("eventKey is %q: the key of an event about this sku is %s and a name of the event's own", key, begins))
	} else {
		errs = append(errs, checkText("eventKey", key, MaxEventKey))
	}
	errs = append(errs, checkVersion(version))
	return errors.Join(errs...)
}

// checkVersion says what is wrong with the version of an entity.
func checkVersion(version int64) error {
	if version < 1 || version > MaxVersion {
		return fmt.Errorf("version is %d, or missing: versions count from 1 to %d", version, MaxVersion)
	}
	return nil
}

// checkEntity says what is wrong with the name of something that events are
// about. It may be written in any script and contain blanks and slashes, but no
// colon, which ends it in the keys of its events.
func checkEntity(what, name string) error {
	if name == "" {
		return fmt.Errorf("%s is missing", what)
	}
	if strings.Contains(name, ":") {
		return fmt.Errorf("%s contains a colon, which ends it in the key of an event", what)
	}
	return checkText(what, name, MaxSKU)
}

// maxPlane is the last character that a partition key may have: the store's
// client writes those beyond it as no JSON parser reads them.
const maxPlane = 0xFFFF

// checkText bounds a name that is kept and shown. It counts bytes, since the
// store does.
func checkText(what, text string, longest int) error {
	if len(text) > longest {
		return fmt.Errorf("%s has %d bytes, %d are allowed", what, len(text), longest)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) || r == utf8.RuneError || r > maxPlane {
			return fmt.Errorf("%s contains %+q: printable characters up to U+FFFF are allowed", what, r)
		}
	}
	return nil
}

// checkRequestID says what is wrong with the name that a sender of webhooks
// gives to one request and to all its repetitions.
func checkRequestID(id string) error {
	if id == "" {
		return errors.New("requestId is missing")
	}
	return checkText("requestId", id, MaxSKU)
}
