package receipt

import (
	"fmt"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

// Effect is what an event does to an item: one of Delta, Level and State.
type Effect interface {
	apply(item *Item) error
	// begins says whether an event of this version may be the first of its entity.
	begins(version int64) bool
}

// Delta adds to the stock. What came before it counts, so only the very first
// event may find nothing.
type Delta int64

func (d Delta) apply(item *Item) error {
	sum := item.Stock + int64(d) // both are far from the ends of int64
	if sum < -message.MaxStock || sum > message.MaxStock {
		return fmt.Errorf("%w: %d and %d", ErrRange, item.Stock, d)
	}
	item.Stock = sum
	return nil
}

func (Delta) begins(version int64) bool { return version == 1 }

// Level is the stock, whatever it was before.
type Level int64

func (l Level) apply(item *Item) error {
	item.Stock = int64(l)
	return nil
}

func (Level) begins(int64) bool { return true }

// State is the state of a resource, whatever it was before.
type State jsontext.Value

func (s State) apply(item *Item) error {
	item.State = jsontext.Value(s)
	return nil
}

func (State) begins(int64) bool { return true }

// FromStock is the event of a message about stock.
func FromStock(m message.StockEvent) (Event, error) {
	e := Event{Key: m.Key(), Entity: m.SKU()}
	var err error
	if r := m.Reservation; r != nil {
		e.Version, e.Effect = r.Version, Delta(-r.Quantity)
		e.Digest, err = digest(r)
	} else {
		e.Version, e.Effect = m.Count.Version, Level(m.Count.Stock)
		e.Digest, err = digest(m.Count)
	}
	return e, err
}

// FromWebhook is the event of a change that a source told. Neither a source nor a
// resource contains a colon, so that no two requests share a key, and no two
// sources an entity.
func FromWebhook(source string, c message.Change) (Event, error) {
	entity := source + ":" + c.Resource
	sum, err := digest(c)
	return Event{
		Key: "webhook:" + entity + ":" + c.RequestID, Entity: entity,
		Version: c.Version, Digest: sum, Effect: State(c.State),
	}, err
}
