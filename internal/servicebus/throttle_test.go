package servicebus

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
)

func TestComplaintsHalveTheSlotsAndPeaceBringsThemBack(t *testing.T) { // S9
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(8)
		s.throttle()
		for range 7 { // of the same load
			s.throttle()
		}
		if n := s.take(t.Context()); n != 4 {
			t.Errorf("%d slots after a complaint by all eight, want 4", n)
		}
		s.give(4)
		time.Sleep(oneLoad)
		s.throttle()
		if n := s.take(t.Context()); n != 2 {
			t.Errorf("%d slots after one more, want 2", n)
		}
		s.give(2)
		for range 2 + 3 + 4 + 5 + 6 + 7 { // a bound's worth for each one more
			s.calm()
		}
		if n := s.take(t.Context()); n != 8 {
			t.Errorf("%d slots after peace, want all 8", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if n := s.take(ctx); n != 0 {
			t.Errorf("%d slots after the end", n)
		}
		time.Sleep(oneLoad)
		s.throttle() // 8 are used, the bound is 4
		s.give(4)
		if n := s.takeFree(); n != 0 {
			t.Errorf("%d slots free, 4 of 4 are used", n)
		}
		for range 10 {
			time.Sleep(oneLoad)
			s.throttle()
		}
		s.give(4)
		if n := s.takeFree(); n != 1 {
			t.Errorf("%d slots at the least, want 1", n)
		}
	})
}

// Whoever complains, fewer messages are held by the broker's own account, and in
// the end as many as there are slots.
func TestFewerMessagesAreHeldWhileSomebodyComplains(t *testing.T) { // S9
	const slots = 8
	for name, complain := range map[string]func(w *world, throttle *Throttle){
		"the broker, of a link": func(w *world, _ *Throttle) {
			w.arm(control.Rule{Do: "answer", Condition: "com.microsoft:server-busy", Match: control.Match{Operation: "attach"}, Times: 4})
			w.cut()
			time.Sleep(10 * time.Second)
		},
		"the broker, of a renewal": func(w *world, _ *Throttle) {
			w.arm(control.Rule{Do: "answer", Condition: "com.microsoft:server-busy", Match: control.Match{Operation: "renew-lock"}, Times: 4})
			time.Sleep(2 * time.Minute)
		},
		"a system behind the handlers": func(_ *world, throttle *Throttle) {
			throttle.Pull()
			throttle.Pull()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				var j journal
				r := w.receiver()
				r.Slots, r.Throttle = slots, NewThrottle()
				stop := w.run(r, func(_ context.Context, d message.Delivery) message.Settlement {
					if d.MessageID == "complained" && d.Count == 1 {
						complain(w, r.Throttle)
						return message.Done()
					}
					defer j.begin(d.MessageID)()
					time.Sleep(time.Second)
					return message.Done()
				})
				defer stop()
				load := func(name string, n int) (atOnce int) {
					j.peak()
					for i := range n {
						w.send("tasks", fmt.Sprintf("%s-%d", name, i))
					}
					for i := range n {
						w.settled(fmt.Sprintf("%s-%d", name, i))
					}
					synctest.Wait()
					return j.peak()
				}
				w.send("tasks", "complained")
				w.settled("complained")
				time.Sleep(time.Second) // the next message is no part of the same batch
				load("asked for before", 1)
				if n := load("fewer", slots); n < slots/2 || n > slots/2+1 {
					t.Errorf("%d at once after the complaint, want %d, or one more in the end", n, slots/2)
				}
				load("peace", 3*slots)
				if n := load("many", 2*slots); n != slots {
					t.Errorf("%d at once in peace, want %d", n, slots)
				}
				stop()
				w.loggedTimes(1, "level=WARN", "msg=throttled", "slots=4", "of=8")
				w.loggedTimes(1, "level=INFO", `msg="no longer throttled"`, "slots=8")
			})
		})
	}
}
