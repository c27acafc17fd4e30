package process

import (
	"runtime/debug"
	"testing"
)

func TestCollectionsAreRarerUnlessTheOperatorSaysHowOften(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	for _, c := range []struct {
		env  Environment
		want int
	}{
		{Environment{"GOGC=50"}, 100}, // which the runtime has read when the process began
		{Environment{"GOMEMLIMIT=100MiB"}, gcPercent},
		{nil, gcPercent},
	} {
		TuneGC(c.env)
		if got := debug.SetGCPercent(100); got != c.want {
			t.Errorf("%v: %d percent, want %d", c.env, got, c.want)
		}
	}
}
