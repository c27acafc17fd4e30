package servicebus

import (
	"math/rand/v2"
	"time"
)

// The first wait after a failure, and the longest.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 30 * time.Second
)

// backoff is how long to wait after so many failures in a row: doubled each
// time, and jittered down to a half, so that clients which failed together do
// not come back together.
func backoff(failures int) time.Duration {
	wait := longestPause
	if failures < 8 { // 250 ms doubled seven times is past the longest
		wait = min(wait, firstPause<<(failures-1))
	}
	return wait/2 + rand.N(wait/2)
}
