package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"oneeffect/internal/message"
)

// What a lease's context ends with, and what its writes return.
var (
	// ErrLost: the lease may have ended, so nothing outside may be touched any more.
	ErrLost = errors.New("lease lost")
	// ErrFenced: a newer grant, or the orchestrator, has written meanwhile.
	ErrFenced = fmt.Errorf("fenced: %w", ErrLost)
)

// Lease is a granted claim. Its writes take turns, so that none overtakes another:
// renewals by themselves, everything else when asked.
type Lease struct {
	desk   *Desk
	record Record
	owner  string
	fence  int64

	ctx  context.Context // ends with cause ErrLost
	lose context.CancelCauseFunc

	turn   chan struct{} // holds a token while nobody writes; whoever has it writes; Close keeps it
	ending chan struct{} // closed by Close
	closed sync.Once

	mu      sync.Mutex
	claim   Claim       // as last written or read by us; written in turn only
	etag    ETag        // of that version; used in turn only
	asked   Reading     // before the request of the last applied write was sent
	alarm   *time.Timer // looks whether the lease can still be trusted
	renewal *time.Timer // set in turn only

	calling bool // a keyless call was licensed by CallStarting and not withdrawn
}

// newLease keeps what ctx carries, so that renewals belong to its trace, but not its end.
func newLease(ctx context.Context, t taking) *Lease {
	l := &Lease{
		desk: t.desk, record: t.record, owner: t.owner, fence: t.held.Fence,
		turn: make(chan struct{}, 1), ending: make(chan struct{}),
		claim: t.held, etag: t.etag, asked: t.sent,
	}
	l.ctx, l.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	next := l.nextLook(l.Left())
	l.mu.Lock()
	l.alarm = time.AfterFunc(next, l.expire)
	l.mu.Unlock()
	l.renewal = time.AfterFunc(l.period(), l.renew)
	l.turn <- struct{}{}
	return l
}

// period is how often a lease is renewed.
func (l *Lease) period() time.Duration { return cmp.Or(l.desk.Renewal, l.desk.Lease/3) }

// Context ends with cause ErrLost when the lease can no longer be trusted, and
// when it is closed.
func (l *Lease) Context() context.Context { return l.ctx }

// Claim is the record as this owner last saw it.
func (l *Lease) Claim() Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claim
}

// Left is how long the lease can still be trusted: the lease less the owner's
// margin, counted from before the request was sent, and nothing once its context
// has ended.
func (l *Lease) Left() time.Duration {
	if l.ctx.Err() != nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.desk.Lease - l.desk.OwnerMargin - l.elapsed(l.asked)
}

func (l *Lease) elapsed(since Reading) time.Duration { return l.desk.read().since(since) }

// nextLook is when the alarm looks again. Timers stand still while a machine
// sleeps, so it does not rely on one for the whole of what is left: after a sleep,
// and after a jump of the wall clock, the loss is found within half a margin.
func (l *Lease) nextLook(left time.Duration) time.Duration {
	return min(left, max(l.desk.OwnerMargin/2, time.Second))
}

// expire is the alarm: it looks again, since a renewal may just have succeeded.
func (l *Lease) expire() {
	left := l.Left()
	if left <= 0 {
		l.lose(ErrLost)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() == nil {
		l.alarm.Reset(l.nextLook(left))
	}
}

// Close stops the renewals and waits for the write in flight. It writes nothing: a
// lease that was not completed, failed or released ends by itself.
func (l *Lease) Close() {
	l.closed.Do(func() {
		close(l.ending)
		l.lose(ErrLost) // and with it a renewal in flight
		<-l.turn
		l.alarm.Stop()
		l.renewal.Stop()
		l.desk.leave(l.claim.ID)
	})
}

// Ensure returns when the lease can be trusted for at least need, renewing it if
// it must.
func (l *Lease) Ensure(ctx context.Context, need time.Duration) error {
	if l.ctx.Err() == nil && l.Left() >= need {
		return nil
	}
	if err := l.trusted(ctx, func(*Claim) {}); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	if left := l.Left(); left < need {
		return fmt.Errorf("%w: %v left, %v needed", ErrLost, left, need)
	}
	return nil
}

// CallStarting records that a keyless call is about to be made. Only after nil
// may it be made: the write was applied, and by this owner.
func (l *Lease) CallStarting(ctx context.Context) error {
	if err := l.trusted(ctx, Starting); err != nil {
		return fmt.Errorf("record that the call starts: %w", err)
	}
	l.license(true)
	return nil
}

// CallWithdrawn takes CallStarting back: the call was never made. If the answer is
// lost, Release writes the same.
func (l *Lease) CallWithdrawn(ctx context.Context) error {
	l.license(false)
	if err := l.write(ctx, NotStarting); err != nil {
		return fmt.Errorf("record that no call was made: %w", err)
	}
	return nil
}

func (l *Lease) license(calling bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calling = calling
}

// StepDone keeps the result of a step, so that it is not made again, whoever goes
// on. Until this is proved, a keyless step counts as a call that may have been
// made.
func (l *Lease) StepDone(ctx context.Context, step string, r message.StepResult) error {
	if err := l.write(ctx, Keeping(step, r)); err != nil {
		return fmt.Errorf("keep the result of step %s: %w", step, err)
	}
	l.license(false)
	return nil
}

// Complete stores the result. It may be asked even when the lease is no longer
// trusted: if anyone took over, the write fails.
func (l *Lease) Complete(ctx context.Context, r Result) (Verdict, error) {
	if err := l.write(ctx, Completing(r)); err != nil {
		return Verdict{}, fmt.Errorf("complete: %w", err)
	}
	return Verdict{Kind: Done, Claim: l.Claim()}, nil
}

// Fail ends the run without a result.
func (l *Lease) Fail(ctx context.Context, f Failure) (Verdict, error) {
	if err := l.write(ctx, Failing(f)); err != nil {
		return Verdict{}, fmt.Errorf("fail: %w", err)
	}
	return Verdict{Kind: Over, Claim: l.Claim()}, nil
}

// Release gives the work back before the lease ends, after the handler has
// returned. notBefore is broker time, zero for at once. The start is given back,
// since its owner survived it (C8); counted says that a call ended unknown and
// was not free. A claim whose keyless call may have been made is not released.
// What decides that is what this owner was told, and not the record: there
// CallStarted may stand by a write that was never proved to the caller, and that a
// renewal has found since.
func (l *Lease) Release(ctx context.Context, notBefore time.Time, counted bool) error {
	l.mu.Lock()
	calling := l.calling
	l.mu.Unlock()
	if calling {
		return fmt.Errorf("release: %w: a keyless call may have been made", message.ErrRefused)
	}
	if err := l.write(ctx, Releasing(notBefore, counted)); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// trusted makes a write that is worth making only while the lease stands. Trust
// that has ended is never regained: its end was told to whoever does the work.
func (l *Lease) trusted(ctx context.Context, change func(*Claim)) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()
	return l.write(ctx, change)
}

// write makes a change when its turn has come. It is tried until it is proved or
// ctx ends, and no longer than a lease.
func (l *Lease) write(ctx context.Context, change func(*Claim)) error {
	select {
	case <-l.turn:
	default: // something else is being written
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.desk.Lease)
		defer cancel()
		select {
		case <-l.turn:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.ending:
			return ErrLost
		}
	}
	defer l.pass()
	return l.apply(ctx, change)
}

// pass ends a turn. Any applied write is a renewal, so the next one is due a period
// after it. A final state needs none, and trust that has ended gets none.
func (l *Lease) pass() {
	if l.claim.Status != InProgress || l.claim.Released || l.ctx.Err() != nil {
		l.renewal.Stop()
	} else {
		l.renewal.Reset(max(l.period()-l.elapsed(l.asked), l.period()/8))
	}
	l.turn <- struct{}{}
}

// renew extends the lease, for no longer than it can be trusted: a renewal must
// not outlive what it renews. If something else is being written, that renews too.
func (l *Lease) renew() {
	select {
	case <-l.turn:
	default:
		return
	}
	defer l.pass()
	left := l.Left()
	if left <= 0 {
		return // somebody may hold the claim
	}
	ctx, cancel := context.WithTimeout(l.ctx, left)
	defer cancel()
	// Its failure needs no report: without a renewal the lease ends, and says so.
	err := l.apply(ctx, func(*Claim) {})
	if l.desk.Renewed != nil {
		l.desk.Renewed(ctx, err)
	}
}

// sendings are the nonces of one change, and when each was sent.
type (
	sendings []sending
	sending  struct {
		w  string
		at Reading
	}
)

func (s sendings) under(w string) (Reading, bool) {
	for _, one := range s {
		if one.w == w {
			return one.at, true
		}
	}
	return Reading{}, false
}

// apply makes one change: write on the condition, and after any doubt read back
// (C9) until the record proves what became of it, or ctx ends, and no longer than a
// lease. The first attempt, nearly always the only one, has a bound that is nearer.
func (l *Lease) apply(ctx context.Context, change func(*Claim)) error {
	ends := time.Now().Add(l.desk.Lease)
	var mine sendings
	var last error
	for round := 0; ; round++ {
		if round == 1 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, ends)
			defer cancel()
		}
		if last != nil {
			if err := pause(ctx, round); err != nil {
				return fmt.Errorf("%w: %w", err, last)
			}
		}
		if errors.Is(last, message.ErrUnknown) || errors.Is(last, message.ErrConflict) || errors.Is(last, message.ErrNotFound) {
			settled, err := l.readBack(ctx, mine)
			if settled || errors.Is(err, ErrFenced) {
				return err
			}
			if err != nil {
				continue // nothing could be read, so nothing is done
			}
		}
		next := l.claim
		change(&next)
		next.W = Nonce()
		sent := l.desk.read()
		mine = append(mine, sending{next.W, sent})
		etag, err := l.replace(ctx, next)
		if err == nil {
			l.adopt(next, etag, sent)
			return nil
		}
		if errors.Is(err, message.ErrRefused) {
			return err
		}
		last = err
	}
}

func (l *Lease) replace(ctx context.Context, next Claim) (ETag, error) {
	ctx, cancel := context.WithTimeout(ctx, l.desk.Timeout)
	defer cancel()
	return l.record.Replace(ctx, next, l.etag)
}

// readBack asks the record. settled: the write was applied, nil, or can never
// be, ErrFenced. Not settled and nil: it is not applied yet, send it again under
// the version just read.
func (l *Lease) readBack(ctx context.Context, mine sendings) (settled bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.desk.Timeout)
	defer cancel()
	s, err := l.record.Read(ctx)
	if err != nil && !errors.Is(err, message.ErrNotFound) {
		return false, err
	}
	var stands *Claim
	if err == nil {
		stands = &s.Claim
	}
	switch ReadBack(stands, l.owner, l.fence, func(w string) bool { _, ok := mine.under(w); return ok }) {
	case Applied:
		sent, _ := mine.under(s.Claim.W)
		l.adopt(s.Claim, s.ETag, sent)
		return true, nil
	case NotYet:
		l.adopt(s.Claim, s.ETag, Reading{})
		return false, nil
	}
	l.lose(ErrFenced)
	if l.desk.Fenced != nil {
		l.desk.Fenced(context.WithoutCancel(ctx), l.claim.ID)
	}
	return true, ErrFenced
}

// adopt takes over what stands now. sent proves a write of ours and extends
// trust; its zero extends nothing.
func (l *Lease) adopt(c Claim, etag ETag, sent Reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claim, l.etag = c, etag
	if sent.Monotonic.After(l.asked.Monotonic) {
		l.asked = sent
	}
}
