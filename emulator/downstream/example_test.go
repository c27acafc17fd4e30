package downstream_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"

	"oneeffect/emulator/control"
	"oneeffect/emulator/downstream"
)

// The first call has its effect and its answer is lost. The second one, under the
// same key, has none: the ledger counts two calls and one customer.
func Example() {
	hub := control.New()
	server := downstream.New(hub)
	defer server.Close()
	defer hub.Close()                                     // first: it lets go of whatever a rule still holds
	client := &http.Client{Transport: server.Transport()} // no socket

	_, err := hub.Arm(control.Rule{
		Match: control.Match{Service: "downstream", Operation: "call", Entity: "/customers"},
		When:  "after", Do: "drop", Nth: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://crm/customers", strings.NewReader(`{"name":"Ada"}`))
		if err != nil {
			log.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "82f3")
		answer, err := client.Do(r)
		if err != nil {
			fmt.Println("no answer")
			continue
		}
		fmt.Println(answer.StatusCode, answer.Header.Get("Location"), answer.Header.Get("Idempotent-Replayed"))
		answer.Body.Close()
	}
	ledger := server.LedgerOf("82f3")
	fmt.Println(ledger.Calls, "calls,", ledger.Effects, "effect")
	// Output:
	// no answer
	// 200 /customers/1001 true
	// 2 calls, 1 effect
}
