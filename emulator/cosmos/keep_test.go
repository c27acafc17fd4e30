package cosmos_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
	"oneeffect/emulator/late"
)

var kept = flag.Bool("kept", false, "run the tests on an account that is kept in a folder")

// paper is a keeper that keeps what it is told when the test says so, and remembers in which pieces it was told.
type paper struct {
	late.Answers
	mu      sync.Mutex
	records map[string]string
	open    []func(records map[string]string)   // since the last Begin
	pieces  [][]func(records map[string]string) // what was done between each Begin and End, without those that changed nothing
	failed  chan struct{}
	ruined  error
}

func newPaper() *paper {
	return &paper{records: map[string]string{}, failed: make(chan struct{})}
}

// after is a paper on which the first pieces only have been written.
func (p *paper) after(pieces int) *paper {
	cut := newPaper()
	for _, piece := range p.pieces[:pieces] {
		for _, change := range piece {
			change(cut.records)
		}
	}
	return cut
}

func (p *paper) Load(visit func(bucket string, key, value []byte) error) error {
	for _, name := range slices.Sorted(maps.Keys(p.records)) {
		bucket, key, _ := strings.Cut(name, "/")
		value := []byte(p.records[name])
		if err := visit(bucket, []byte(key), value); err != nil {
			return err
		}
		clear(value) // it is not valid any more
	}
	return nil
}

func (p *paper) Begin() {}

func (p *paper) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) > 0 {
		p.pieces = append(p.pieces, p.open)
		p.open = nil
	}
}

func (p *paper) change(do func(records map[string]string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do(p.records)
	p.open = append(p.open, do)
}

func (p *paper) Put(bucket string, key, value []byte) {
	name, text := bucket+"/"+string(key), string(value)
	p.change(func(records map[string]string) { records[name] = text })
}

func (p *paper) Delete(bucket string, key []byte) {
	name := bucket + "/" + string(key)
	p.change(func(records map[string]string) { delete(records, name) })
}

func (p *paper) Drop(bucket string) {
	p.change(func(records map[string]string) {
		maps.DeleteFunc(records, func(name, _ string) bool { return strings.HasPrefix(name, bucket+"/") })
	})
}

func (p *paper) Failed() <-chan struct{} { return p.failed }
func (p *paper) Err() error              { return p.ruined }
func (p *paper) Close() error            { return nil }

// reopened is the account that a paper holds, with its clients: another process, as it were.
func reopened(t *testing.T, p *paper) *world {
	t.Helper()
	w := &world{t: t, hub: control.New()}
	w.server = must2(cosmos.OpenOn(w.hub, cosmos.Options{}, p))(t)
	t.Cleanup(func() {
		w.hub.Close()
		_ = w.server.Close()
	})
	w.client = w.connect("setup", cosmos.EmulatorKey)
	return w
}

// onPaper is an account on paper, with a database and a container of each kind that matters.
func onPaper(t *testing.T) (*world, *paper) {
	t.Helper()
	p := newPaper()
	w := reopened(t, p)
	must2(w.client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "oneeffect"}, nil))(t)
	w.container("claims", "/id")
	w.container("parts", "/tenant", "/region")
	return w, p
}

func TestNothingIsToldBeforeItIsKept(t *testing.T) { // V9
	synctest.Test(t, func(t *testing.T) {
		w, p := onPaper(t)
		c, ctx := w.on(w.client, "claims"), t.Context()
		database := must2(w.client.NewDatabase("oneeffect"))(t)
		for _, id := range []string{"a", "b", "c"} {
			must2(c.CreateItem(ctx, pk(id), []byte(`{"id":"`+id+`"}`), nil))(t)
		}
		batch := c.NewTransactionalBatch(pk("x"))
		batch.CreateItem([]byte(`{"id":"x"}`), nil)
		patch := azcosmos.PatchOperations{}
		patch.AppendSet("/n", 1)
		for what, do := range map[string]func() error{
			"create":  func() error { _, err := c.CreateItem(ctx, pk("d"), []byte(`{"id":"d"}`), nil); return err },
			"upsert":  func() error { _, err := c.UpsertItem(ctx, pk("e"), []byte(`{"id":"e"}`), nil); return err },
			"replace": func() error { _, err := c.ReplaceItem(ctx, pk("a"), "a", []byte(`{"id":"a"}`), nil); return err },
			"patch":   func() error { _, err := c.PatchItem(ctx, pk("b"), "b", patch, nil); return err },
			"delete":  func() error { _, err := c.DeleteItem(ctx, pk("c"), "c", nil); return err },
			"batch":   func() error { _, err := c.ExecuteTransactionalBatch(ctx, batch, nil); return err },
			"read":    func() error { _, err := c.ReadItem(ctx, pk("a"), "a", nil); return err },
			"query":   func() error { _, _, err := query(t, c, "SELECT * FROM c", pk("a"), nil); return err },
			"refusal": func() error {
				if _, err := c.ReadItem(ctx, pk("nobody"), "nobody", nil); status(err) != http.StatusNotFound {
					return fmt.Errorf("read nobody: %w", err)
				}
				return nil
			},
			"change feed": func() error {
				answer, err := w.ask(w.server.Transport(), request{method: "GET", path: docs, headers: map[string]string{"A-IM": "Incremental Feed"}})
				if err != nil || answer.status != http.StatusOK {
					return fmt.Errorf("%d %s (%w)", answer.status, answer.body, err)
				}
				return nil
			},
			"container": func() error {
				_, err := database.CreateContainer(ctx, azcosmos.ContainerProperties{
					ID: "more", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}},
				}, nil)
				return err
			},
			"database": func() error {
				_, err := w.client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "more"}, nil)
				return err
			},
		} {
			p.Stop()
			var failure error
			isTold := late.Told(func() { failure = do() })
			if isTold() {
				t.Errorf("%s: told before it was kept", what)
			}
			p.Start()
			if !isTold() || failure != nil {
				t.Errorf("%s: not told when it was kept, or an error: %v", what, failure)
			}
		}
	})
}

func TestWhatIsNeverKeptIsNeverTold(t *testing.T) { // V9
	synctest.Test(t, func(t *testing.T) {
		w, p := onPaper(t)
		p.Stop()
		var failure error
		isTold := late.Told(func() {
			_, failure = w.on(w.client, "claims").CreateItem(t.Context(), pk("a"), []byte(`{"id":"a"}`), nil)
		})
		if isTold() {
			t.Fatal("told before it was kept")
		}
		p.ruined = errors.New("the disk is full")
		close(p.failed)
		if !isTold() || !errors.Is(failure, io.ErrUnexpectedEOF) || status(failure) != 0 {
			t.Errorf("the client was told %v", failure)
		}
		if err := w.server.Err(); err == nil || err.Error() != "the disk is full" {
			t.Errorf("the server says %v", err)
		}
		select {
		case <-w.server.Failed():
		default:
			t.Error("the server does not say that it has failed")
		}
	})
}

func TestAnAppliedRequestIsKeptAlthoughItsAnswerIsDropped(t *testing.T) { // V3, V9
	w, p := onPaper(t)
	for when, want := range map[string]int{"before": http.StatusNotFound, "after": 0} {
		must2(w.hub.Arm(control.Rule{Name: when, Match: control.Match{Operation: "create", Key: when}, When: when, Do: "drop"}))(t)
		_, err := w.on(w.client, "claims").CreateItem(t.Context(), pk(when), []byte(`{"id":"`+when+`"}`), nil)
		if err == nil || status(err) != 0 {
			t.Errorf("dropped %s it was applied: %v", when, err)
		}
		_, err = w.on(reopened(t, p.after(len(p.pieces))).client, "claims").ReadItem(t.Context(), pk(when), when, nil)
		if status(err) != want {
			t.Errorf("dropped %s it was applied, and after a restart: %v", when, err)
		}
	}
}

func TestAnItemThatHasExpiredDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := onPaper(t)
		second := int32(1)
		c := w.containerWith(azcosmos.ContainerProperties{
			ID: "short", DefaultTimeToLive: &second, PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}},
		})
		for _, id := range []string{"seen", "unseen"} {
			must2(c.CreateItem(t.Context(), pk(id), []byte(`{"id":"`+id+`"}`), nil))(t)
		}
		w.hub.Jump(time.Hour) // which a restart takes back
		_, err := c.ReadItem(t.Context(), pk("seen"), "seen", nil)
		wantStatus(t, err, http.StatusNotFound)
		w = reopened(t, p.after(len(p.pieces)))
		c = w.on(w.client, "short")
		_, err = c.ReadItem(t.Context(), pk("seen"), "seen", nil)
		wantStatus(t, err, http.StatusNotFound)
		must2(c.ReadItem(t.Context(), pk("unseen"), "unseen", nil))(t)
		time.Sleep(2 * time.Second)
		_, err = c.ReadItem(t.Context(), pk("unseen"), "unseen", nil)
		wantStatus(t, err, http.StatusNotFound)
	})
}

func TestWhatIsDroppedLeavesNothingBehind(t *testing.T) {
	for what, drop := range map[string]func(w *world, c *azcosmos.ContainerClient) error{
		"container": func(w *world, c *azcosmos.ContainerClient) error {
			_, err := c.Delete(w.t.Context(), nil)
			return err
		},
		"database": func(w *world, _ *azcosmos.ContainerClient) error {
			_, err := must2(w.client.NewDatabase("oneeffect"))(w.t).Delete(w.t.Context(), nil)
			return err
		},
	} {
		w, p := onPaper(t)
		before := maps.Clone(p.records)
		c := w.container("many", "/id")
		must2(c.CreateItem(t.Context(), pk("a"), []byte(`{"id":"a"}`), nil))(t)
		if err := drop(w, c); err != nil {
			t.Fatal(err)
		}
		if what == "database" {
			before = map[string]string{"account/a": ""}
		}
		for key := range p.records {
			if _, ok := before[key]; !ok {
				t.Errorf("%s: record %q is left", what, key)
			}
		}
		if len(p.records) != len(before) {
			t.Errorf("%s: %d records are there, want %d", what, len(p.records), len(before))
		}
		reopened(t, p)
	}
}
