package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oneeffect/internal/message"
)

// Look is what the orchestrator knows of an execution when it looks at its claim:
// because a dead letter of its task was seen, or because it has been running for
// long.
type Look struct {
	ID          string
	TaskType    string // of the execution, never of a dead letter
	Fingerprint string
	Run         int
	NotAfter    time.Time
	DeadLetter  string    // the broker's or the worker's reason; empty: the execution is only old
	Now         time.Time // by the store's clock
}

// Found is what an examination comes to.
type Found int

// The findings. Its zero is none of them.
const (
	_            Found = iota
	FoundDone          // COMPLETED: the execution is to be completed from it
	FoundOver          // FAILED of this run: the execution is to be failed from it
	FoundAlive         // somebody works on it, or will when its time has come: leave it
	FoundNobody        // nobody does: the task is to be sent again
	FoundNothing       // it was cancelled: there is nothing to do
)

func (f Found) String() string {
	return [...]string{"undecided", "done", "over", "alive", "nobody", "nothing"}[f]
}

// Examine decides from what stands (nil: nothing) and its age what becomes of an
// execution (E4, E5 of package execution). next is to be written, under the
// condition that what stands has not changed, exactly when write is true; the
// finding holds only once it is. A claim that is written here belongs to no worker
// any more: the fence is larger than every grant's.
func Examine(stands *Claim, age time.Duration, l Look, owner string, t Terms) (next Claim, f Found, write bool) {
	if stands != nil {
		switch old := *stands; {
		case old.Status == Completed:
			return old, FoundDone, false
		case old.Status == Cancelled:
			return old, FoundNothing, false
		case old.Status == Failed && old.Run >= l.Run:
			return old, FoundOver, false
		case old.Status == InProgress && !old.Released && age <= old.lease()+t.ChallengerMargin,
			old.Status == InProgress && old.Released && l.Now.Before(old.NotBefore):
			return old, FoundAlive, false
		}
	}
	failure, ends := ending(stands, l)
	if !ends {
		if stands == nil {
			return Claim{}, FoundNobody, false
		}
		return *stands, FoundNobody, false
	}
	if stands == nil {
		next = Claim{
			ID: l.ID, Fence: 1, TaskType: l.TaskType, Fingerprint: l.Fingerprint, LeaseSeconds: t.leaseSeconds(),
			FirstCallAt: l.Now, Version: 1,
		}
		next.began(Attempt{Fence: next.Fence, Owner: next.Owner, At: l.Now})
	} else {
		next = *stands
		next.Fence++
	}
	next.ended(EndFailed + failure.Reason)
	next.Status, next.Run, next.Failure, next.Owner = Failed, l.Run, failure, owner
	next.Released, next.NotBefore, next.TTL = false, time.Time{}, t.ttl()
	return next, FoundOver, true
}

// ending says why a claim that nobody holds ends here, if it does.
func ending(stands *Claim, l Look) (*Failure, bool) {
	effect := EffectNone
	if stands != nil {
		effect = stands.effect()
	}
	switch {
	case stands != nil && stands.Status == InProgress && !stands.Keyed && stands.CallStarted:
		return &Failure{OutcomeUnknown, "a call without a key was started and its outcome is not known", EffectUnknown}, true
	case l.DeadLetter != "":
		return &Failure{l.DeadLetter, "the task was dead-lettered and nobody works on it", effect}, true
	case l.Now.After(l.NotAfter):
		return &Failure{TooOld, "past notAfter", effect}, true
	}
	return nil, false
}

// Withdraw decides whether a cancelled execution's claim can be cancelled too (E8):
// one that nobody holds, and under which no call can have been made. Of a keyed one
// that is never sure.
func Withdraw(stands *Claim, age time.Duration, l Look, owner string, t Terms) (next Claim, write bool) {
	if stands == nil {
		next = Claim{
			ID: l.ID, Status: Cancelled, Run: l.Run, Fence: 1, Owner: owner, TaskType: l.TaskType, Fingerprint: l.Fingerprint,
			LeaseSeconds: t.leaseSeconds(), FirstCallAt: l.Now, TTL: t.ttl(), Version: 1,
		}
		next.began(Attempt{Fence: next.Fence, Owner: next.Owner, At: l.Now})
		next.ended(EndCancelled)
		return next, true
	}
	old := *stands
	free := old.Released || age > old.lease()+t.ChallengerMargin
	if old.Status != InProgress || !free || old.Keyed || old.CallStarted || old.KeylessStep != "" {
		return old, false
	}
	next = old
	next.ended(EndCancelled)
	next.Status, next.Fence, next.Owner, next.TTL = Cancelled, old.Fence+1, owner, t.ttl()
	next.Released, next.NotBefore = false, time.Time{}
	return next, true
}

// ErrNotFailed: what is to be resolved is not a failure of that run.
var ErrNotFailed = fmt.Errorf("%w: only a failed claim can be resolved", message.ErrRefused)

// Resolve decides whether a failed claim can be closed as applied (E7): an operator
// has looked, and the effect is there.
func Resolve(stands Claim, run int, r Result, owner string, t Terms) (next Claim, write bool, err error) {
	switch {
	case stands.Status == Completed:
		return stands, false, nil // it is, already
	case stands.Status != Failed || stands.Run != run:
		return stands, false, fmt.Errorf("resolve claim %s: %w: it is %s of run %d, want FAILED of run %d", stands.ID, ErrNotFailed, stands.Status, stands.Run, run)
	}
	next = stands
	next.Status, next.Result, next.Failure = Completed, &r, nil
	next.Fence, next.Owner, next.TTL = stands.Fence+1, owner, t.ttl()
	next.Attempts = append(next.Attempts[:len(next.Attempts):len(next.Attempts)], Attempt{Fence: next.Fence, Owner: owner, End: EndResolved})
	return next, true, nil
}

// Read looks at a claim and changes nothing; nil is none.
func (d *Desk) Read(ctx context.Context, id string) (*Claim, error) {
	s, err := d.peek(ctx, d.Store.Record(id))
	if err != nil {
		return nil, fmt.Errorf("read claim %s: %w", id, err)
	}
	if s == nil {
		return nil, nil
	}
	return &s.Claim, nil
}

// Examine looks at a claim and carries out what is decided.
func (d *Desk) Examine(ctx context.Context, l Look) (Found, Claim, error) {
	var found Found
	stands, err := d.overrule(ctx, l.ID, func(stands *Claim, age time.Duration, owner string) (next Claim, write bool, err error) {
		next, found, write = Examine(stands, age, l, owner, d.Terms)
		return next, write, nil
	})
	if err != nil {
		return 0, Claim{}, fmt.Errorf("examine claim %s: %w", l.ID, err)
	}
	return found, stands, nil
}

// Withdraw cancels a claim if that is safe, and says whether it stands cancelled.
func (d *Desk) Withdraw(ctx context.Context, l Look) (bool, error) {
	stands, err := d.overrule(ctx, l.ID, func(stands *Claim, age time.Duration, owner string) (Claim, bool, error) {
		next, write := Withdraw(stands, age, l, owner, d.Terms)
		return next, write, nil
	})
	if err != nil {
		return false, fmt.Errorf("cancel claim %s: %w", l.ID, err)
	}
	return stands.Status == Cancelled, nil
}

// Resolve closes a failed claim of a run as applied.
func (d *Desk) Resolve(ctx context.Context, id string, run int, r Result) (Claim, error) {
	return d.overrule(ctx, id, func(stands *Claim, _ time.Duration, owner string) (Claim, bool, error) {
		if stands == nil {
			return Claim{}, false, fmt.Errorf("resolve claim %s: %w: there is none", id, ErrNotFailed)
		}
		return Resolve(*stands, run, r, owner, d.Terms)
	})
}

// overrule reads, decides and writes on the condition, until one decision holds.
// No nonce is needed: whatever a lost answer hides, the next look decides it anew,
// and every decision here leaves what the next look leaves alone.
func (d *Desk) overrule(ctx context.Context, id string, decide func(stands *Claim, age time.Duration, owner string) (Claim, bool, error)) (Claim, error) {
	record, owner := d.Store.Record(id), d.Process+"/"+Nonce()
	var last error
	for round := range maxRounds {
		if last != nil {
			if err := pause(ctx, round); err != nil {
				return Claim{}, errors.Join(last, err)
			}
		}
		stands, err := d.peek(ctx, record)
		if err == nil && stands == nil && errors.Is(last, message.ErrExists) {
			err = message.ErrTransient // a create has just found one: it is a replica that lags
		}
		if errors.Is(err, message.ErrRefused) {
			return Claim{}, err
		}
		if last = err; err != nil {
			continue
		}
		var old *Claim
		var age time.Duration
		if stands != nil {
			old, age = &stands.Claim, stands.Age
		}
		next, write, err := decide(old, age, owner)
		if err != nil || !write {
			return next, err
		}
		next.W = Nonce()
		last = d.put(ctx, record, stands, next)
		if last == nil || errors.Is(last, message.ErrRefused) {
			return next, last
		}
	}
	return Claim{}, fmt.Errorf("no decision in %d rounds: %w", maxRounds, last)
}

// peek reads a record; nil is none.
func (d *Desk) peek(ctx context.Context, record Record) (*Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	s, err := record.Read(ctx)
	switch {
	case errors.Is(err, message.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &s, s.Claim.check()
}

func (d *Desk) put(ctx context.Context, record Record, stands *Stored, next Claim) error {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	if stands == nil {
		_, err := record.Create(ctx, next)
		return err
	}
	_, err := record.Replace(ctx, next, stands.ETag)
	return err
}
