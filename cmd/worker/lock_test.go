package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// The queue's lock is six seconds. A worker that was told a minute would renew its
// locks when they are long lost.
func TestAWorkerThatWasToldALongerLockThanTheQueuesEndsAndSaysSo(t *testing.T) { // H1
	t.Parallel()
	s := newSite(t, time.Minute)
	w := s.worker("misled", "-lock=1m")
	s.send(s.ctx, "82f3", "customer.create")
	select {
	case <-w.ended:
	case <-s.ctx.Done():
		t.Fatal(context.Cause(s.ctx))
	}
	if want := "H1: -lock 1m must be the LockDuration of the entity, which is at most 6"; !strings.Contains(w.stderr.String(), want) {
		t.Errorf("it says\n%s\nwant %s", w.stderr.String(), want)
	}
	if w.err == nil {
		t.Error("it ended with status 0")
	}
	if calls := s.ledger(); len(calls) > 0 {
		t.Errorf("it called %v", calls)
	}
}
