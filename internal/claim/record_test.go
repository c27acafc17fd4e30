package claim_test

import (
	"errors"
	"testing"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// A state of a later version, or a record that a person has mended badly, is
// neither granted nor told.
func TestNothingIsDecidedFromARecordThatThisVersionDoesNotWrite(t *testing.T) { // C2, C10
	for what, spoil := range map[string]func(*claim.Claim){
		"completed without a result": func(c *claim.Claim) { c.Status = claim.Completed },
		"failed without a reason":    func(c *claim.Claim) { c.Status = claim.Failed },
		"a state of a later version": func(c *claim.Claim) { c.Status, c.Released = "SUSPENDED", true },
		"no state":                   func(c *claim.Claim) { c.Status, c.Released = "", true },
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				c := held(spoil)
				etag, err := w.open("hand").Claims().Record(c.ID).Create(t.Context(), *c)
				if err != nil {
					t.Fatal(err)
				}
				lease, v, err := w.desk("worker-1").Take(t.Context(), task(again))
				if lease != nil || v.Kind != 0 || !errors.Is(err, message.ErrRefused) {
					t.Errorf("lease %t, %s, %v, want it refused", lease != nil, v.Kind, err)
				}
				d := w.desk("orchestrator")
				_, read := d.Read(t.Context(), c.ID)
				_, _, examined := d.Examine(t.Context(), look(deadLetter))
				_, withdrawn := d.Withdraw(t.Context(), look())
				_, resolved := d.Resolve(t.Context(), c.ID, c.Run, done(t))
				for asked, err := range map[string]error{"read": read, "examined": examined, "withdrawn": withdrawn, "resolved": resolved} {
					if !errors.Is(err, message.ErrRefused) {
						t.Errorf("%s: %v, want it refused", asked, err)
					}
				}
				if stands := w.stands(); stands.ETag != etag {
					t.Errorf("written: %+v", stands.Claim)
				}
			})
		})
	}
}
