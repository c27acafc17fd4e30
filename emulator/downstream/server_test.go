package downstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"oneeffect/emulator/control"
)

func TestOneKeyHasOneEffect(t *testing.T) { // S1
	bubble(t, func(t *testing.T, w world) {
		first := w.mustSend("/customers", `{"name":"Ada","n":1.50}`, key)
		if first.status != 201 || first.header.Get("Location") != "/customers/1001" || first.body != "{\"id\":\"1001\"}\n" ||
			first.header.Get("Content-Type") != "application/json" ||
			first.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("first: %+v", first)
		}
		again := w.mustSend("/customers", ` { "n":1.50, "name":"Ada" } `, key)
		if again.status != 200 || again.header.Get("Location") != "/customers/1001" || again.body != first.body ||
			again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("again: %+v", again)
		}
		other := w.mustSend("/customers", `{"name":"Ada","n":1.50}`, "Idempotency-Key: 82f4")
		if other.status != 201 || other.header.Get("Location") != "/customers/1002" {
			t.Errorf("another key: %+v", other)
		}
		w.wantCounts(3, 2)
		if got := w.get("/customers/1001"); got.status != 200 || got.body != first.body {
			t.Errorf("the resource: %+v", got)
		}
		for _, path := range []string{"/customers/1003", "/customers/1000", "/customers/x", "/letters/1001"} {
			if got := w.get(path); got.status != 404 {
				t.Errorf("%s: %d, want 404", path, got.status)
			}
		}
	})
}

func TestConcurrentCallsWithOneKeyHaveOneEffect(t *testing.T) { // S1
	bubble(t, func(t *testing.T, w world) {
		const n = 64
		answers := make(chan answer, n)
		for range n {
			w.sendTo(answers, "/customers", `{"name":"Ada"}`, key)
		}
		count := make(map[int]int)
		for range n {
			count[(<-answers).status]++
		}
		if count[201] != 1 || count[201]+count[200]+count[409] != n {
			t.Errorf("answered %v, want one 201 and else 200 or 409", count)
		}
		w.wantCounts(n, 1)
	})
}

func TestAKeyIsRefusedWhileItsFirstCallIsRunningAndWithAnotherPayload(t *testing.T) { // S2
	bubble(t, func(t *testing.T, w world) {
		rule := w.arm(control.Rule{Match: control.Match{Service: "downstream", Operation: "call", Entity: "/customers", Key: "82f3"}, When: "after", Do: "hold", Nth: 1})
		first := make(chan answer, 1)
		w.sendTo(first, "/customers", `{"name":"Ada"}`, key)
		if _, err := w.hub.WaitReached(t.Context(), rule); err != nil {
			t.Fatal(err)
		}
		running := w.mustSend("/customers", `{"name":"Ada"}`, key)
		if running.status != 409 || running.header.Get("Content-Type") != "application/problem+json" ||
			!strings.Contains(running.body, "still running") {
			t.Errorf("while it runs: %+v", running)
		}
		if other := w.mustSend("/customers", `{"name":"Bob"}`, key); other.status != 422 {
			t.Errorf("another payload while it runs: %+v", other)
		}
		if ledger := w.s.LedgerOf("82f3"); !ledger.Entries[0].Running {
			t.Errorf("the ledger does not say that it runs: %+v", ledger)
		}
		w.release(rule, "go")
		if got := <-first; got.status != 201 {
			t.Errorf("released: %+v", got)
		}
		if got := w.mustSend("/customers", `{"name":"Ada"}`, key); got.status != 200 {
			t.Errorf("afterwards: %+v", got)
		}
		if got := w.mustSend("/customers", `{"name":"Bob"}`, key); got.status != 422 || !strings.Contains(got.body, "another payload") {
			t.Errorf("another payload afterwards: %+v", got)
		}
		w.wantCounts(5, 1)
	})
}

func TestABadRequestIsRefusedAndHasNoEffect(t *testing.T) { // S2, S4
	long := "Idempotency-Key: " + strings.Repeat("k", keyLimit+1)
	for _, test := range []struct {
		name, path, body string
		headers          []string
		status           int
		says             string
	}{
		{"no key", "/customers", `{}`, nil, 400, "Idempotency-Key"},
		{"a key that is too long", "/customers", `{}`, []string{long}, 400, "1 to 255"},
		{"a key with a blank", "/customers", `{}`, []string{"Idempotency-Key: a b"}, 400, "Idempotency-Key"},
		{"a key beyond ASCII", "/customers", `{}`, []string{"Idempotency-Key: schlüssel"}, 400, "Idempotency-Key"},
		{"no content type", "/customers", `{}`, []string{key, "Content-Type: "}, 415, "application/json"},
		{"another content type", "/letters", `{}`, []string{"Content-Type: text/plain"}, 415, "application/json"},
		{"too large", "/customers", `{"x":"` + strings.Repeat("x", bodyLimit) + `"}`, []string{key}, 413, "larger than 1048576"},
		{"no JSON", "/customers", `{"name":`, []string{key}, 400, "valid JSON"},
		{"nothing", "/customers", ``, []string{key}, 400, "valid JSON"},
		{"a repeated member", "/customers", `{"a":1,"a":2}`, []string{key}, 400, "distinct members"},
		{"trailing bytes", "/customers", `{} {}`, []string{key}, 400, "valid JSON"},
		{"not an object", "/letters", `[1]`, nil, 400, "JSON object"},
		{"null", "/letters", `null`, nil, 400, "JSON object"},
		{"a failure that is none", "/letters", `{"fail":200}`, nil, 400, "400 to 599"},
		{"a failure beyond all", "/letters", `{"fail":600}`, nil, 400, "400 to 599"},
		{"a failure in words", "/letters", `{"fail":"badly"}`, nil, 400, "400 to 599"},
		{"an unknown path", "/orders", `{}`, nil, 404, "POST /customers"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w world) {
				got := w.mustSend(test.path, test.body, test.headers...)
				if got.status != test.status || !strings.Contains(got.body, test.says) ||
					got.header.Get("Content-Type") != "application/problem+json" {
					t.Errorf("%+v, want %d with %q", got, test.status, test.says)
				}
				if w.s.Ledger().Effects != 0 {
					t.Error("it had an effect")
				}
			})
		})
	}
}

func TestTwoKeysInOneRequestAreRefused(t *testing.T) { // S2
	bubble(t, func(t *testing.T, w world) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://downstream/customers", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header["Idempotency-Key"] = []string{"a", "b"}
		if got, err := w.do(r); err != nil || got.status != 400 {
			t.Errorf("%+v (%v), want 400", got, err)
		}
	})
}

func TestEveryLetterIsOneMoreEffect(t *testing.T) { // S3, S4
	bubble(t, func(t *testing.T, w world) {
		for i := range 3 {
			got := w.mustSend("/letters", `{"to":"Ada"}`, key)
			if want := fmt.Sprintf("/letters/%d", 1001+i); got.status != 201 || got.header.Get("Location") != want {
				t.Errorf("%+v, want 201 with %s", got, want)
			}
		}
		if got := w.mustSend("/letters", `{"to":"Ada"}`); got.status != 201 {
			t.Errorf("without a key: %+v", got)
		}
		if got := w.mustSend("/letters", `{"to":"Ada","fail":500}`); got.status != 500 {
			t.Errorf("told to fail: %+v", got)
		}
		w.wantCounts(5, 4)
		if e := w.s.LedgerOf("82f3").Entries[0]; e.Effects != 3 || len(e.Resources) != 3 || e.Resource != "/letters/1003" {
			t.Errorf("under the key it ignored: %+v", e)
		}
	})
}

func TestARuleDecidesWhetherACallHasItsEffect(t *testing.T) { // S4
	for _, test := range []struct {
		name    string
		rule    control.Rule
		status  int // 0: the connection breaks
		effects int
		events  string
	}{
		{"dropped before apply", control.Rule{Do: "drop"}, 0, 0, "call rule-reached"},
		{"reset before apply", control.Rule{Do: "reset"}, 0, 0, "call rule-reached"},
		{"dropped after apply", control.Rule{Do: "drop", When: "after"}, 0, 1, "call effect rule-reached"},
		{"answered before apply", control.Rule{Do: "answer", Status: 503, RetryAfter: control.Duration(1500 * time.Millisecond)}, 503, 0, "call rule-reached reply"},
		{"answered after apply", control.Rule{Do: "answer", When: "after", Status: 500}, 500, 1, "call effect rule-reached reply"},
		{"answered with an AMQP condition only", control.Rule{Do: "answer", Condition: "amqp:internal-error"}, 500, 0, "call rule-reached reply"},
		{"delayed", control.Rule{Do: "delay", Delay: control.Duration(time.Second)}, 201, 1, "call rule-reached effect reply"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w world) {
				test.rule.Match = control.Match{Service: "downstream", Client: "worker-1", Body: map[string]any{"/name": "Ada"}}
				w.arm(test.rule)
				got, err := w.send(t.Context(), "/customers", `{"name":"Ada"}`, key)
				if test.status == 0 && !errors.Is(err, syscall.ECONNRESET) || got.status != test.status {
					t.Errorf("%+v (%v), want status %d", got, err, test.status)
				}
				if test.status == 503 && got.header.Get("Retry-After") != "2" {
					t.Errorf("Retry-After %q, want whole seconds, rounded up", got.header.Get("Retry-After"))
				}
				w.wantCounts(1, test.effects)
				var events []string
				for _, e := range w.hub.Events(0) {
					events = append(events, e.Kind)
				}
				if got := strings.Join(events, " "); got != test.events {
					t.Errorf("events %s, want %s", got, test.events)
				}
				if test.rule.When == "after" {
					if got := w.mustSend("/customers", `{"name":"Ada" }`, key, "User-Agent: worker-2"); got.status != 200 {
						t.Errorf("then: %+v, want the replay of what was applied", got)
					}
				}
			})
		})
	}
}

func TestACallHeldBeforeApplyHasNotArrived(t *testing.T) { // S4
	for _, test := range []struct {
		name          string
		late          bool
		calls, effect int
	}{
		{"its caller gone, it never arrives", false, 1, 0},
		{"late, it arrives after its caller has gone", true, 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w world) {
				rule := w.arm(control.Rule{Match: control.Match{Key: "82f3"}, Do: "hold", Late: test.late, Nth: 1})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := w.send(ctx, "/customers", `{"name":"Ada"}`, key); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v, want a deadline exceeded", err)
				}
				if err := w.hub.WaitPeerGone(t.Context(), rule); err != nil {
					t.Fatal(err)
				}
				w.wantCounts(1, 0)
				w.release(rule, "go")
				w.s.Transport().Wait()
				w.wantCounts(test.calls, test.effect)
				// Either way the next call with the key finds one effect, never two.
				w.mustSend("/customers", `{"name":"Ada"}`, key)
				w.wantCounts(2, 1)
			})
		})
	}
}

func TestWithTheSwitchOffKeysAreForgotten(t *testing.T) { // S6
	bubble(t, func(t *testing.T, w world) {
		if err := w.hub.Switch("downstream.idempotency", true); err != nil {
			t.Fatal(err)
		}
		for want := range 2 {
			got := w.mustSend("/customers", `{"name":"Ada"}`, key)
			if location := fmt.Sprintf("/customers/%d", 1001+want); got.status != 201 || got.header.Get("Location") != location {
				t.Errorf("%+v, want 201 with %s", got, location)
			}
		}
		if e := w.s.LedgerOf("82f3").Entries[0]; e.Calls != 2 || e.Effects != 2 || len(e.Resources) != 2 {
			t.Errorf("the ledger says %+v, want two effects under one key", e)
		}
	})
}

func TestNothingOfAnIsolatedClientGetsThrough(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.hub.Isolate("worker-1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if _, err := w.send(ctx, "/customers", `{}`, key); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("%v after %v, want silence until the caller gives up", err, time.Since(start))
		}
		w.wantCounts(0, 0)
		if got := w.mustSend("/customers", `{}`, key, "User-Agent: worker-2"); got.status != 201 {
			t.Errorf("another client: %+v", got)
		}
	})
}

func TestASilentRuleNeverAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.arm(control.Rule{Do: "silence"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.send(ctx, "/letters", `{}`); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want a deadline exceeded", err)
		}
		w.wantCounts(1, 0)
	})
}

func TestEventsAndLedgerTellTheSameStory(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		w.mustSend("/customers", `{"name":"Ada"}`, key, "Traceparent: "+trace)
		w.mustSend("/customers", `{"name":"Ada"}`, key, "User-Agent: worker-2")

		events := w.hub.Events(0)
		if len(events) != 5 {
			t.Fatalf("%d events, want call, effect, reply, call, reply", len(events))
		}
		effect, call, reply := events[1], events[3], events[4]
		if effect.Kind != "effect" || effect.Key != "82f3" || effect.Client != "worker-1" || effect.Effects != 1 || effect.Resource != "/customers/1001" || effect.Traceparent != trace {
			t.Errorf("done as %+v", effect)
		}
		if call.Kind != "call" || call.Service != "downstream" || call.Entity != "/customers" || call.Client != "worker-2" ||
			call.Key != "82f3" || call.Method != "POST" || call.Path != "/customers" || call.Operation != "call" {
			t.Errorf("arrived as %+v", call)
		}
		if reply.Kind != "reply" || reply.Status != 200 || reply.Effects != 1 || !reply.Replayed || reply.Resource != "/customers/1001" {
			t.Errorf("replied as %+v", reply)
		}

		for _, path := range []string{"/ledger", "/ledger/82f3"} {
			var ledger Summary
			if err := json.Unmarshal([]byte(w.get(path).body), &ledger); err != nil {
				t.Fatal(err)
			}
			if ledger.Calls != 2 || ledger.Effects != 1 || len(ledger.Entries) != 1 {
				t.Fatalf("%s: %+v", path, ledger)
			}
			e := ledger.Entries[0]
			if e.Traceparent != trace || e.Resource != "/customers/1001" || len(e.Replies) != 2 || e.Replies[0].Status != 201 ||
				e.Replies[0].Client != "worker-1" || e.Replies[0].Traceparent != trace || !e.Replies[1].Replayed {
				t.Errorf("%s: %+v", path, e)
			}
		}
		if got := w.get("/ledger/unknown"); got.status != 404 || !strings.Contains(got.body, "no call has come") {
			t.Errorf("an unknown key: %+v", got)
		}
		if got := w.get("/healthz"); got.status != 200 {
			t.Errorf("health: %+v", got)
		}
	})
}

func TestTheLedgerKeepsTheNewestRepliesAndAllCounts(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		const n = repliesKept + 5
		for range n {
			w.mustSend("/letters", `{}`)
		}
		e := w.s.Ledger().Entries[0]
		if e.Calls != n || e.Effects != n || len(e.Replies) != repliesKept || e.Replies[repliesKept-1].Resource != e.Resource {
			t.Errorf("%d calls, %d effects, %d replies", e.Calls, e.Effects, len(e.Replies))
		}
	})
}

func TestAFullLedgerRefusesNewKeysAndKeepsTheOldOnes(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.mustSend("/customers", `{}`, key)
		for i := range entriesKept - 1 {
			w.s.ledger.arrive(call{path: "/customers", key: fmt.Sprint(i)})
		}
		if got := w.mustSend("/customers", `{}`, "Idempotency-Key: new"); got.status != 503 || !strings.Contains(got.body, "full") {
			t.Errorf("a new key: %+v", got)
		}
		if got := w.mustSend("/customers", `{}`, key); got.status != 200 {
			t.Errorf("an old key: %+v", got)
		}
	})
}
