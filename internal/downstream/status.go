package downstream

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"oneeffect/internal/message"
)

// meaning is what a status says about the effect of a call, and whether the same
// call may end better later.
type meaning struct {
	effect message.Effect
	retry  bool
	free   bool // waiting costs no attempt: the downstream is there and asks for it
}

var (
	applied   = meaning{effect: message.EffectApplied}
	permanent = meaning{effect: message.EffectNotApplied}
	final     = meaning{effect: message.EffectUnknown}
	again     = meaning{effect: message.EffectUnknown, retry: true}
	wait      = meaning{effect: message.EffectUnknown, retry: true, free: true}
	notYet    = meaning{effect: message.EffectNotApplied, retry: true, free: true}
)

// meaningOf is the table of status rules. Replayed says that the reply is one
// which the downstream has stored under this key and gives for ever.
func (d Request) meaningOf(status int, replayed bool) meaning {
	switch {
	case status >= 200 && status <= 299:
		return applied // 201 the first time, 200 the same resource
	case d.InProgress != 0 && status == d.InProgress:
		return wait // the first call with this key is still running
	case status >= 500 && replayed:
		return final // the stored outcome of the first call: asking again brings the same
	case status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return notYet // refused before anything was done
	case status == http.StatusServiceUnavailable:
		return wait // as a rule before anything was done, but a proxy says it afterwards too
	case status == http.StatusRequestTimeout, status >= 500 && status <= 599:
		return again
	case status == http.StatusTemporaryRedirect, status == http.StatusPermanentRedirect:
		return permanent // nothing was done here, and we do not go elsewhere
	case status >= 400 && status <= 499:
		return permanent // 409 and 422 of a key used for something else, too
	}
	return final // other redirects (303 may well mean: done, look there), and what HTTP does not know
}

// outcome is what a meaning is worth to this handler: where no key is honoured
// the first failure of any kind is final.
func (d Request) outcome(m meaning, description string) message.Outcome {
	return message.Outcome{
		Effect:      m.effect,
		Retry:       m.retry && d.Keyed,
		Free:        m.free && d.Keyed,
		Description: description,
	}
}

// longestAfter bounds what a downstream can ask for. Deadline and key window of
// the task bound it further.
const longestAfter = 30 * 24 * time.Hour

// retryAfter reads Retry-After (RFC 9110 §10.2.3): seconds, or a date, which is
// compared with the Date of the same reply, so that our clock stays out of it.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(longestAfter/time.Second))) * time.Second
	}
	if n, err := strconv.ParseFloat(value, 64); err == nil { // not in the standard, and seen
		if math.IsNaN(n) || n <= 0 {
			return 0
		}
		return time.Duration(min(math.Ceil(n), longestAfter.Seconds())) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return min(max(until.Sub(now), 0), longestAfter)
}
