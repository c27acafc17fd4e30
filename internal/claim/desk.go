package claim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"oneeffect/internal/message"
)

// Desk hands out claims for one process.
type Desk struct {
	Store   Store
	Process string        // pod / process nonce: the first two parts of every owner
	Timeout time.Duration // bound of one operation of the store, its retries included (T_w)
	Renewal time.Duration // how often a lease is renewed; a third of the lease if zero
	Clock   Clock         // nil: this machine's
	Terms
	// Fenced is told, if set, of every write of ours that found a newer grant (C4).
	Fenced func(ctx context.Context, id string)
	// Renewed is told, if set, of every renewal that a lease has made by itself, or not.
	Renewed func(ctx context.Context, err error)

	mu      sync.Mutex
	running map[string]bool // ids that this process works on
}

// maxRounds bounds one Take: lost races and lost answers together.
const maxRounds = 8

// Take asks for the work. Only a Granted verdict comes with a Lease, which the
// caller closes. An error says that no verdict was reached, and nothing is held:
// what may still be applied later is a lease that ends by itself.
func (d *Desk) Take(ctx context.Context, ask Ask) (*Lease, Verdict, error) {
	if !d.enter(ask.ID) {
		// Another delivery of the same task in this very process. Its lease is the
		// process's own, so nothing is read, nothing is risked.
		return nil, Verdict{Kind: Busy, Wait: d.Lease + d.ChallengerMargin}, nil
	}
	t := taking{
		desk: d, ask: ask, owner: d.Process + "/" + Nonce(), record: d.Store.Record(ask.ID),
		read: ask.ReadFirst || ask.Now().After(ask.NotAfter), // a create must not outlive notAfter
	}
	verdict, err := t.run(ctx)
	if err != nil || verdict.Kind != Granted {
		d.leave(ask.ID)
		return nil, verdict, err
	}
	return newLease(ctx, t), verdict, nil
}

func (d *Desk) enter(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running[id] {
		return false
	}
	if d.running == nil {
		d.running = map[string]bool{}
	}
	d.running[id] = true
	return true
}

func (d *Desk) leave(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.running, id)
}

// taking is one Take: read, decide, write on the condition, until one verdict holds.
type taking struct {
	desk   *Desk
	ask    Ask
	owner  string // new for this Take: a claim under it can only be ours (C9)
	record Record

	read   bool    // look before the next write
	stands *Stored // what was read last; nil: nothing
	sent   Reading // before the first write under owner: trust counts from here (C5)
	tried  ETag    // the version that a write of ours found changed
	held   Claim   // the granted record …
	etag   ETag    // … and its version
}

func (t *taking) run(ctx context.Context) (Verdict, error) {
	var last error
	for round := range maxRounds {
		if last != nil {
			if err := pause(ctx, round); err != nil {
				return Verdict{}, fmt.Errorf("take %s: %w", t.ask.ID, errors.Join(last, err))
			}
		}
		if t.read {
			if last = t.look(ctx, errors.Is(last, message.ErrExists)); last != nil {
				if errors.Is(last, message.ErrRefused) {
					return Verdict{}, fmt.Errorf("read claim %s: %w", t.ask.ID, last)
				}
				continue
			}
		}
		if s := t.stands; s != nil && TakenBy(s.Claim, t.owner) {
			t.held, t.etag = s.Claim, s.ETag
			return Verdict{Kind: Granted, Claim: s.Claim}, nil // our own write, whose answer was lost
		}
		next, verdict, write := t.decide()
		if !write {
			return verdict, nil
		}
		if t.stands != nil && t.stands.ETag == t.tried {
			// The version that was just refused as changed: a lagging replica. What it
			// hides is somebody's write, so the claim is busy; asking on would only spin.
			return Verdict{Kind: Busy, Wait: grain, Claim: t.stands.Claim}, nil
		}
		if last = t.write(ctx, next); last == nil {
			return verdict, nil
		}
		if errors.Is(last, message.ErrRefused) {
			return Verdict{}, fmt.Errorf("write claim %s: %w", t.ask.ID, last)
		}
		t.read = true
	}
	return Verdict{}, fmt.Errorf("take %s: no verdict in %d rounds: %w", t.ask.ID, maxRounds, last)
}

func (t *taking) decide() (Claim, Verdict, bool) {
	if t.stands == nil {
		return Take(nil, 0, t.ask, t.owner, t.desk.Terms)
	}
	return Take(&t.stands.Claim, t.stands.Age, t.ask, t.owner, t.desk.Terms)
}

// look reads the record. After a create that found one, "not found" is a replica
// that lags, not a record that is gone.
func (t *taking) look(ctx context.Context, mustExist bool) error {
	ctx, cancel := context.WithTimeout(ctx, t.desk.Timeout)
	defer cancel()
	s, err := t.record.Read(ctx)
	switch {
	case err == nil:
		t.stands = &s
		return s.Claim.check()
	case errors.Is(err, message.ErrNotFound) && !mustExist:
		t.stands = nil
		return nil
	case errors.Is(err, message.ErrNotFound):
		return fmt.Errorf("%w: %w", message.ErrExists, err)
	}
	return err
}

func (t *taking) write(ctx context.Context, next Claim) error {
	ctx, cancel := context.WithTimeout(ctx, t.desk.Timeout)
	defer cancel()
	next.W = Nonce()
	if t.sent.Wall.IsZero() {
		t.sent = t.desk.read()
	}
	var etag ETag
	var err error
	if t.stands == nil {
		etag, err = t.record.Create(ctx, next)
	} else {
		etag, err = t.record.Replace(ctx, next, t.stands.ETag)
		if errors.Is(err, message.ErrConflict) {
			t.tried = t.stands.ETag
		}
	}
	if err != nil {
		return err
	}
	t.held, t.etag = next, etag
	return nil
}

// pause waits a jittered moment before the next round: 50 ms, doubling, at most 1.6 s.
func pause(ctx context.Context, round int) error {
	step := 50 * time.Millisecond << min(max(round-1, 0), 5)
	return message.Pause(ctx, step/2+rand.N(step/2))
}
