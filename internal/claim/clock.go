package claim

import "time"

// Clock tells how much time has passed in this process (C5). What it shows is
// compared with itself alone, never with another process or a server (C6).
type Clock func() Reading

// Reading is what a machine's two clocks show at one moment. The monotonic one
// stands still while the machine sleeps, the wall clock may be set: the larger of
// the two differences is how much time may have passed elsewhere.
type Reading struct {
	Monotonic time.Time // for differences alone
	Wall      time.Time // without a monotonic reading
}

func (r Reading) since(earlier Reading) time.Duration {
	return max(r.Monotonic.Sub(earlier.Monotonic), r.Wall.Sub(earlier.Wall))
}

func (d *Desk) read() Reading {
	if d.Clock != nil {
		return d.Clock()
	}
	now := time.Now()
	return Reading{Monotonic: now, Wall: now.Round(0)}
}
