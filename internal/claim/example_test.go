package claim_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
)

// A worker is granted a task and dies. Its redelivery finds the lease standing,
// and later stale; whoever comes after the completion is told the result.
func ExampleTake() {
	terms := claim.Terms{Lease: 5 * time.Minute, ChallengerMargin: 5 * time.Second, MaxAttempts: 8, Keep: 30 * 24 * time.Hour}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ask := claim.Ask{
		ID: "82f3", TaskType: "customer.create", Fingerprint: "sha256:…", Run: 1, Keyed: true, KeyWindow: 24 * time.Hour,
		NotAfter: now.Add(21 * 24 * time.Hour), Now: func() time.Time { return now },
	}

	stands, v, _ := claim.Take(nil, 0, ask, "worker-1", terms)
	fmt.Println(v.Kind, stands.Owner, stands.Fence)

	_, v, _ = claim.Take(&stands, 2*time.Minute, ask, "worker-2", terms)
	fmt.Println(v.Kind, v.Wait)

	stands, v, _ = claim.Take(&stands, 6*time.Minute, ask, "worker-2", terms)
	fmt.Println(v.Kind, stands.Owner, stands.Fence)

	stands.Status, stands.Result = claim.Completed, &claim.Result{Ref: "/customers/7"}
	_, v, _ = claim.Take(&stands, time.Hour, ask, "worker-3", terms)
	fmt.Println(v.Kind, v.Claim.Result.Ref)
	// Output:
	// granted worker-1 1
	// busy 3m6s
	// granted worker-2 2
	// done /customers/7
}

// What is asked for is the same however it is written, and another thing is another.
func ExampleFingerprint() {
	for _, payload := range []string{`{"name":"Ada","n":1.50}`, `{ "n": 1.5, "name": "Ada" }`, `{"name":"Bob","n":1.5}`} {
		f, err := claim.Fingerprint("customer.create", []byte(payload))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(f[:15])
	}
	_, err := claim.Fingerprint("customer.create", []byte(`{"n":1,"n":2}`))
	fmt.Println(errors.Is(err, message.ErrPoison))
	// Output:
	// sha256:7bbeb766
	// sha256:7bbeb766
	// sha256:5525211f
	// true
}

// Two processes, one store. The first does the task and is gone before it could say
// so; the second is told the result, and does nothing.
func ExampleDesk() {
	hub := control.New()
	server := emulator.New(hub, emulator.Options{})
	defer server.Close()
	defer hub.Close()
	ctx := context.Background()
	process := func(name string) (*claim.Desk, func()) {
		db, err := cosmos.Open(cosmos.Options{Endpoint: "http://claims.example:8081/", Key: emulator.EmulatorKey, ApplicationID: name, Transport: server.Transport()})
		if err != nil {
			log.Fatal(err)
		}
		if err := db.Setup(ctx); err != nil {
			log.Fatal(err)
		}
		return &claim.Desk{
			Store: db.Claims(), Process: name + "/" + claim.Nonce(), Timeout: 10 * time.Second,
			Terms: claim.Terms{Lease: 5 * time.Minute, OwnerMargin: 10 * time.Second, ChallengerMargin: 5 * time.Second, MaxAttempts: 8, Keep: 30 * 24 * time.Hour},
		}, db.Close
	}
	ask := claim.Ask{
		ID: "82f3", TaskType: "customer.create", Fingerprint: "sha256:…", Run: 1, Keyed: true, KeyWindow: 24 * time.Hour,
		NotAfter: time.Now().Add(21 * 24 * time.Hour), Now: time.Now,
	}

	first, end := process("worker-1")
	defer end()
	lease, v, err := first.Take(ctx, ask)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("worker-1:", v.Kind, "fence", v.Claim.Fence)
	result, err := claim.NewResult("/customers/7", nil, "")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := lease.Complete(ctx, result); err != nil {
		log.Fatal(err)
	}
	lease.Close()

	second, end := process("worker-2")
	defer end()
	_, v, err = second.Take(ctx, ask)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("worker-2:", v.Kind, v.Claim.Result.Ref)
	// Output:
	// worker-1: granted fence 1
	// worker-2: done /customers/7
}
