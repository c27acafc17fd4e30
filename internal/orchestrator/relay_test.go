package orchestrator_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

// relayFor runs the relay for a while.
func (b *bench) relayFor(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	relayed := make(chan error, 1)
	go func() { relayed <- b.Relay(ctx) }()
	time.Sleep(d)
	synctest.Wait()
	cancel()
	if err := <-relayed; err != nil {
		t.Error(err)
	}
}

func TestTheRelayLeavesWhatIsYoungToWhoeverMadeIt(t *testing.T) { // E6
	inBubble(t, func(t *testing.T, b *bench) {
		b.failSends(message.ErrTransient)
		b.create(t, "82f3")
		b.failSends(nil)
		b.relayFor(t, b.RelayAge-5*time.Second)
		if len(b.sent) > 0 {
			t.Errorf("sent %v, younger than %v", b.sent, b.RelayAge)
		}
		b.relayFor(t, 2*b.RelayPeriod)
		if len(b.sent) != 1 {
			t.Errorf("sent %v, want the task once", b.sent)
		}
	})
}

// Whoever asked may be gone before the queue has answered, and a queue that does not
// answer keeps nobody for longer than a send may take.
func TestADispatchOutlivesItsRequestAndHasABound(t *testing.T) { // E6
	inBubble(t, func(t *testing.T, b *bench) {
		ctx, gone := context.WithCancel(t.Context())
		b.ctx = ctx
		b.Send = func(ctx context.Context, m message.Message) error {
			gone()
			if ctx.Err() != nil {
				t.Errorf("ended with its request: %v", ctx.Err())
			}
			return b.send(ctx, m)
		}
		b.create(t, "82f3")
		if len(b.sent) != 1 {
			t.Errorf("sent %v, want the task", b.sent)
		}

		b.ctx = nil
		b.Send = func(ctx context.Context, _ message.Message) error {
			<-ctx.Done()
			return message.ErrUnknown
		}
		began := time.Now()
		b.create(t, "82f4")
		if took := time.Since(began); took != b.SendTimeout {
			t.Errorf("answered after %v, want %v", took, b.SendTimeout)
		}
	})
}

func TestTheRelayForgetsARunThatHasEndedAndNoneThatAReplicaDoesNotKnow(t *testing.T) { // E6
	for _, test := range []struct {
		what string
		run  int
		end  bool
		left int
	}{
		{"the execution has ended", 1, true, 0},
		{"the execution is read as it was before the entry's run", 2, false, 1},
	} {
		t.Run(test.what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				e := execution.New("82f3", "t", jsontext.Value("{}"), "sha256:00", time.Now().UTC())
				entry := execution.OutboxEntry("82f3", message.TaskMessageID("82f3", test.run), test.run)
				etag, err := b.Store.Create(t.Context(), e, entry)
				if err != nil {
					t.Fatal(err)
				}
				if test.end {
					b.deliver(t, completion("82f3", string(etag), "sha256:one"), 1)
				}
				b.relayFor(t, 2*time.Minute)
				if left := b.unsent(t); len(left) != test.left || len(b.sent) > 0 {
					t.Errorf("%d entries left, and %d tasks sent, want %d and none", len(left), len(b.sent), test.left)
				}
			})
		})
	}
}

// A hundred tasks that nobody can send, and one behind them that anybody can.
func TestWhatCannotBeSentKeepsNothingElseWaiting(t *testing.T) { // E6
	inBubble(t, func(t *testing.T, b *bench) {
		b.failSends(message.ErrRefused)
		for i := range 101 {
			b.create(t, fmt.Sprintf("e%03d", i))
		}
		b.failSends(nil)
		last := "" // of the listing, whatever its order
		for from := execution.Cursor(""); last == "" || from != ""; {
			entries, next, err := b.Store.Unsent(t.Context(), 0, from)
			if err != nil {
				t.Fatal(err)
			}
			last, from = entries[len(entries)-1].ExecutionID, next
		}
		b.Send = func(ctx context.Context, m message.Message) error {
			if m.CorrelationID != last {
				return message.ErrRefused
			}
			return b.send(ctx, m)
		}
		b.relayFor(t, 2*time.Minute)
		if len(b.sent) != 1 || b.sent[0].ID != last {
			t.Errorf("sent %v, want the task of %s", b.sent, last)
		}
	})
}
