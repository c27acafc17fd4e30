package cosmos

import (
	"math"
	"strings"
	"time"
)

// The functions of times. A time is a text like 2026-11-30T21:30:00.0000000Z, a
// number of milliseconds, or one of ticks of 100 ns, since 1970.

const timeFormat = "2006-01-02T15:04:05.0000000Z"

// secondsBefore1970 are those from the year 1.
const secondsBefore1970 = 62135596800

func formatted(t time.Time) value { return t.UTC().Format(timeFormat) }

func timestamp(t time.Time) value { return integerOf(t.UnixMilli()) }

func ticks(t time.Time) value {
	return integerOf(t.Unix()*1e7 + int64(t.Nanosecond()/100))
}

// parseTime reads a time of the format above, whose fraction, time or Z may be
// missing.
func parseTime(v value) (time.Time, bool) {
	text, ok := v.(string)
	if !ok {
		return time.Time{}, false
	}
	for _, layout := range []string{"2006-01-02T15:04:05.9999999Z", "2006-01-02T15:04:05.9999999", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

func onTime(f func(time.Time) value) function {
	return function{least: 1, most: 1, apply: func(_ *work, a []value) value {
		if t, ok := parseTime(a[0]); ok {
			return f(t)
		}
		return undefined{}
	}}
}

func ofNumber(f func(int64) time.Time) function {
	return function{least: 1, most: 1, apply: func(_ *work, a []value) value {
		n, ok := wholeNumber(a[0])
		if !ok {
			return undefined{}
		}
		return inCalendar(f(n))
	}}
}

func fromTimestamp(n int64) time.Time { return time.UnixMilli(n) }

func fromTicks(n int64) time.Time { return time.Unix(n/1e7, n%1e7*100) }

// inCalendar writes a time of the years that the format has room for.
func inCalendar(t time.Time) value {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return undefined{}
	}
	return formatted(t)
}

// units are those shorter than a day, with the names that the functions take.
var units = map[string]time.Duration{
	"hour": time.Hour, "hh": time.Hour, "minute": time.Minute, "mi": time.Minute, "n": time.Minute,
	"second": time.Second, "ss": time.Second, "s": time.Second, "millisecond": time.Millisecond, "ms": time.Millisecond,
	"microsecond": time.Microsecond, "mcs": time.Microsecond, "nanosecond": time.Nanosecond, "ns": time.Nanosecond,
}

// longUnit gives the one name of a unit of a day or more.
func longUnit(name string) string {
	switch name {
	case "year", "yyyy", "yy":
		return "year"
	case "month", "mm", "m":
		return "month"
	case "day", "dd", "d":
		return "day"
	}
	return ""
}

func unitName(v value) string {
	s, _ := v.(string)
	return strings.ToLower(s)
}

func dateTimeAdd(_ *work, a []value) value {
	name := unitName(a[0])
	n, ok := wholeNumber(a[1])
	t, ok2 := parseTime(a[2])
	if !ok || !ok2 {
		return undefined{}
	}
	if unit, short := units[name]; short {
		if limit := int64(math.MaxInt64 / unit); n > limit || n < -limit {
			return undefined{}
		}
		return inCalendar(t.Add(time.Duration(n) * unit))
	}
	if n > 4e6 || n < -4e6 { // days in 10,000 years
		return undefined{}
	}
	switch longUnit(name) {
	case "year":
		return inCalendar(addMonths(t, 12*int(n)))
	case "month":
		return inCalendar(addMonths(t, int(n)))
	case "day":
		return inCalendar(t.AddDate(0, 0, int(n)))
	}
	return undefined{}
}

// addMonths keeps the day, or takes the last one that the month has.
func addMonths(t time.Time, n int) time.Time {
	first := time.Date(t.Year(), t.Month(), 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC).AddDate(0, n, 0)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(t.Day(), last)-1)
}

// dateTimeDiff counts the boundaries of a unit between two times.
func dateTimeDiff(_ *work, a []value) value {
	name := unitName(a[0])
	from, ok := parseTime(a[1])
	to, ok2 := parseTime(a[2])
	if !ok || !ok2 {
		return undefined{}
	}
	if unit, short := units[name]; short {
		return integerOf(boundaries(to, unit) - boundaries(from, unit))
	}
	months := func(t time.Time) int64 { return int64(t.Year())*12 + int64(t.Month()) }
	switch longUnit(name) {
	case "year":
		return integerOf(int64(to.Year() - from.Year()))
	case "month":
		return integerOf(months(to) - months(from))
	case "day":
		return integerOf(boundaries(to, 24*time.Hour) - boundaries(from, 24*time.Hour))
	}
	return undefined{}
}

// boundaries counts the whole units since the year 1, of nanoseconds those that
// fit a number since 1970.
func boundaries(t time.Time, unit time.Duration) int64 {
	if unit >= time.Second {
		return (t.Unix() + secondsBefore1970) / int64(unit/time.Second)
	}
	perSecond := int64(time.Second / unit)
	return t.Unix()*perSecond + int64(t.Nanosecond())/int64(unit)
}

func dateTimePart(_ *work, a []value) value {
	t, ok := parseTime(a[1])
	if !ok {
		return undefined{}
	}
	name := unitName(a[0])
	switch longUnit(name) {
	case "year":
		return integerOf(int64(t.Year()))
	case "month":
		return integerOf(int64(t.Month()))
	case "day":
		return integerOf(int64(t.Day()))
	}
	switch unit := units[name]; unit {
	case time.Hour:
		return integerOf(int64(t.Hour()))
	case time.Minute:
		return integerOf(int64(t.Minute()))
	case time.Second:
		return integerOf(int64(t.Second()))
	case time.Millisecond, time.Microsecond, time.Nanosecond:
		return integerOf(int64(t.Nanosecond()) / int64(unit))
	}
	return undefined{}
}

// dateTimeFromParts takes year, month, day, hour, minute, second and ticks of 100 ns.
func dateTimeFromParts(_ *work, a []value) value {
	parts := []int64{1, 1, 1, 0, 0, 0, 0}
	limits := []struct{ least, most int64 }{{1, 9999}, {1, 12}, {1, 31}, {0, 23}, {0, 59}, {0, 59}, {0, 9999999}}
	for i, v := range a {
		n, ok := wholeNumber(v)
		if !ok || n < limits[i].least || n > limits[i].most {
			return undefined{}
		}
		parts[i] = n
	}
	t := time.Date(int(parts[0]), time.Month(parts[1]), int(parts[2]), int(parts[3]), int(parts[4]), int(parts[5]), int(parts[6])*100, time.UTC)
	if t.Day() != int(parts[2]) {
		return undefined{} // the month has no such day
	}
	return formatted(t)
}
