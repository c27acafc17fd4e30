package servicebus_test

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/emulator/control"
)

//go:embed testdata/faults.json
var faults []byte

// fault is an example of a rule: what a client does, and what becomes of it.
type fault struct {
	Name    string
	Rule    json.RawMessage // as it is sent to /control/rules
	Does    string          // "send", "complete", "renew" or "create"
	Release string          // what lets go of a hold

	Sees        string // in the client's error; none if empty
	Enqueued    int    // how often the message was
	Completed   int
	Connections int              // that the client made; 0: any number
	Takes       control.Duration // at least
	Again       uint32           // the message comes again, as this delivery; 0: not while its lock would last
}

// armers are the two ways to arm a rule.
var armers = map[string]func(w *world, rule []byte){
	"from Go": func(w *world, rule []byte) {
		var r control.Rule
		w.must(json.Unmarshal(rule, &r))
		_, err := w.hub.Arm(r)
		w.must(err)
	},
	"over HTTP": func(w *world, rule []byte) {
		answer := httptest.NewRecorder()
		w.hub.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(w.ctx, http.MethodPost, "/control/rules", bytes.NewReader(rule)))
		if answer.Code != http.StatusCreated {
			w.t.Fatalf("arm: %d %s", answer.Code, answer.Body)
		}
	},
}

func TestEveryFaultDoesWhatItSays(t *testing.T) { // D5
	var examples []fault
	d := json.NewDecoder(bytes.NewReader(faults))
	d.DisallowUnknownFields()
	if err := d.Decode(&examples); err != nil {
		t.Fatal(err)
	}
	for how, arm := range armers {
		for _, f := range examples {
			t.Run(f.Name+" "+how, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) { f.try(w, arm) })
			})
		}
	}
}

func (f fault) try(w *world, arm func(*world, []byte)) {
	c := w.client("worker-1")
	ctx, cancel := context.WithTimeout(w.ctx, 2*time.Minute)
	defer cancel()
	r := w.receiver(c, "tasks")
	var do func() error
	switch f.Does {
	case "send":
		s := w.sender(c, "tasks")
		do = func() error { return s.SendMessage(ctx, message("a"), nil) }
	case "complete", "renew":
		w.send("tasks", "a")
		m := w.receive(r)
		do = func() error { return r.CompleteMessage(ctx, m, nil) }
		if f.Does == "renew" {
			do = func() error { return r.RenewMessageLock(ctx, m, nil) }
		}
	case "create":
		a := w.management()
		do = func() error { _, err := a.CreateQueue(ctx, "jobs", nil); return err }
	default:
		w.t.Fatalf("does %q", f.Does)
	}
	before := w.count("enqueued", "a")
	arm(w, f.Rule)
	start := time.Now()
	done := async(do)
	if f.Release != "" {
		w.reached("f")
		w.release("f", f.Release)
	}
	err := <-done
	if f.Sees == "" && err != nil || f.Sees != "" && (err == nil || !strings.Contains(err.Error(), f.Sees)) {
		w.t.Errorf("the client saw %v, want %q", err, f.Sees)
	}
	if took := time.Since(start); took < time.Duration(f.Takes) {
		w.t.Errorf("took %v, want at least %v", took, f.Takes)
	}
	if n := w.count("enqueued", "a") - before; n != f.Enqueued {
		w.t.Errorf("enqueued %d times, want %d", n, f.Enqueued)
	}
	if n := w.count("settled", "a"); n != f.Completed {
		w.t.Errorf("settled %d times, want %d", n, f.Completed)
	}
	if n := w.connections("worker-1"); f.Connections != 0 && n != f.Connections {
		w.t.Errorf("%d connections, want %d", n, f.Connections)
	}
	if f.Again > 0 {
		if m := w.receive(r); m.DeliveryCount != f.Again {
			w.t.Errorf("came again as delivery %d, want %d", m.DeliveryCount, f.Again)
		}
	} else if f.Does == "complete" || f.Does == "renew" {
		w.receiveNothing(w.receiver(w.client("worker-2"), "tasks")) // it is locked still, or completed
	}
}

func (w *world) connections(client string) (n int) {
	for _, e := range w.hub.Events(0) {
		if e.Kind == "connected" && e.Client == client {
			n++
		}
	}
	return n
}

// What is no rule of its own: a clock that jumps, and a client that is cut off.
func TestFaultsBesidesRules(t *testing.T) { // D5
	t.Run("the clock jumps over a lock", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			w.send("tasks", "a")
			r := w.receiver(w.client("worker-1"), "tasks")
			m := w.receive(r)
			answer := httptest.NewRecorder()
			w.hub.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(w.ctx, http.MethodPost, "/control/clock", strings.NewReader(`{"jump":"5m"}`)))
			if answer.Code != http.StatusOK {
				t.Fatalf("jump: %d %s", answer.Code, answer.Body)
			}
			w.wantCode(r.CompleteMessage(w.ctx, m, nil), azservicebus.CodeLockLost)
		})
	})
	t.Run("a client is isolated and its session is free", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			w.sendSteps("a/1")
			w.receive(w.accept(w.client("worker-1"), "a"))
			answer := httptest.NewRecorder()
			w.hub.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(w.ctx, http.MethodPut, "/control/clients/worker-1/isolation", nil))
			if answer.Code/100 != 2 {
				t.Fatalf("isolate: %d %s", answer.Code, answer.Body)
			}
			w.event("session-released", "")
			if m := w.receive(w.accept(w.client("worker-2"), "a")); m.DeliveryCount != 1 {
				t.Errorf("delivery %d, want 1", m.DeliveryCount)
			}
		})
	})
	t.Run("a session's lock is lost", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			w.sendSteps("a/1")
			r := w.accept(w.client("worker-1"), "a")
			w.receive(r)
			w.arm("lost", "renew-session-lock", func(r *control.Rule) { r.Do, r.Nth = "lose-lock", 1 })
			w.must(r.RenewSessionLock(w.ctx, nil)) // the SDK accepts the session again, and says nothing of it
			if m := w.receive(r); m.DeliveryCount != 2 {
				t.Errorf("delivery %d, want 2", m.DeliveryCount)
			}
		})
	})
}
