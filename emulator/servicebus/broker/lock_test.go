package broker

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestAMessageIsCountedOnlyWhenItsDeliveryFailed(t *testing.T) { // B3
	for _, row := range []struct {
		name string
		end  func(r *rig, d *Delivery)
		want uint32
	}{
		{"abandoned counts", func(r *rig, d *Delivery) { r.mustSettle("tasks", d, Abandon) }, 1},
		{"released does not count", func(r *rig, d *Delivery) { r.mustSettle("tasks", d, Release) }, 0},
		{"an expired lock counts", func(*rig, *Delivery) { time.Sleep(5 * time.Minute) }, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, tasks(nil), func(t *testing.T, r *rig) {
				r.send("tasks", ids("a")...)
				first := r.take("tasks", 1)
				if first[0].Failures != 0 {
					t.Errorf("first delivery has %d failures behind it, want 0", first[0].Failures)
				}
				row.end(r, first[0])
				if again := r.take("tasks", 1); len(again) != 1 || again[0].Failures != row.want {
					t.Errorf("came back as %+v, want %d failures", again, row.want)
				}
			})
		})
	}
}

func TestALockEndsExactlyAtItsTime(t *testing.T) { // B1
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		r.send("tasks", ids("a")...)
		d := r.take("tasks", 1)[0]
		if want := r.hub.Now().Add(5 * time.Minute); !d.LockedUntil.Equal(want) {
			t.Errorf("locked until %v, want %v", d.LockedUntil, want)
		}
		time.Sleep(5*time.Minute - time.Nanosecond)
		r.want(r.take("tasks", 1))
		time.Sleep(time.Nanosecond)
		// Asked at the very instant: it must not depend on whether the timekeeper has run.
		if err := r.settle("tasks", d, Complete); !errors.Is(err, ErrLockLost) {
			t.Errorf("settle at the end of the lock: %v, want %v", err, ErrLockLost)
		}
		r.want(r.take("tasks", 1), "a")
	})
}

func TestAStaleTokenChangesNothing(t *testing.T) { // B2
	for _, disposition := range []Disposition{Complete, Abandon, Release, Defer, DeadLetter} {
		t.Run(string(disposition), func(t *testing.T) {
			bubble(t, tasks(nil), func(t *testing.T, r *rig) {
				r.send("tasks", ids("a")...)
				stale := r.take("tasks", 1)[0]
				time.Sleep(5 * time.Minute)
				fresh := r.take("tasks", 1)[0]
				if err := r.settle("tasks", stale, disposition); !errors.Is(err, ErrLockLost) {
					t.Fatalf("settle with a stale token: %v, want %v", err, ErrLockLost)
				}
				if _, err := r.queue("tasks").Renew("worker-1", stale.Token); !errors.Is(err, ErrLockLost) {
					t.Fatalf("renew with a stale token: %v, want %v", err, ErrLockLost)
				}
				r.mustSettle("tasks", fresh, Complete)
				events := r.hub.Events(0)
				refused := events[slices.Index(r.kinds(), "settle-refused")]
				if refused.Key != "a" || refused.Disposition != string(disposition) {
					t.Errorf("refusal recorded as %+v", refused)
				}
			})
		})
	}
}

func TestSettlingTwiceIsRefused(t *testing.T) { // B2
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		r.send("tasks", ids("a")...)
		d := r.take("tasks", 1)[0]
		r.mustSettle("tasks", d, Complete)
		if err := r.settle("tasks", d, Complete); !errors.Is(err, ErrLockLost) {
			t.Errorf("second settlement: %v, want %v", err, ErrLockLost)
		}
	})
}

func TestRenewalLastsAFullDurationFromNow(t *testing.T) {
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		r.send("tasks", ids("a", "b")...)
		got := r.take("tasks", 2)
		for range 10 {
			time.Sleep(4 * time.Minute)
			ends, err := r.queue("tasks").Renew("worker-1", got[0].Token)
			if err != nil {
				t.Fatal(err)
			}
			if want := r.hub.Now().Add(5 * time.Minute); len(ends) != 1 || !ends[0].Equal(want) {
				t.Fatalf("renewed until %v, want %v", ends, want)
			}
		}
		// All or none: b's lock is long over, so a renewal that names it renews nothing.
		time.Sleep(4 * time.Minute)
		if _, err := r.queue("tasks").Renew("worker-1", got[0].Token, got[1].Token); !errors.Is(err, ErrLockLost) {
			t.Errorf("renewal of a live and a dead lock: %v, want %v", err, ErrLockLost)
		}
		time.Sleep(time.Minute)
		if err := r.settle("tasks", got[0], Complete); !errors.Is(err, ErrLockLost) {
			t.Errorf("settle what such a renewal named: %v, want %v", err, ErrLockLost)
		}
	})
}

func TestLocksSurviveTheirConsumer(t *testing.T) { // B1
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		r.send("tasks", ids("a")...)
		d := r.take("tasks", 1)[0] // its consumer is closed by now
		r.want(r.take("tasks", 1))
		r.mustSettle("tasks", d, Complete)
	})
}

func TestWhatComesBackStandsAtItsOldPlace(t *testing.T) { // B4
	for _, row := range []struct {
		name string
		end  func(r *rig, d *Delivery)
	}{
		{"abandoned", func(r *rig, d *Delivery) { r.mustSettle("tasks", d, Abandon) }},
		{"released", func(r *rig, d *Delivery) { r.mustSettle("tasks", d, Release) }},
		{"expired", func(*rig, *Delivery) { time.Sleep(5 * time.Minute) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, tasks(nil), func(t *testing.T, r *rig) {
				r.send("tasks", ids("a", "b", "c", "d")...)
				row.end(r, r.take("tasks", 1)[0])
				r.want(r.take("tasks", 2), "a", "b")
				r.want(r.take("tasks", 9), "c", "d")
			})
		})
	}
}

func TestAMessageIsSeenMaxDeliveryTimesAndThenIsADeadLetter(t *testing.T) { // B5
	for _, row := range []struct {
		name string
		fail func(r *rig, path string, d *Delivery)
	}{
		{"by abandoning", func(r *rig, path string, d *Delivery) { r.mustSettle(path, d, Abandon) }},
		{"by lock expiry", func(*rig, string, *Delivery) { time.Sleep(5 * time.Minute) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, tasks(nil), func(t *testing.T, r *rig) {
				r.send("tasks", ids("a")...)
				for n := range 3 {
					got := r.take("tasks", 1)
					r.want(got, "a")
					if got[0].Failures != uint32(n) {
						t.Fatalf("delivery %d has %d failures behind it", n+1, got[0].Failures)
					}
					row.fail(r, "tasks", got[0])
				}
				r.want(r.take("tasks", 1))
				// B3: nothing counts inside a dead letter queue, however often it fails there.
				for range 5 {
					dead := r.take("tasks/$deadletterqueue", 1)
					r.want(dead, "a")
					d := dead[0]
					if d.Failures != 3 || d.DeadLetterSource != "tasks" ||
						d.Changes[ReasonProperty] != "MaxDeliveryCountExceeded" ||
						d.Changes[DescriptionProperty] != "Message could not be consumed after maximum delivery attempts." {
						t.Fatalf("dead letter is %+v", d)
					}
					row.fail(r, "tasks/$deadletterqueue", d)
				}
			})
		})
	}
}

func TestDeadLetteringKeepsTheCountAndCarriesTheReason(t *testing.T) { // B3
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		r.send("tasks", ids("a")...)
		r.mustSettle("tasks", r.take("tasks", 1)[0], Abandon)
		d := r.take("tasks", 1)[0]
		err := r.queue("tasks").Settle(d.Token, Settlement{
			Disposition: DeadLetter, Client: "worker-1", Reason: "Keyless",
			Changes: map[string]any{ReasonProperty: "Keyless", "more": int64(7)},
		})
		if err != nil {
			t.Fatal(err)
		}
		dead := r.take("tasks/$DeadLetterQueue", 1)[0]
		if dead.Failures != 1 || dead.Changes[ReasonProperty] != "Keyless" || dead.Changes["more"] != int64(7) {
			t.Errorf("dead letter is %+v", dead)
		}
		if err := r.settle("tasks/$DeadLetterQueue", dead, DeadLetter); !errors.Is(err, ErrInvalid) {
			t.Errorf("dead-letter a dead letter: %v, want %v", err, ErrInvalid)
		}
		want := []string{"enqueued", "delivered", "settled", "delivered", "settled", "dead-lettered", "delivered", "settle-refused"}
		if got := r.kinds(); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

func TestSettlementsChangeOnlyTheirOwnCopyOfAMessage(t *testing.T) {
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		r.send("tasks", ids("a")...)
		first := r.take("tasks", 1)[0]
		change := func(d *Delivery, key string) {
			err := r.queue("tasks").Settle(d.Token, Settlement{Disposition: Abandon, Changes: map[string]any{key: true}})
			if err != nil {
				t.Fatal(err)
			}
		}
		change(first, "one")
		second := r.take("tasks", 1)[0]
		change(second, "two")
		third := r.take("tasks", 1)[0]
		if len(first.Changes) != 0 || len(second.Changes) != 1 || len(third.Changes) != 2 {
			t.Errorf("changes %v, %v, %v: want none, one, two", first.Changes, second.Changes, third.Changes)
		}
	})
}

func TestSwitchesTurnRulesOff(t *testing.T) {
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		for _, name := range []string{"servicebus.lock-expiry", "servicebus.delivery-count"} {
			if err := r.hub.Switch(name, true); err != nil {
				t.Fatal(err)
			}
		}
		r.send("tasks", ids("a")...)
		d := r.take("tasks", 1)[0]
		time.Sleep(time.Hour)
		r.want(r.take("tasks", 1))
		r.mustSettle("tasks", d, Abandon)
		for range 5 {
			d := r.take("tasks", 1)[0]
			if d.Failures != 0 {
				t.Fatalf("%d failures counted although counting is off", d.Failures)
			}
			r.mustSettle("tasks", d, Abandon)
		}
		if err := r.hub.Switch("servicebus.lock-expiry", false); err != nil {
			t.Fatal(err)
		}
		r.take("tasks", 1)
		time.Sleep(5 * time.Minute)
		r.want(r.take("tasks", 1), "a")
	})
}

func TestAJumpOfTheClockEndsLocks(t *testing.T) {
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		r.send("tasks", ids("a")...)
		d := r.take("tasks", 1)[0]
		before := r.hub.Last()
		r.hub.Jump(5 * time.Minute)
		// Nobody touches the queue: the timekeeper alone must see it.
		e, err := r.hub.WaitEvent(t.Context(), before, nil)
		if err != nil || e.Kind != "lock-expired" || e.Key != "a" || e.Delivery != 1 || e.Client != "worker-1" {
			t.Errorf("event %+v, %v", e, err)
		}
		if err := r.settle("tasks", d, Complete); !errors.Is(err, ErrLockLost) {
			t.Errorf("settle after the jump: %v", err)
		}
	})
}
