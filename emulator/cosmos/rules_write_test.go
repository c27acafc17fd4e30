package cosmos_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
)

// write is one write of one item, alone or as an operation of a batch.
type write func(ctx context.Context, c *azcosmos.ContainerClient, etag *azcore.ETag) (azcore.ETag, error)

// writes are all kinds of them that may have a condition, to item "1" of partition "p".
func writes() map[string]write {
	body := []byte(`{"id":"1","pk":"p","by":"the write"}`)
	var patch azcosmos.PatchOperations
	patch.AppendSet("/by", "the write")
	all := map[string]write{
		"replace": func(ctx context.Context, c *azcosmos.ContainerClient, etag *azcore.ETag) (azcore.ETag, error) {
			r, err := c.ReplaceItem(ctx, pk("p"), "1", body, &azcosmos.ItemOptions{IfMatchEtag: etag})
			return r.ETag, err
		},
		"upsert": func(ctx context.Context, c *azcosmos.ContainerClient, etag *azcore.ETag) (azcore.ETag, error) {
			r, err := c.UpsertItem(ctx, pk("p"), body, &azcosmos.ItemOptions{IfMatchEtag: etag})
			return r.ETag, err
		},
		"patch": func(ctx context.Context, c *azcosmos.ContainerClient, etag *azcore.ETag) (azcore.ETag, error) {
			r, err := c.PatchItem(ctx, pk("p"), "1", patch, &azcosmos.ItemOptions{IfMatchEtag: etag})
			return r.ETag, err
		},
		"delete": func(ctx context.Context, c *azcosmos.ContainerClient, etag *azcore.ETag) (azcore.ETag, error) {
			r, err := c.DeleteItem(ctx, pk("p"), "1", &azcosmos.ItemOptions{IfMatchEtag: etag})
			return r.ETag, err
		},
	}
	for name, add := range map[string]func(*azcosmos.TransactionalBatch, *azcosmos.TransactionalBatchItemOptions){
		"replace": func(b *azcosmos.TransactionalBatch, o *azcosmos.TransactionalBatchItemOptions) {
			b.ReplaceItem("1", body, o)
		},
		"upsert": func(b *azcosmos.TransactionalBatch, o *azcosmos.TransactionalBatchItemOptions) { b.UpsertItem(body, o) },
		"patch": func(b *azcosmos.TransactionalBatch, o *azcosmos.TransactionalBatchItemOptions) {
			b.PatchItem("1", patch, o)
		},
		"delete": func(b *azcosmos.TransactionalBatch, o *azcosmos.TransactionalBatchItemOptions) { b.DeleteItem("1", o) },
	} {
		all[name+" in a batch"] = func(ctx context.Context, c *azcosmos.ContainerClient, etag *azcore.ETag) (azcore.ETag, error) {
			b := c.NewTransactionalBatch(pk("p"))
			add(&b, &azcosmos.TransactionalBatchItemOptions{IfMatchETag: etag})
			response, err := c.ExecuteTransactionalBatch(ctx, b, nil)
			if err != nil {
				return "", err
			}
			if !response.Success {
				return "", &azcore.ResponseError{StatusCode: int(response.OperationResults[0].StatusCode)}
			}
			return response.OperationResults[0].ETag, nil
		}
	}
	return all
}

func TestEveryWriteLooksAtItsIfMatch(t *testing.T) { // V1
	for name, do := range writes() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := w.container("claims", "/pk")
				first := must2(c.CreateItem(t.Context(), pk("p"), []byte(`{"id":"1","pk":"p"}`), nil))(t).ETag
				second := must2(c.UpsertItem(t.Context(), pk("p"), []byte(`{"id":"1","pk":"p","n":2}`), nil))(t).ETag
				for _, stale := range []azcore.ETag{first, `"nonsense"`, second[1 : len(second)-1]} {
					_, err := do(t.Context(), c, &stale)
					if status(err) != http.StatusPreconditionFailed {
						t.Fatalf("under %s: %v, want 412", stale, err)
					}
				}
				if left := must2(c.ReadItem(t.Context(), pk("p"), "1", nil))(t); left.ETag != second || decode(t, left.Value)["n"] != 2.0 {
					t.Errorf("the refused writes left %s", left.Value)
				}
				after, err := do(t.Context(), c, &second)
				if err != nil {
					t.Fatalf("under the right one: %v", err)
				}
				read, err := c.ReadItem(t.Context(), pk("p"), "1", nil)
				if strings.HasPrefix(name, "delete") {
					wantStatus(t, err, http.StatusNotFound)
					return
				}
				if err != nil || read.ETag != after || after == second || decode(t, read.Value)["by"] != "the write" {
					t.Errorf("afterwards %s with %s, the write said %s (%v)", read.Value, read.ETag, after, err)
				}
				if _, err := do(t.Context(), c, new(azcore.ETagAny)); err != nil {
					t.Errorf("under *: %v", err)
				}
			})
		})
	}
}

func TestEveryWriteMakesANewETag(t *testing.T) {
	for name, do := range writes() {
		if strings.HasPrefix(name, "delete") {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			c := w.container("claims", "/pk")
			seen := map[azcore.ETag]bool{must2(c.CreateItem(t.Context(), pk("p"), []byte(`{"id":"1","pk":"p"}`), nil))(t).ETag: true}
			for range 3 { // the same bytes each time
				etag := must2(do(t.Context(), c, nil))(t)
				if seen[etag] || etag == "" {
					t.Errorf("%s: %s again", name, etag)
				}
				seen[etag] = true
			}
			must2(c.DeleteItem(t.Context(), pk("p"), "1", nil))(t)
			if again := must2(c.CreateItem(t.Context(), pk("p"), []byte(`{"id":"1","pk":"p"}`), nil))(t); seen[again.ETag] {
				t.Errorf("made anew, it has %s again", again.ETag)
			}
		})
	}
}

// raced runs a hundred writers at once, some rounds of them.
func raced(t *testing.T, loses int, prepare func(round int) func(i int) error) {
	t.Helper()
	const racers = 100
	for r := range 4 {
		ended := round(racers, prepare(r))
		if ended[0] != 1 || ended[loses] != racers-1 {
			t.Fatalf("round %d ended %v, want one winner and %d times %d", r, ended, racers-1, loses)
		}
	}
}

func TestOfAHundredCreatesOneWins(t *testing.T) { // V1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		raced(t, http.StatusConflict, func(round int) func(int) error {
			id := fmt.Sprint("task-", round)
			return func(i int) error {
				_, err := c.CreateItem(t.Context(), pk(id), fmt.Appendf(nil, `{"id":%q,"by":%d}`, id, i), nil)
				return err
			}
		})
	})
}

func TestOfAHundredReplacesUnderOneETagOneWins(t *testing.T) { // V1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
		raced(t, http.StatusPreconditionFailed, func(int) func(int) error {
			etag := must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t).ETag
			return func(i int) error {
				_, err := c.ReplaceItem(t.Context(), pk("1"), "1", fmt.Appendf(nil, `{"id":"1","by":%d}`, i), ifMatch(etag))
				return err
			}
		})
	})
}

func TestOfAHundredPatchesUnderOneConditionOneWins(t *testing.T) { // V1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1","n":0}`), nil))(t)
		raced(t, http.StatusPreconditionFailed, func(round int) func(int) error {
			return func(int) error {
				var p azcosmos.PatchOperations
				p.SetCondition(fmt.Sprintf("from c where c.n = %d", round))
				p.AppendIncrement("/n", 1)
				_, err := c.PatchItem(t.Context(), pk("1"), "1", p, nil)
				return err
			}
		})
	})
}

func TestAnItemIsOfTheKeyThatItsRequestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/pk")
		must2(c.CreateItem(t.Context(), pk("p"), []byte(`{"id":"1","pk":"p"}`), nil))(t)
		for name, do := range map[string]func() error{
			"create": func() error {
				_, err := c.CreateItem(t.Context(), pk("p"), []byte(`{"id":"2","pk":"q"}`), nil)
				return err
			},
			"create without a key of its own": func() error {
				_, err := c.CreateItem(t.Context(), pk("p"), []byte(`{"id":"2"}`), nil)
				return err
			},
			"upsert": func() error {
				_, err := c.UpsertItem(t.Context(), pk("p"), []byte(`{"id":"1","pk":"q"}`), nil)
				return err
			},
			"replace": func() error {
				_, err := c.ReplaceItem(t.Context(), pk("p"), "1", []byte(`{"id":"1","pk":"q"}`), nil)
				return err
			},
		} {
			if err := do(); status(err) != http.StatusBadRequest || substatus(err) != "1001" {
				t.Errorf("%s: %v, want 400 with substatus 1001", name, err)
			}
		}
		b := c.NewTransactionalBatch(pk("p"))
		b.ReadItem("1", nil)
		b.UpsertItem([]byte(`{"id":"1","pk":"q"}`), nil)
		response := must2(c.ExecuteTransactionalBatch(t.Context(), b, nil))(t)
		if got := fmt.Sprint(codes(response)); got != "[424 400]" {
			t.Errorf("in a batch: %s", got)
		}
		all, _, err := query(t, c, "SELECT VALUE c.pk FROM c", azcosmos.NewPartitionKey(), nil)
		if err != nil || fmt.Sprint(all) != `["p"]` {
			t.Errorf("there is now %v (%v)", all, err)
		}
	})
}

func TestAnItemIsTwoMegabytesAtMost(t *testing.T) { // V6
	w := newWorld(t)
	c := w.container("claims", "/id")
	create := func(id string, size int) error {
		head := fmt.Sprintf(`{"id":%q,"p":"`, id)
		_, err := c.CreateItem(t.Context(), pk(id), []byte(head+strings.Repeat("x", size-len(head)-2)+`"}`), nil)
		return err
	}
	if err := create("1", 2<<20-1024); err != nil {
		t.Errorf("with room for the service's own properties: %v", err)
	}
	for id, size := range map[string]int{"2": 2 << 20, "3": 2<<20 + 1, "4": 5 << 20} {
		if err := create(id, size); status(err) != http.StatusRequestEntityTooLarge {
			t.Errorf("%d bytes: %v, want 413", size, err)
		}
		_, err := c.ReadItem(t.Context(), pk(id), id, nil)
		wantStatus(t, err, http.StatusNotFound)
	}
}

func throttling(operation string, times int, wait time.Duration) control.Rule {
	return control.Rule{
		Do: "answer", Status: 429, RetryAfter: control.Duration(wait), Times: times, Match: control.Match{Operation: operation},
	}
}

func TestAThrottledClientWaitsAsLongAsItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.container("claims", "/id")
		c := w.on(w.connectWith("patient", cosmos.EmulatorKey, policy.RetryOptions{}), "claims")
		w.arm(throttling("create", 3, 7*time.Second))
		start := time.Now()
		must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
		if took := time.Since(start); took != 21*time.Second {
			t.Errorf("three times told to wait for 7s, the client took %v", took)
		}
		w.arm(throttling("upsert", 4, time.Second))
		start = time.Now()
		_, err := c.UpsertItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil)
		wantStatus(t, err, http.StatusTooManyRequests) // it sends four, then gives up
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it took %v to give up", took)
		}
	})
}

// sessionOf is the session token of a refusal.
func sessionOf(err error) *string { return new(headersOf(err).Get("x-ms-session-token")) }

func TestSessionTokensRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/pk")
		last := 0
		seen := func(token *string, rises int) {
			t.Helper()
			if token == nil {
				t.Fatal("no session token")
			}
			text, ok := strings.CutPrefix(*token, "0:-1#")
			n, err := strconv.Atoi(text)
			if !ok || err != nil || n != last+rises {
				t.Errorf("session token %q after %d, want it to rise by %d", *token, last, rises)
			}
			last = n
		}
		created := must2(c.CreateItem(t.Context(), pk("p"), []byte(`{"id":"1","pk":"p"}`), nil))(t)
		seen(created.SessionToken, 1)
		for name, do := range writes() {
			if strings.Contains(name, "batch") || name == "delete" {
				continue
			}
			must2(do(t.Context(), c, nil))(t)
			seen(must2(c.ReadItem(t.Context(), pk("p"), "1", nil))(t).SessionToken, 1)
		}
		_, err := c.CreateItem(t.Context(), pk("p"), []byte(`{"id":"1","pk":"p"}`), nil)
		wantStatus(t, err, http.StatusConflict)
		seen(sessionOf(err), 0)
		_, err = c.DeleteItem(t.Context(), pk("p"), "1", ifMatch(created.ETag))
		wantStatus(t, err, http.StatusPreconditionFailed)
		seen(sessionOf(err), 0)
		_, err = c.ReadItem(t.Context(), pk("p"), "none", nil)
		wantStatus(t, err, http.StatusNotFound)
		seen(sessionOf(err), 0)
		b := c.NewTransactionalBatch(pk("p"))
		b.CreateItem([]byte(`{"id":"2","pk":"p"}`), nil)
		b.DeleteItem("1", nil)
		seen(new(must2(c.ExecuteTransactionalBatch(t.Context(), b, nil))(t).SessionToken), 1)
		seen(must2(c.DeleteItem(t.Context(), pk("p"), "2", nil))(t).SessionToken, 1)
	})
}
