package servicebus

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sosodev/duration"
)

// maxDuration is how the service writes "for ever", the longest time that .NET can express.
const maxDuration = "P10675199DT2H48M5.4775807S"

// parseDuration reads an ISO 8601 duration of at least a millisecond. What is longer than Go can express is for ever.
func parseDuration(s string) (time.Duration, error) {
	d, err := duration.Parse(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("must be an ISO 8601 duration such as PT1M, is %q: %w", s, err)
	case d.Years != 0 || d.Months != 0:
		return 0, fmt.Errorf("must not use years or months, which have no fixed length, is %q", s)
	}
	seconds := ((d.Weeks*7+d.Days)*24+d.Hours)*3600 + d.Minutes*60 + d.Seconds
	switch {
	case d.Negative || seconds < time.Millisecond.Seconds():
		return 0, fmt.Errorf("must be at least a millisecond, is %q", s)
	case seconds >= math.MaxInt64/float64(time.Second):
		return math.MaxInt64, nil
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// formatDuration writes a duration as the service does, in days, hours, minutes and seconds.
func formatDuration(d time.Duration) string {
	if d == math.MaxInt64 {
		return maxDuration
	}
	var b strings.Builder
	b.WriteByte('P')
	if days := d / (24 * time.Hour); days > 0 {
		fmt.Fprintf(&b, "%dD", days)
		d %= 24 * time.Hour
	}
	if d > 0 || b.Len() == 1 {
		b.WriteByte('T')
		hours, minutes, seconds := d/time.Hour, d%time.Hour/time.Minute, d%time.Minute
		if hours > 0 {
			fmt.Fprintf(&b, "%dH", hours)
		}
		if minutes > 0 {
			fmt.Fprintf(&b, "%dM", minutes)
		}
		if seconds > 0 || hours == 0 && minutes == 0 {
			fmt.Fprintf(&b, "%sS", strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.9f", seconds.Seconds()), "0"), "."))
		}
	}
	return b.String()
}

// .NET counts time in ticks of 100 ns, a point in time from the year 1 on.
const (
	ticksPerSecond = 1e7
	secondsTo1970  = 62135596800
)

func ticks(t time.Time) int64 {
	return (t.Unix()+secondsTo1970)*ticksPerSecond + int64(t.Nanosecond()/100)
}

func timeOfTicks(n int64) time.Time {
	return time.Unix(n/ticksPerSecond-secondsTo1970, n%ticksPerSecond*100).UTC()
}

// durationOfTicks gives the longest that Go can express for what is longer.
func durationOfTicks(n int64) time.Duration {
	return time.Duration(min(max(n, math.MinInt64/100), math.MaxInt64/100)) * 100
}

// join puts several mistakes into one sentence.
func join(mistakes []error) error {
	texts := make([]string, len(mistakes))
	for i, m := range mistakes {
		texts[i] = m.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}
