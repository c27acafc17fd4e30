package model

import (
	"flag"
	"fmt"
	"testing"

	"oneeffect/internal/message"
)

var (
	nFaults     = flag.Int("faults", 1, "faults, acts of operators and long waits on one way, at most")
	nDeliveries = flag.Int("deliveries", 3, "deliveries to each worker, at most")
	nStates     = flag.Int("states", 20_000_000, "states of one exploration; more are a failure")
	deep        = flag.Bool("deep", false, "also the broken rules that only three faults bring to light: minutes")
)

// deploy is the two versions of a handler that run side by side: the first
// worker's and the second's.
type deploy struct {
	says          string
	first, second message.Declaration
}

var deploys = []deploy{
	{"keyed", single(true), single(true)},
	{"keyless", single(false), single(false)},
	{"keyed and keyless", single(true), single(false)},
	{"steps, the second keyless", steps(true, false), steps(true, false)},
	{"steps, another one keyless", steps(true, false), steps(false, true)},
	{"steps, one keyless and none", steps(true, false), steps(true, true)},
	{"steps, the keyless one taken away", steps(true, false), steps(true)},
}

// C1 to C4 and C8 to C10, E1 to E8 and D1, whatever happens in whatever order,
// within the bounds.
func TestNoWayThroughTheProtocolBreaksAPromise(t *testing.T) {
	for _, d := range deploys {
		t.Run(d.says, func(t *testing.T) {
			f := newModel(product, d.first, d.second).within(*nFaults, *nDeliveries).explore(*nStates)
			fmt.Printf("model: %s: %v\n", d.says, f)
			if f.broken != noFault || f.cut {
				t.Errorf("%v\n%s", f, f.trace)
			}
		})
	}
}

func TestEveryBrokenRuleIsCaught(t *testing.T) {
	for _, v := range variants {
		t.Run(v.says, func(t *testing.T) {
			if v.bound > 2 && !*deep {
				t.Skip("it takes three faults, and hundreds of thousands of states: make variants and make model run it")
			}
			f := v.explored(t, v.bound)
			fmt.Printf("model: broken: %s: %v\n", v.says, f)
			if f.broken != v.comes {
				t.Errorf("%v, want %s\n%s", f, faults[v.comes], f.trace)
			}
			t.Logf("%s\n%s", faults[f.broken], f.trace)
			if v.bound > 0 && v.explored(t, v.bound-1).broken == v.comes {
				t.Errorf("%d faults are enough, and the table says %d", v.bound-1, v.bound)
			}
		})
	}
}
