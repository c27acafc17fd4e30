package cosmos_test

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
)

//go:embed testdata/faults.json
var faults []byte

// fault is an example of a rule: what a client does to item "82f3", and what becomes of it.
type fault struct {
	Name    string
	Rule    json.RawMessage // as it is sent to /control/rules
	Does    string          // an operation
	Release json.RawMessage // what lets go of a hold
	Leaves  bool            // the client goes away while it is held

	Sees    string // in the client's error; none if empty
	Sent    int64  // requests
	Applied bool
	Takes   control.Duration
}

// armers are the two ways to arm a rule.
var armers = map[string]func(w *world, rule []byte){
	"from Go": func(w *world, rule []byte) {
		var r control.Rule
		if err := json.Unmarshal(rule, &r); err != nil {
			w.t.Fatal(err)
		}
		must2(w.hub.Arm(r))(w.t)
	},
	"over HTTP": func(w *world, rule []byte) { w.control(http.StatusCreated, "", rule) },
}

// control posts to the control port.
func (w *world) control(want int, path string, body []byte) {
	w.t.Helper()
	answer := httptest.NewRecorder()
	w.hub.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, "/control/rules"+path, bytes.NewReader(body)))
	if answer.Code != want {
		w.t.Fatalf("%s: %d %s", body, answer.Code, answer.Body)
	}
}

// counted counts the requests that a client sends.
type counted struct {
	policy.Transporter
	sent atomic.Int64
}

func (c *counted) Do(r *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	return c.Transporter.Do(r)
}

const completed = `{"id":"82f3","status":"COMPLETED"}`

// operations are what a client may do to the item.
var operations = map[string]func(ctx context.Context, c *azcosmos.ContainerClient) error{
	"create": func(ctx context.Context, c *azcosmos.ContainerClient) error {
		_, err := c.CreateItem(ctx, pk("82f3"), []byte(completed), nil)
		return err
	},
	"upsert": func(ctx context.Context, c *azcosmos.ContainerClient) error {
		_, err := c.UpsertItem(ctx, pk("82f3"), []byte(completed), nil)
		return err
	},
	"replace": func(ctx context.Context, c *azcosmos.ContainerClient) error {
		_, err := c.ReplaceItem(ctx, pk("82f3"), "82f3", []byte(completed), nil)
		return err
	},
	"patch": func(ctx context.Context, c *azcosmos.ContainerClient) error {
		var p azcosmos.PatchOperations
		p.AppendSet("/status", "COMPLETED")
		_, err := c.PatchItem(ctx, pk("82f3"), "82f3", p, nil)
		return err
	},
	"delete": func(ctx context.Context, c *azcosmos.ContainerClient) error {
		_, err := c.DeleteItem(ctx, pk("82f3"), "82f3", nil)
		return err
	},
	"batch": func(ctx context.Context, c *azcosmos.ContainerClient) error {
		b := c.NewTransactionalBatch(pk("82f3"))
		b.UpsertItem([]byte(completed), nil)
		_, err := c.ExecuteTransactionalBatch(ctx, b, nil)
		return err
	},
	"read": func(ctx context.Context, c *azcosmos.ContainerClient) error {
		_, err := c.ReadItem(ctx, pk("82f3"), "82f3", nil)
		return err
	},
	"query": func(ctx context.Context, c *azcosmos.ContainerClient) error {
		_, err := c.NewQueryItemsPager("SELECT * FROM c", pk("82f3"), nil).NextPage(ctx)
		return err
	},
}

func TestEveryFaultDoesWhatItSays(t *testing.T) {
	var examples []fault
	if err := json.Unmarshal(faults, &examples); err != nil {
		t.Fatal(err)
	}
	for how, arm := range armers {
		for _, f := range examples {
			t.Run(f.Name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { f.try(newWorld(t), arm) })
			})
		}
	}
}

func (f fault) try(w *world, arm func(*world, []byte)) {
	t := w.t
	c := w.container("claims", "/id")
	if f.Does != "create" {
		must2(c.CreateItem(t.Context(), pk("82f3"), []byte(`{"id":"82f3","status":"IN_PROGRESS"}`), nil))(t)
	}
	sends := &counted{Transporter: w.server.Transport()}
	worker := w.on(w.connectOver(sends, "worker-1", cosmos.EmulatorKey, policy.RetryOptions{}), "claims")
	_, _ = worker.ReadItem(t.Context(), pk("none"), "none", nil) // so that it knows the account
	sends.sent.Store(0)
	arm(w, f.Rule)
	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	defer leave()
	start := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- operations[f.Does](ctx, worker) }()
	if f.Leaves || f.Release != nil {
		must2(w.hub.WaitReached(t.Context(), "f"))(t)
	}
	if f.Leaves {
		leave()
		if err := w.hub.WaitPeerGone(t.Context(), "f"); err != nil {
			t.Fatal(err)
		}
	}
	if f.Release != nil {
		w.control(http.StatusNoContent, "/f/release", f.Release)
	}
	err := <-ended
	if f.Sees == "" && err != nil || f.Sees != "" && (err == nil || !strings.Contains(err.Error(), f.Sees)) {
		t.Errorf("the client saw %v, want %q", err, f.Sees)
	}
	if took := time.Since(start); took != time.Duration(f.Takes) {
		t.Errorf("it took %v, want %v", took, f.Takes)
	}
	if got := sends.sent.Load(); got != f.Sent {
		t.Errorf("the client sent %d requests, want %d", got, f.Sent)
	}
	synctest.Wait()
	if err := w.hub.Disarm("f"); err != nil {
		t.Fatal(err)
	}
	left, err := c.ReadItem(t.Context(), pk("82f3"), "82f3", nil)
	applied := err == nil && decode(t, left.Value)["status"] == "COMPLETED"
	if f.Does == "delete" {
		applied = status(err) == http.StatusNotFound
	}
	if applied != f.Applied {
		t.Errorf("applied %v, want %v: %s (%v)", applied, f.Applied, left.Value, err)
	}
}

// What is no rule of its own: a clock that jumps, and a client that is cut off. A replica that lags has tests of its own.
func TestAClockThatJumpsMakesItemsOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.withTTL(60)
		must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
		answer := httptest.NewRecorder()
		w.hub.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/control/clock", strings.NewReader(`{"jump":"1m"}`)))
		if answer.Code != http.StatusOK {
			t.Fatalf("jump: %d %s", answer.Code, answer.Body)
		}
		_, err := c.ReadItem(t.Context(), pk("1"), "1", nil)
		wantStatus(t, err, http.StatusNotFound)
	})
}
