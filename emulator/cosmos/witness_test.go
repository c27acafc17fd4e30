package cosmos_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/cosmos"
)

// A witness sees every version in its order, whole batches at once, and nothing that
// was refused.
func TestAWitnessIsToldOfEveryCommit(t *testing.T) {
	var seen []string
	w := newWorldWith(t, cosmos.Options{Committed: func(container string, versions []cosmos.Version) {
		for _, v := range versions {
			_, n, _ := strings.Cut(string(v.Text), `"n":`)
			n, _, _ = strings.Cut(n, ",")
			seen = append(seen, fmt.Sprintf("%s/%s/%s of %d", container, v.ID, n, len(versions)))
		}
	}})
	c := w.container("claims", "/k")
	key := pk("a")
	must2(c.CreateItem(t.Context(), key, []byte(`{"id":"1","k":"a","n":1}`), nil))(t)
	_, err := c.CreateItem(t.Context(), key, []byte(`{"id":"1","k":"a","n":2}`), nil)
	wantStatus(t, err, 409)
	must2(c.ReplaceItem(t.Context(), key, "1", []byte(`{"id":"1","k":"a","n":3}`), nil))(t)
	batch := c.NewTransactionalBatch(key)
	batch.CreateItem([]byte(`{"id":"2","k":"a","n":4}`), nil)
	batch.UpsertItem([]byte(`{"id":"1","k":"a","n":5}`), nil)
	must2(c.ExecuteTransactionalBatch(t.Context(), batch, nil))(t)
	batch = c.NewTransactionalBatch(key)
	batch.CreateItem([]byte(`{"id":"3","k":"a","n":6}`), nil)
	batch.CreateItem([]byte(`{"id":"2","k":"a","n":7}`), nil)
	must2(c.ExecuteTransactionalBatch(t.Context(), batch, nil))(t)
	var patch azcosmos.PatchOperations
	patch.AppendSet("/n", 8)
	must2(c.PatchItem(t.Context(), key, "2", patch, nil))(t)
	must2(c.DeleteItem(t.Context(), key, "1", nil))(t)
	want := []string{
		"claims/1/1 of 1", "claims/1/3 of 1", "claims/2/4 of 2", "claims/1/5 of 2", "claims/2/8 of 1", "claims/1/ of 1",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("told of %q, want %q", seen, want)
	}
}
