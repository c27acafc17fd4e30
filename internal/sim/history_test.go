package sim

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	cosmosemulator "oneeffect/emulator/cosmos"
)

// history is what happened in one run of a plan.
type history struct {
	plan plan
	*witness
	events   []control.Event
	said     []said // what processes say: for counts and for people, never for a promise
	effects  map[string]map[string]int
	left     map[string]int // messages at the end, by entity
	stuck    bool
	leaked   bool   // by azservicebus
	bubble   string // as a stack's first line ends in it
	lasted   time.Duration
	faults   map[string]int
	gone     map[string]bool // processes that were told to end or killed
	problems []string        // of the simulation itself, or of a process that ended
}

// said is one line of a process's log.
type said struct {
	seq     uint64
	process string
	record  slog.Record
}

// play runs a plan to its end.
func play(t *testing.T, p plan) (h *history) {
	h = &history{plan: p, witness: newWitness(), faults: map[string]int{}, left: map[string]int{}, effects: map[string]map[string]int{}, gone: map[string]bool{}}
	defer h.forgive()
	synctest.Test(t, func(t *testing.T) {
		hub := control.New()
		h.hub = hub
		_, h.bubble, _ = strings.Cut(head(ownStack()), "synctest ")
		pl := &player{
			world: newWorldAt(t, hub, brisk, cosmosemulator.Options{Committed: h.committed}),
			h:     h, start: time.Now(), slots: map[string]*running{}, rules: map[string]string{}, clocks: map[string]*atomic.Int64{},
		}
		pl.calls, pl.loggers, pl.clock = h.witness, pl.logger, pl.clockOf
		pl.problem = func(err error) { pl.wrong("a process ended: " + err.Error()) }
		pl.play()
	})
	return h
}

// forgive lets a bubble end that azservicebus 1.11.0 has left goroutines in: one of
// its links that is recovered while its client is closed begins to renew its token
// again, and nobody ends that. Whatever else is left is a problem.
func (h *history) forgive() {
	said := recover()
	if said == nil {
		return
	}
	if text := fmt.Sprint(said); !strings.Contains(text, "blocked goroutines remain") {
		panic(said)
	}
	stacks := make([]byte, 1<<24)
	stacks = stacks[:runtime.Stack(stacks, true)]
	h.leaked = true
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.HasSuffix(head(stack), h.bubble) && !strings.Contains(stack, "startNegotiateClaimRenewer") {
			h.problems = append(h.problems, "left behind: "+stack)
		}
	}
}

func ownStack() string {
	stack := make([]byte, 1<<12)
	return string(stack[:runtime.Stack(stack, false)])
}

// head is the first line of a goroutine's stack.
func head(stack string) string {
	line, _, _ := strings.Cut(stack, "\n")
	return line
}
