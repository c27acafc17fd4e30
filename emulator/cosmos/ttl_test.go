package cosmos_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// withTTL makes a container that counts time to live, by default so many seconds.
func (w *world) withTTL(seconds int32) *azcosmos.ContainerClient {
	w.t.Helper()
	return w.containerWith(azcosmos.ContainerProperties{
		ID: "claims", DefaultTimeToLive: &seconds,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}, Version: 2},
	})
}

func TestAnItemExpiresByTheHubsClock(t *testing.T) {
	for name, test := range map[string]struct {
		container int32
		item      string
		lives     time.Duration // 0: for ever
	}{
		"its own ttl under no default":      {-1, `,"ttl":60`, time.Minute},
		"no ttl under no default":           {-1, ``, 0},
		"no ttl under a default":            {30, ``, 30 * time.Second},
		"its own ttl over a default":        {30, `,"ttl":60`, time.Minute},
		"never over a default":              {30, `,"ttl":-1`, 0},
		"null is no ttl of its own":         {30, `,"ttl":null`, 30 * time.Second},
		"a ttl that is written with a .0":   {-1, `,"ttl":60.0`, time.Minute},
		"the longest there is, by the year": {-1, `,"ttl":2147483647`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := w.withTTL(test.container)
				must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"`+test.item+`}`), nil))(t)
				if test.lives == 0 {
					w.hub.Jump(365 * 24 * time.Hour)
					must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t)
					return
				}
				w.hub.Jump(test.lives - time.Second)
				must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t)
				time.Sleep(time.Second) // the bubble's clock counts as well as the jumps
				_, err := c.ReadItem(t.Context(), pk("1"), "1", nil)
				wantStatus(t, err, http.StatusNotFound)
				all, _, err := query(t, c, "SELECT * FROM c", azcosmos.NewPartitionKey(), nil)
				if err != nil || len(all) != 0 {
					t.Errorf("the query still finds %v (%v)", all, err)
				}
			})
		})
	}
}

func TestAnExpiredItemIsAbsentForEveryWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.withTTL(10)
		body := []byte(`{"id":"1"}`)
		expire := func() {
			must2(c.UpsertItem(t.Context(), pk("1"), body, nil))(t)
			w.hub.Jump(10 * time.Second)
		}
		expire()
		_, err := c.ReplaceItem(t.Context(), pk("1"), "1", body, nil)
		wantStatus(t, err, http.StatusNotFound)
		expire()
		_, err = c.DeleteItem(t.Context(), pk("1"), "1", nil)
		wantStatus(t, err, http.StatusNotFound)
		expire()
		old := must2(c.UpsertItem(t.Context(), pk("1"), body, nil))(t)
		if old.RawResponse.StatusCode != http.StatusCreated {
			t.Errorf("upsert over an expired item: %d", old.RawResponse.StatusCode)
		}
		expire()
		must2(c.CreateItem(t.Context(), pk("1"), body, nil))(t)
	})
}

func TestAQueryDoesNotFindWhatHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.withTTL(10)
		for i, ttl := range []int{5, 10, 15, -1} {
			id := fmt.Sprint(i)
			must2(c.CreateItem(t.Context(), pk(id), fmt.Appendf(nil, `{"id":%q,"ttl":%d}`, id, ttl), nil))(t)
		}
		w.hub.Jump(10 * time.Second)
		for sql, want := range map[string]string{
			"SELECT VALUE c.id FROM c":                              `["2" "3"]`,
			"SELECT VALUE c.id FROM c WHERE c.id = '1'":             `[]`,
			"SELECT VALUE COUNT(1) FROM c WHERE c.id = '0'":         `[0]`,
			"SELECT VALUE c.ttl FROM c WHERE c.id IN ('3')":         `[-1]`,
			"SELECT VALUE c.id FROM c WHERE c.ttl BETWEEN 0 AND 10": `[]`,
		} {
			all, _, err := query(t, c, sql, azcosmos.NewPartitionKey(), nil)
			if err != nil || fmt.Sprint(all) != want {
				t.Errorf("%s: %v (%v), want %s", sql, all, err, want)
			}
		}
	})
}

func TestANewDefaultTimeToLiveCountsFromTheLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.withTTL(-1)
		must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
		w.hub.Jump(20 * time.Second)
		properties := must2(c.Read(t.Context(), nil))(t).ContainerProperties
		properties.DefaultTimeToLive = new(int32(30))
		must2(c.Replace(t.Context(), *properties, nil))(t)
		w.hub.Jump(9 * time.Second)
		must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t)
		w.hub.Jump(time.Second)
		_, err := c.ReadItem(t.Context(), pk("1"), "1", nil)
		wantStatus(t, err, http.StatusNotFound)
	})
}

func TestAWriteRenewsTheTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.withTTL(10)
		must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
		for range 5 {
			w.hub.Jump(9 * time.Second)
			var p azcosmos.PatchOperations
			p.AppendIncrement("/n", 1)
			must2(c.PatchItem(t.Context(), pk("1"), "1", p, nil))(t)
		}
	})
}

func TestTimeToLiveIsIgnoredWhereTheContainerDoesNotCountIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1","ttl":1}`), nil))(t)
		w.hub.Jump(time.Hour)
		must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t)
	})
}

func TestTimeToLiveCanBeSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.withTTL(1)
		must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
		if err := w.hub.Switch("cosmos.ttl", true); err != nil {
			t.Fatal(err)
		}
		w.hub.Jump(time.Hour)
		must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t)
	})
}

func TestAnImpossibleTimeToLiveIsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.withTTL(-1)
	for _, ttl := range []string{`0`, `-2`, `1.5`, `"60"`, `2147483648`, `true`} {
		_, err := c.CreateItem(t.Context(), pk("1"), fmt.Appendf(nil, `{"id":"1","ttl":%s}`, ttl), nil)
		if status(err) != http.StatusBadRequest {
			t.Errorf("ttl %s: %v", ttl, err)
		}
	}
}

func TestDateAndTimestampAreOfOneClock(t *testing.T) { // V4
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		w.hub.Jump(-3 * time.Hour)
		must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
		age := func() time.Duration {
			read := must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t)
			at := must2(http.ParseTime(read.RawResponse.Header.Get("Date")))(t)
			return at.Sub(time.Unix(int64(decode(t, read.Value)["_ts"].(float64)), 0))
		}
		if got := age(); got != 0 {
			t.Errorf("age %v of a new item", got)
		}
		time.Sleep(5 * time.Minute)
		if got := age(); got != 5*time.Minute {
			t.Errorf("age %v after five minutes", got)
		}
		w.hub.Jump(6 * time.Hour)
		if got := age(); got != 6*time.Hour+5*time.Minute {
			t.Errorf("age %v after a jump of six hours", got)
		}
	})
}
