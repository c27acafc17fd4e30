package horizon

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

type unit int

const (
	inTime unit = iota
	inNumbers
	inBytes
	onOff
)

// amount is one side of a relation: a setting, or settings put together. It knows
// how it came about, for those who must change it, and what of it is not known.
type amount struct {
	value   int64
	unit    unit
	formula string // in symbols
	words   string // in the owner's names, with their numbers
	parts   int    // how many terms the words have: one needs no result behind it

	symbols []symbol // what it is made of
	missing []string // which of them are not known
	grows   []lever  // with these …
	shrinks []lever  // … and against those
}

// symbol is how a setting is written in formulas.
type symbol struct{ sign, meaning string }

// lever is a setting that somebody can change.
type lever struct{ symbol, name string }

// setting is an amount made of a setting. owner says whose it is, where several
// have one of the same symbol.
func setting[T time.Duration | int | bool](sign, meaning, owner string, s Setting[T]) amount {
	a := amount{formula: sign, parts: 1, symbols: []symbol{{sign, meaning}}}
	switch v := any(s.Value).(type) {
	case time.Duration:
		a.value = int64(v)
	case int:
		a.value, a.unit = int64(v), inNumbers
	case bool:
		a.unit = onOff
		if v {
			a.value = 1
		}
	}
	if s.Name == "" {
		a.missing = []string{sign}
		if owner != "" {
			a.missing[0] += " of " + owner
		}
		return a
	}
	a.words = s.Name + " " + a.number()
	if !s.constant {
		a.grows = []lever{{sign, s.Name}}
	}
	return a
}

// sized is a setting in bytes.
func sized(sign, meaning, owner string, s Count) amount {
	a := setting(sign, meaning, owner, s)
	a.unit = inBytes
	a.words = s.Name + " " + a.number()
	return a
}

// fixed is an amount that the relation itself names.
func fixed(value int64, u unit) amount {
	a := amount{value: value, unit: u, parts: 1}
	a.formula, a.words = a.brief(), a.number()
	return a
}

func lasting(d time.Duration) amount { return fixed(int64(d), inTime) }
func number(n int) amount            { return fixed(int64(n), inNumbers) }
func size(n int) amount              { return fixed(int64(n), inBytes) }

// put joins two amounts; the value and the texts are the caller's.
func put(a, b amount) amount {
	return amount{
		unit: a.unit, parts: a.parts + b.parts,
		symbols: slices.Concat(a.symbols, b.symbols),
		missing: slices.Concat(a.missing, b.missing),
		grows:   slices.Concat(a.grows, b.grows),
		shrinks: slices.Concat(a.shrinks, b.shrinks),
	}
}

func (a amount) plus(b amount) amount {
	sum := put(a, b)
	sum.value = a.value + b.value
	sum.formula = a.formula + " + " + b.formula
	sum.words = a.words + " + " + b.words
	return sum
}

func (a amount) less(b amount) amount {
	formula, words := b.formula, b.words
	if b.parts > 1 {
		formula, words = "("+formula+")", "("+words+")"
	}
	b.grows, b.shrinks = b.shrinks, b.grows
	rest := put(a, b)
	rest.value = a.value - b.value
	rest.formula = a.formula + " − " + formula
	rest.words = a.words + " less " + words
	return rest
}

// times multiplies by a count, which comes first in the text.
func (a amount) times(n amount) amount {
	formula, words := a.formula, a.words
	if a.parts > 1 {
		formula, words = "("+formula+")", "("+words+")"
	}
	product := put(n, a)
	product.unit = a.unit
	product.value = n.value * a.value
	product.formula = n.formula + "·" + formula
	product.words = n.words + " × " + words
	return product
}

func (a amount) half() amount  { return a.over(2, "half of ") }
func (a amount) third() amount { return a.over(3, "a third of ") }

func (a amount) over(n int64, words string) amount {
	a.value /= n
	a.formula += fmt.Sprintf("/%d", n)
	a.words = words + a.words
	a.parts++
	return a
}

// longer is the larger of two. Only that one can be changed with an effect.
func longer(a, b amount) amount {
	both := put(a, b)
	larger := a
	if b.value > a.value {
		larger = b
	}
	both.value, both.grows, both.shrinks = larger.value, larger.grows, larger.shrinks
	both.formula = "max(" + a.formula + ", " + b.formula + ")"
	both.words = "the longer of " + a.words + " and " + b.words
	return both
}

// as gives a composed amount a symbol of its own. Those of its levers that are
// asked for stay: a remedy that names everything names nothing.
func (a amount) as(sign, meaning, words string, levers ...amount) amount {
	a.symbols = append(a.symbols, symbol{sign, meaning + ": " + a.formula})
	a.formula, a.words, a.parts = sign, words+" "+a.number(), 1
	if len(levers) > 0 {
		a.grows, a.shrinks = nil, nil
		for _, l := range levers {
			a.grows = append(a.grows, l.grows...)
		}
	}
	return a
}

// onlyBy is the amount with fewer levers: one that would move the other side too
// is no remedy.
func (a amount) onlyBy(l amount) amount {
	a.grows, a.shrinks = l.grows, nil
	return a
}

// side is the amount as it stands in a sentence.
func (a amount) side() string {
	if a.parts == 1 {
		return a.words
	}
	return a.words + " = " + a.number()
}

func (a amount) number() string {
	switch a.unit {
	case inNumbers:
		return strconv.FormatInt(a.value, 10)
	case inBytes:
		switch v := a.value; {
		case v != 0 && v%(1<<20) == 0:
			return fmt.Sprintf("%d MiB", v>>20)
		case v != 0 && v%(1<<10) == 0:
			return fmt.Sprintf("%d KiB", v>>10)
		}
		return fmt.Sprintf("%d B", a.value)
	case onOff:
		if a.value != 0 {
			return "on"
		}
		return "off"
	}
	return short(time.Duration(a.value))
}

// brief is the number of an amount for a table, in days where it has days.
func (a amount) brief() string {
	if a.unit == inTime {
		return long(time.Duration(a.value))
	}
	return a.number()
}

// short is a duration as a flag takes it, without the zeros at its end.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// long is a duration as people say it: the numbers of flags have no days.
func long(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 2*day {
		return short(d)
	}
	text := fmt.Sprintf("%dd", d/day)
	if rest := d % day; rest > 0 {
		text += short(rest)
	}
	return text
}
