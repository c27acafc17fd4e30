package control_test

import (
	"context"
	"fmt"
	"log"

	"oneeffect/emulator/control"
)

// A write is held before it is applied, waited for, and then lost. Nobody polls: what
// waits for the rule sees it reached whether that comes before or after.
func Example() {
	hub := control.New()
	defer hub.Close()

	if _, err := hub.Arm(control.Rule{When: "later", Do: "explode"}); err != nil {
		fmt.Println(err) // every mistake at once
	}
	name, err := hub.Arm(control.Rule{
		Match: control.Match{Service: "cosmos", Operation: "replace", Entity: "claims", Key: "82f3"},
		Do:    "hold",
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	decided := make(chan control.Decision)
	go func() { // what an emulator does with each operation
		decided <- hub.Before(ctx, control.Op{Service: "cosmos", Operation: "replace", Entity: "claims", Client: "worker-1", Key: "82f3"})
	}()

	if _, err := hub.WaitReached(ctx, name); err != nil {
		log.Fatal(err)
	}
	if err := hub.Release(name, control.Release{Action: "drop"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println((<-decided).Kind)
	for _, e := range hub.Events(0) {
		fmt.Println(e.Seq, e.Kind, e.Client)
	}
	// Output:
	// arm a rule: when "later": say "before" or "after"
	// do "explode": say "hold", "drop", "delay", "answer", "detach", "close", "reset", "lose-lock" or "silence"
	// drop
	// 1 rule-reached worker-1
	// 2 rule-released worker-1
}
