package claim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// register watches what several workers do with one claim.
type register struct {
	t   *testing.T
	hub *control.Hub
	mu  sync.Mutex // guards the rest

	working   string           // whoever works under a lease that it trusts
	fences    map[int64]string // every grant that somebody was told of
	completed int
}

// begins is called by an owner before it works.
func (r *register) begins(worker string, fence int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.working != "" {
		r.t.Errorf("C5: %s begins while %s still trusts its lease", worker, r.working)
	}
	if other, taken := r.fences[fence]; taken {
		r.t.Errorf("C3: fence %d was granted to %s and to %s", fence, other, worker)
	}
	if r.completed > 0 {
		r.t.Errorf("C2: %s is granted a completed claim", worker)
	}
	r.working, r.fences[fence] = worker, worker
}

// ends is called by an owner that works no more, before anyone else may know.
func (r *register) ends(worker string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.working == worker {
		r.working = ""
	}
}

func (r *register) completes() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.completed++
}

// TestNoFaultGivesAClaimTwoOwners lets workers want one claim while answers are
// lost, requests are cut off, delayed, and land when nobody waits for them any
// more. A seed fixes the faults, not the order in which the workers run.
func TestNoFaultGivesAClaimTwoOwners(t *testing.T) { // C1, C2, C3, C5, C9
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.arm(control.Rule{Do: "delay", Delay: control.Duration(12 * time.Second), Late: true, Probability: 0.15, Seed: seed})
				w.arm(control.Rule{Do: "drop", Probability: 0.15, Seed: seed + 1000})
				w.arm(control.Rule{Do: "answer", Status: 429, Probability: 0.05, Seed: seed + 2000})
				w.arm(control.Rule{Do: "drop", When: "after", Probability: 0.15, Seed: seed + 3000})
				r := &register{t: t, hub: w.hub, fences: map[int64]string{}}
				var all sync.WaitGroup
				for i := range 4 {
					name := fmt.Sprintf("worker-%d", i)
					d := w.desk(name)
					d.MaxAttempts = 1000 // neither starts nor time shall end it
					random := rand.New(rand.NewPCG(seed, uint64(i)))
					all.Go(func() { r.worker(t.Context(), d, name, random) })
				}
				all.Wait()
				for _, rule := range w.hub.Rules() {
					w.disarm(rule.Rule.Name)
				}
				if c := w.stands().Claim; c.Status != claim.Completed || r.completed > 1 {
					t.Errorf("completed %d times, and %+v stands", r.completed, c)
				}
			})
		})
	}
}

// worker wants the claim until it is completed.
func (r *register) worker(ctx context.Context, d *claim.Desk, name string, random *rand.Rand) {
	for range 4000 {
		lease, v, err := d.Take(ctx, task(again, func(a *claim.Ask) { a.KeyWindow = 10_000 * time.Hour }))
		switch {
		case err != nil:
			time.Sleep(10 * time.Second)
		case v.Kind == claim.Done:
			return
		case v.Kind == claim.Busy:
			time.Sleep(min(v.Wait, time.Duration(random.Int64N(int64(20*time.Second))))) // impatient: it may not be granted before its time
		case v.Kind == claim.Granted:
			r.work(ctx, lease, name, random)
		default:
			r.t.Errorf("%s: %s %+v", name, v.Kind, v.Claim)
			return
		}
	}
	r.t.Errorf("%s has not seen the end", name)
}

// work is one grant: some time under a trusted lease, and one of its ends.
func (r *register) work(ctx context.Context, lease *claim.Lease, name string, random *rand.Rand) {
	defer lease.Close()
	r.begins(name, lease.Claim().Fence)
	end := random.IntN(4)
	if end == 0 { // as good as dead, and at work for as long as it trusts its lease
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Minute))))
		r.hub.Isolate(name)
		<-lease.Context().Done()
		r.ends(name)
		time.Sleep(time.Duration(random.Int64N(int64(time.Minute))))
		r.hub.Rejoin(name)
	} else {
		select {
		case <-time.After(time.Duration(random.Int64N(int64(12 * time.Minute)))):
		case <-lease.Context().Done():
		}
		r.ends(name)
	}
	if end < 3 {
		if err := lease.Release(ctx, time.Time{}, false); err != nil && !errors.Is(err, claim.ErrLost) && !errors.Is(err, context.DeadlineExceeded) {
			r.t.Errorf("%s releases: %v", name, err)
		}
		return
	}
	_, err := lease.Complete(ctx, claim.Result{Ref: name})
	switch {
	case err == nil:
		r.completes()
	case !errors.Is(err, claim.ErrLost) && !errors.Is(err, message.ErrUnknown):
		r.t.Errorf("%s completes: %v", name, err)
	}
}
