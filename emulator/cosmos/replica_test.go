package cosmos_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/cosmos"
)

// lag makes a replica lag over HTTP, as everybody can.
func (w *world) lag(method, container, body string) {
	w.t.Helper()
	answer := httptest.NewRecorder()
	w.hub.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), method, "/control/lag"+container, strings.NewReader(body)))
	if answer.Code != http.StatusNoContent {
		w.t.Fatalf("%s lag: %d %s", method, answer.Code, answer.Body)
	}
}

// newest is the session token of everything that has been written to a container.
func (w *world) newest(container string) *string {
	w.t.Helper()
	return new(w.send(request{method: "GET", path: "/dbs/oneeffect/colls/" + container}).header.Get("x-ms-session-token"))
}

func session(token *string) *azcosmos.ItemOptions { return &azcosmos.ItemOptions{SessionToken: token} }

// n reads member n of item "1", -1 if there is no item.
func n(t *testing.T, c *azcosmos.ContainerClient, token *string) float64 {
	t.Helper()
	read, err := c.ReadItem(t.Context(), pk("1"), "1", session(token))
	if err != nil {
		wantStatus(t, err, http.StatusNotFound)
		return -1
	}
	return decode(t, read.Value)["n"].(float64)
}

func upsert(t *testing.T, c *azcosmos.ContainerClient, n int) *string {
	t.Helper()
	return must2(c.UpsertItem(t.Context(), pk("1"), fmt.Appendf(nil, `{"id":"1","n":%d}`, n), nil))(t).SessionToken
}

func TestALaggingReplicaShowsThePastToReadsWithoutTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		first := upsert(t, c, 1)
		w.lag("PUT", "/claims", `{"commits":2}`)
		second := upsert(t, c, 2)
		third := upsert(t, c, 3)
		for name, test := range map[string]struct {
			token *string
			want  float64
		}{
			"without a token":         {nil, 1},
			"with a token of then":    {first, 1},
			"with one that is newer":  {second, 3}, // another replica answers, and that one is current
			"with that of the newest": {third, 3},
		} {
			if got := n(t, c, test.token); got != test.want {
				t.Errorf("%s: %v, want %v", name, got, test.want)
			}
			results, _, err := query(t, c, "SELECT VALUE c.n FROM c WHERE c.id = '1'", pk("1"), &azcosmos.QueryOptions{SessionToken: test.token})
			if err != nil || fmt.Sprint(results) != fmt.Sprint([]float64{test.want}) {
				t.Errorf("a query %s: %v (%v), want %v", name, results, err, test.want)
			}
		}
		if read := must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t); *read.SessionToken != *first {
			t.Errorf("an answer from the past has session token %s, want %s", *read.SessionToken, *first)
		}
		upsert(t, c, 4)
		if got := n(t, c, nil); got != 2 {
			t.Errorf("one commit later %v, want 2", got)
		}
		w.lag("DELETE", "/claims", "")
		if got := n(t, c, nil); got != 4 {
			t.Errorf("without a lag %v, want 4", got)
		}
		w.lag("PUT", "/claims", `{"commits":1}`)
		if got := n(t, c, nil); got != 4 {
			t.Errorf("a new lag begins with %v, want what is there", got)
		}
	})
}

func TestAReadRightAfterAConflictMayFindNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		w.lag("PUT", "", `{"duration":"5s"}`)
		upsert(t, c, 1)
		_, err := c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil)
		wantStatus(t, err, http.StatusConflict) // the primary decides
		token := sessionOf(err)
		if got := n(t, c, nil); got != -1 {
			t.Errorf("the replica has it: %v", got)
		}
		if got := n(t, c, token); got != 1 {
			t.Errorf("with the token of the refusal %v, want 1", got)
		}
		time.Sleep(3 * time.Second)
		if got := n(t, c, nil); got != -1 {
			t.Errorf("after 3s the replica has it: %v", got)
		}
		w.hub.Jump(2 * time.Second)
		if got := n(t, c, nil); got != 1 {
			t.Errorf("after 5s of the hub's clock %v, want 1", got)
		}
	})
}

func TestWritesNeverSeeThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		upsert(t, c, 1)
		w.lag("PUT", "", `{"commits":100}`)
		upsert(t, c, 2)
		past := must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t)
		_, err := c.ReplaceItem(t.Context(), pk("1"), "1", []byte(`{"id":"1"}`), ifMatch(past.ETag))
		wantStatus(t, err, http.StatusPreconditionFailed)
		var p azcosmos.PatchOperations
		p.SetCondition("from c where c.n = 2")
		p.AppendIncrement("/n", 1)
		must2(c.PatchItem(t.Context(), pk("1"), "1", p, nil))(t)
		b := c.NewTransactionalBatch(pk("1"))
		b.ReadItem("1", nil)
		response := must2(c.ExecuteTransactionalBatch(t.Context(), b, nil))(t)
		if got := decode(t, response.OperationResults[0].ResourceBody)["n"]; got != 3.0 {
			t.Errorf("a batch reads %v, want 3", got)
		}
	})
}

func TestStrongReadsNeverLag(t *testing.T) {
	for account, levels := range map[string]map[string]float64{
		"Strong":           {"": 2, "Strong": 2, "BoundedStaleness": 1, "Session": 1, "Eventual": 1},
		"BoundedStaleness": {"": 1, "Session": 1},
		"Session":          {"": 1, "Eventual": 1},
	} {
		w := newWorldWith(t, cosmos.Options{Consistency: account})
		c := w.container("claims", "/id")
		upsert(t, c, 1)
		w.lag("PUT", "/claims", `{"commits":1}`)
		upsert(t, c, 2)
		for level, want := range levels {
			o := &azcosmos.ItemOptions{}
			if level != "" {
				o.ConsistencyLevel = new(azcosmos.ConsistencyLevel(level))
			}
			read := must2(c.ReadItem(t.Context(), pk("1"), "1", o))(t)
			if got := decode(t, read.Value)["n"]; got != want {
				t.Errorf("%q in an account of %s: %v, want %v", level, account, got, want)
			}
		}
	}
}

func TestTheChangeFeedOfALaggingReplicaMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		create := func(id string) {
			t.Helper()
			must2(c.CreateItem(t.Context(), pk(id), fmt.Appendf(nil, `{"id":%q}`, id), nil))(t)
		}
		create("a")
		w.lag("PUT", "/claims", `{"duration":"10s"}`)
		create("b")
		ids, next, _ := w.feed("")
		if fmt.Sprint(ids) != "[a]" {
			t.Errorf("at first %v, want a", ids)
		}
		if _, again, got := w.feed(next); got.status != http.StatusNotModified || again != next {
			t.Errorf("nothing new: %d, from %s to %s", got.status, next, again)
		}
		time.Sleep(10 * time.Second)
		create("c")
		if ids, _, _ := w.feed(next); fmt.Sprint(ids) != "[b]" {
			t.Errorf("ten seconds later %v, want b", ids)
		}
	})
}

func TestALagIsOfOneContainerOrOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		behind, current := w.container("Claims", "/id"), w.container("executions", "/id")
		write := func(n int) {
			upsert(t, behind, n)
			upsert(t, current, n)
		}
		see := func(when string, wantBehind, wantCurrent float64) {
			t.Helper()
			if a, b := n(t, behind, nil), n(t, current, nil); a != wantBehind || b != wantCurrent {
				t.Errorf("%s: %v and %v, want %v and %v", when, a, b, wantBehind, wantCurrent)
			}
		}
		write(1)
		w.lag("PUT", "/claims", `{"commits":1}`)
		write(2)
		see("one lags", 1, 2)
		w.lag("PUT", "", `{"commits":2}`)
		write(3)
		see("all lag, one by less", 2, 2)
		w.lag("DELETE", "/claims", "")
		write(4)
		see("all lag alike", 3, 2)
		if lags := w.hub.Lags(); len(lags) != 1 || lags[0].Commits != 2 {
			t.Errorf("lags %+v", lags)
		}
		w.lag("DELETE", "", "")
		see("none lags", 4, 4)
	})
}

// Whatever is written, a replica that lags by n commits shows what was there n
// commits ago, and nothing of the commits in between.
func TestAReplicaShowsExactlyWhatWasThere(t *testing.T) {
	const behind, commits = 3, 120
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.containerWith(azcosmos.ContainerProperties{
			ID: "items", DefaultTimeToLive: new(int32(-1)), PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}},
		})
		random := rand.New(rand.NewPCG(1, 2))
		write := func(i int) {
			id, other := fmt.Sprint(random.IntN(5)), fmt.Sprint(random.IntN(5))
			b := c.NewTransactionalBatch(pk("p"))
			switch random.IntN(4) {
			case 0:
				b.UpsertItem(fmt.Appendf(nil, `{"id":%q,"pk":"p","n":%d}`, id, i), nil)
				b.DeleteItem(id, nil)
				b.UpsertItem(fmt.Appendf(nil, `{"id":%q,"pk":"p","n":%d}`, id, -i), nil)
			case 1:
				b.UpsertItem(fmt.Appendf(nil, `{"id":%q,"pk":"p","n":%d}`, id, i), nil)
				b.DeleteItem(id, nil)
			default:
				b.UpsertItem(fmt.Appendf(nil, `{"id":%q,"pk":"p","n":%d}`, id, i), nil)
				b.UpsertItem(fmt.Appendf(nil, `{"id":%q,"pk":"p","n":%d,"ttl":100000}`, other, i), nil)
			}
			if response := must2(c.ExecuteTransactionalBatch(t.Context(), b, nil))(t); !response.Success {
				t.Fatalf("codes %v", codes(response))
			}
		}
		w.lag("PUT", "/items", fmt.Sprintf(`{"commits":%d}`, behind))
		current := func() string {
			all, _, err := query(t, c, "SELECT * FROM c", pk("p"), &azcosmos.QueryOptions{SessionToken: w.newest("items")})
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(all)
		}
		history := []string{current()}
		for i := range commits {
			write(i + 1)
			history = append(history, current())
			want := history[max(0, len(history)-1-behind)]
			all, _, err := query(t, c, "SELECT * FROM c", pk("p"), nil)
			if got := fmt.Sprint(all); err != nil || got != want {
				t.Fatalf("after %d commits the replica has %s (%v), want %s", i+1, got, err, want)
			}
		}
	})
}
