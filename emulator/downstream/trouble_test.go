package downstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/control"
)

func TestAStoredFailureIsGivenAgainUntilItsKeyIsForgotten(t *testing.T) { // S4 S5
	bubble(t, func(t *testing.T, w world) {
		const failing = `{"name":"Ada","fail":500}`
		first := w.mustSend("/customers", failing, key)
		again := w.mustSend("/customers", failing, key)
		if first.status != 500 || again.status != 500 || first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%d %v, then %d %v: want 500, and the same marked as replayed", first.status, first.header, again.status, again.header)
		}
		if other := w.mustSend("/customers", `{"name":"Ada"}`, key); other.status != http.StatusUnprocessableEntity {
			t.Errorf("another payload under the key of a failure: %d", other.status)
		}
		if effects := w.s.Ledger().Effects; effects != 0 {
			t.Errorf("%d effects", effects)
		}
		w.hub.Jump(keyWindow)
		if fresh := w.mustSend("/customers", `{"name":"Ada"}`, key); fresh.status != http.StatusCreated {
			t.Errorf("after the window: %d", fresh.status)
		}
	})
}

func TestAKeyIsForgottenAfterItsWindow(t *testing.T) { // S5
	bubble(t, func(t *testing.T, w world) {
		first := w.mustSend("/customers", `{}`, key)
		time.Sleep(keyWindow - time.Second)
		if last := w.mustSend("/customers", `{}`, key); last.status != http.StatusOK {
			t.Errorf("a second before its end: %d", last.status)
		}
		time.Sleep(time.Second)
		second := w.mustSend("/customers", `{}`, key)
		if second.status != http.StatusCreated || second.header.Get("Location") == first.header.Get("Location") {
			t.Errorf("after its end: %d %s", second.status, second.header.Get("Location"))
		}
		if e := w.s.LedgerOf("82f3").Entries[0]; e.Effects != 2 || e.Calls != 3 {
			t.Errorf("the ledger shows %d effects of %d calls, want 2 of 3", e.Effects, e.Calls)
		}
	})
}

func TestARedirectNamesAnotherHost(t *testing.T) { // S7
	bubble(t, func(t *testing.T, w world) {
		w.arm(control.Rule{Match: control.Match{Service: "downstream"}, Do: "answer", Status: http.StatusTemporaryRedirect})
		a := w.mustSend("/letters", `{}`)
		if a.status != http.StatusTemporaryRedirect || !strings.HasPrefix(a.header.Get("Location"), "http://elsewhere.invalid/") {
			t.Errorf("%d to %q", a.status, a.header.Get("Location"))
		}
	})
}

func TestABodyWithoutEndEndsWithItsReader(t *testing.T) { // S7
	bubble(t, func(t *testing.T, w world) {
		if err := w.hub.Switch("downstream.reply-ends", true); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "POST", "http://downstream/letters", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := w.s.Transport().RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.CopyN(io.Discard, response.Body, 1<<20); err != nil {
			t.Errorf("it ended after %d bytes: %v", n, err)
		}
		cancel()
		if _, err := io.Copy(io.Discard, response.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("after the reader had gone: %v", err)
		}
	})
}
