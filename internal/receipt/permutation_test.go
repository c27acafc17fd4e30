package receipt_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"

	"oneeffect/internal/message"
	"oneeffect/internal/receipt"
)

// telling is one delivery of what somebody told. Two that are equal are the same
// event, delivered twice.
type telling struct {
	id       string // of the reservation, in its key
	version  int64
	quantity int64
}

func (d telling) String() string { return fmt.Sprintf("%s@%d-%d", d.id, d.version, d.quantity) }

func (d telling) event(t *testing.T, sku string) receipt.Event {
	return event(t, message.StockEvent{Reservation: &message.Reservation{
		EventKey: "inventory:" + sku + ":reservation:" + d.id, SKU: sku, ReservationID: d.id, Version: d.version, Quantity: d.quantity,
	}})
}

// model is what the lesson says of one projection, in its own words and without a
// line of this program: a stable key is looked up first (its third and fourth
// sections), receipt and effect are one step (the fifth), and then only a greater
// version may change the state (the sixth).
type model struct {
	stock, version int64
	seen           map[string]telling // accepted logical events by key
	effects        map[string]int64   // those that changed the stock
}

func (m *model) deliver(d telling) string {
	if before, known := m.seen[d.id]; known {
		if before == d {
			return "DUPLICATE_SUPPRESSED"
		}
		return "RECEIPT_CONFLICT"
	}
	m.seen[d.id] = d
	if d.version > m.version {
		m.stock, m.version = m.stock-d.quantity, d.version
		m.effects[d.id] = -d.quantity
		return "RECEIPT_COMMITTED_EFFECT_APPLIED"
	}
	return "STALE_EVENT_REJECTED"
}

// sets are what is delivered, in all orders: events, their repetitions, new ids
// for old versions, versions that were passed, other content under a known key.
var sets = [][]telling{
	{{"R-1", 10, 3}, {"R-1", 10, 3}, {"R-2", 11, 5}, {"R-3", 12, 2}, {"R-4", 9, 7}, {"R-5", 11, 1}, {"R-5", 11, 1}},
	{{"R-1", 10, 3}, {"R-1", 10, 3}, {"R-1", 10, 4}, {"R-2", 10, 3}, {"R-3", 10, 4}, {"R-4", 11, 1}, {"R-4", 12, 1}},
	{{"R-1", 10, 3}, {"R-1", 11, 3}, {"R-2", 11, 5}, {"R-2", 11, 5}, {"R-3", 13, 1}, {"R-4", 8, 1}, {"R-4", 8, 1}},
	{{"R-1", 8, 1}, {"R-2", 9, 1}, {"R-3", 10, 1}, {"R-4", 10, 2}, {"R-5", 15, 1}, {"R-5", 15, 1}, {"R-5", 16, 1}},
}

// small are the same for the store itself, which takes longer.
var small = [][]telling{
	{{"R-1", 10, 3}, {"R-1", 10, 3}, {"R-2", 11, 5}, {"R-3", 12, 2}, {"R-4", 9, 7}},
	{{"R-1", 10, 3}, {"R-1", 10, 4}, {"R-2", 10, 3}, {"R-2", 10, 3}, {"R-3", 11, 1}},
	{{"R-1", 8, 1}, {"R-2", 13, 1}, {"R-2", 13, 1}, {"R-2", 14, 1}, {"R-3", 13, 2}},
}

// losing is a store that loses the answer of one write: before it was applied, or
// after.
type losing struct {
	receipt.Store
	nth     int // of the writes, from 1; 0: none
	applied bool
	writes  int
}

func (l *losing) lost() bool {
	l.writes++
	return l.writes == l.nth
}

func (l *losing) Apply(ctx context.Context, entity string, r receipt.Receipt, next receipt.Item, unchanged receipt.ETag) (receipt.ETag, error) {
	if !l.lost() {
		return l.Store.Apply(ctx, entity, r, next, unchanged)
	}
	if l.applied {
		_, _ = l.Store.Apply(ctx, entity, r, next, unchanged)
	}
	return "", message.ErrUnknown
}

func (l *losing) Reject(ctx context.Context, entity string, r receipt.Receipt) error {
	if !l.lost() {
		return l.Store.Reject(ctx, entity, r)
	}
	if l.applied {
		_ = l.Store.Reject(ctx, entity, r)
	}
	return message.ErrUnknown
}

// Every order of every set: what is said of each delivery, and what stands in the
// end, is what the model says.
func TestEveryOrderOfEventsRepetitionsAndVersionsEndsAsTheModelSays(t *testing.T) { // R1 R2 R3 R4 R5
	synctest.Test(t, func(t *testing.T) {
		store := &memory{items: map[string]receipt.Stored{}, receipts: map[string]receipt.Receipt{}}
		playAll(t, sets, 7560, store, store.look)
	})
}

// The same with the store itself, for what a store in memory may be wrong about.
func TestEveryOrderEndsTheSameInTheStore(t *testing.T) { // R1 R2 R3 R4 R5
	inWorld(t, func(t *testing.T, w *world) { playAll(t, small, 180, w.open("projector").Inventory(), w.look) })
}

type looking func(sku string) (item *document, receipts map[string]document)

// playAll plays all cases, so many. In each, one write at most loses its answer.
func playAll(t *testing.T, sets [][]telling, all int, store receipt.Store, look looking) {
	t.Helper()
	cases, deliveries, seen := 0, 0, map[string]int{}
	for _, set := range sets {
		for order := range orders(set) {
			answers := &losing{Store: store, nth: cases % (len(set) + 1), applied: cases%2 == 0}
			for _, class := range play(t, answers, look, fmt.Sprint("sku-", cases), order) {
				seen[class]++
			}
			deliveries += len(order)
			cases++
		}
	}
	t.Logf("%d cases, %d deliveries: %v", cases, deliveries, seen)
	if cases != all || len(seen) != 4 {
		t.Errorf("%d cases with %d classes were played, want %d with 4", cases, len(seen), all)
	}
}

// play delivers one order about a sku of its own, each delivery by a process that
// knows nothing of the one before, and holds it to the model.
func play(t *testing.T, store receipt.Store, look looking, sku string, order []telling) (classes []string) {
	t.Helper()
	m := &model{stock: 100, version: 8, seen: map[string]telling{}, effects: map[string]int64{}}
	begin := event(t, message.StockEvent{Count: &message.StockCount{EventKey: "inventory:" + sku + ":count:8", SKU: sku, Version: 8, Stock: 100}})
	book := func() *receipt.Book { return &receipt.Book{Store: store, Timeout: timeout, Keep: keep} }
	if d, err := book().Record(t.Context(), begin, receipt.Delivery{}); err != nil || d.Class != receipt.Applied {
		t.Fatalf("the beginning: %s, %v", d.Class, err)
	}
	for i, d := range order {
		want := m.deliver(d)
		got, err := book().Record(t.Context(), d.event(t, sku), receipt.Delivery{ID: fmt.Sprint("delivery-", i), Again: i%3 == 2})
		if err != nil || string(got.Class) != want {
			t.Fatalf("%v: delivery %d is %s, %v; the model says %s", order, i, got.Class, err, want)
		}
		classes = append(classes, want)
	}
	item, receipts := look(sku)
	if item == nil || *item.Stock != m.stock || item.Version != m.version {
		t.Fatalf("%v: %+v stands, the model has stock %d at version %d", order, item, m.stock, m.version)
	}
	delete(receipts, begin.Key)
	effects := map[string]int64{}
	for key, r := range receipts {
		if r.Outcome == "applied" {
			effects[key] = r.Delta
		}
	}
	for id, delta := range m.effects {
		if key := "inventory:" + sku + ":reservation:" + id; effects[key] != delta {
			t.Fatalf("%v: the receipt of %s says %d, the model %d", order, id, effects[key], delta)
		}
	}
	if len(effects) != len(m.effects) || len(receipts) != len(m.seen) {
		t.Fatalf("%v: %d receipts with %d effects, the model has %d with %d", order, len(receipts), len(effects), len(m.seen), len(m.effects))
	}
	return classes
}

// memory is a store that has only what the contract says.
type memory struct {
	items    map[string]receipt.Stored // by entity
	receipts map[string]receipt.Receipt
	version  int
}

func (m *memory) Item(_ context.Context, entity string) (receipt.Stored, error) {
	s, ok := m.items[entity]
	if !ok {
		return s, message.ErrNotFound
	}
	return s, nil
}

func (m *memory) Receipt(_ context.Context, _, key string) (receipt.Receipt, error) {
	r, ok := m.receipts[key]
	if !ok {
		return r, message.ErrNotFound
	}
	return r, nil
}

func (m *memory) Begin(ctx context.Context, entity string, r receipt.Receipt, first receipt.Item) (receipt.ETag, error) {
	if _, ok := m.items[entity]; ok {
		return "", message.ErrConflict
	}
	return m.write(ctx, entity, r, first)
}

func (m *memory) Apply(ctx context.Context, entity string, r receipt.Receipt, next receipt.Item, unchanged receipt.ETag) (receipt.ETag, error) {
	if m.items[entity].ETag != unchanged {
		return "", message.ErrConflict
	}
	return m.write(ctx, entity, r, next)
}

func (m *memory) write(ctx context.Context, entity string, r receipt.Receipt, i receipt.Item) (receipt.ETag, error) {
	if err := m.Reject(ctx, entity, r); err != nil {
		return "", err
	}
	m.version++
	etag := receipt.ETag(fmt.Sprint(m.version))
	m.items[entity] = receipt.Stored{Item: i, ETag: etag}
	return etag, nil
}

func (m *memory) Reject(_ context.Context, _ string, r receipt.Receipt) error {
	if _, ok := m.receipts[r.Key]; ok {
		return message.ErrExists
	}
	m.receipts[r.Key] = r
	return nil
}

// look hands out what was recorded about a sku, and forgets it.
func (m *memory) look(sku string) (*document, map[string]document) {
	found := map[string]document{}
	for key, r := range m.receipts {
		found[key] = document{Outcome: string(r.Outcome), Key: key, Delta: r.Delta}
	}
	clear(m.receipts)
	i := m.items[sku].Item
	return &document{Stock: &i.Stock, Version: i.Version}, found
}

// orders yields every order of a set; of those that differ only in which of two
// equal ones comes first, one.
func orders(set []telling) iter.Seq[[]telling] {
	return func(yield func([]telling) bool) {
		var extend func(done, rest []telling) bool
		extend = func(done, rest []telling) bool {
			if len(rest) == 0 {
				return yield(done)
			}
			var tried []telling
			for i, d := range rest {
				if slices.Contains(tried, d) {
					continue
				}
				tried = append(tried, d)
				if !extend(append(slices.Clone(done), d), slices.Delete(slices.Clone(rest), i, i+1)) {
					return false
				}
			}
			return true
		}
		extend(nil, set)
	}
}
