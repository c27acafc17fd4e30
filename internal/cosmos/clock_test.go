package cosmos_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"oneeffect/internal/cosmos"
)

// dateless takes the clock out of every answer, as a proxy on the way may.
type dateless struct{ *wire }

func (d dateless) Do(r *http.Request) (*http.Response, error) {
	response, err := d.wire.Do(r)
	if err == nil {
		response.Header.Del("Date")
	}
	return response, err
}

func TestAStoreWithoutAClockIsFoundOut(t *testing.T) { // C6 K4
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if err := w.db.Claims().CheckClock(t.Context()); err != nil {
			t.Errorf("with a Date: %v", err)
		}
		db := w.open(func(o *cosmos.Options) { o.Transport = dateless{w.wire} })
		defer db.Close()
		if err := db.Claims().CheckClock(t.Context()); !errors.Is(err, cosmos.ErrNoClock) {
			t.Errorf("without: %v, want ErrNoClock", err)
		}
		w.wire.cut(silent)
		if err := w.db.Claims().CheckClock(t.Context()); err == nil || errors.Is(err, cosmos.ErrNoClock) {
			t.Errorf("without an answer: %v", err)
		}
	})
}
