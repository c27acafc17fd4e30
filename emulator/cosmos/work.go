package cosmos

import (
	"slices"
	"time"
)

// work is what the evaluation of a query may still cost, so that no query over
// no document takes the machine away. Once it is spent, whatever is evaluated is
// undefined, and the page that it was for is refused.
type work struct {
	steps int
	rows  int  // what FROM may still multiply to
	large bool // there was a result that no page holds
	now   time.Time
}

const (
	maxSteps = 1 << 24 // beside some for each item and each word of the query
	maxRows  = 1 << 20 // beside one for each item
)

func newWork(now time.Time) *work { return &work{steps: maxSteps, rows: maxRows, now: now} }

// item allows for one more item that the query has to look at.
func (w *work) item(query *selection) {
	w.steps += 1024 + 4*query.size
	w.rows++
}

func (w *work) spend(steps int) bool {
	w.steps -= steps
	return w.steps >= 0
}

// spendText is for making or reading a text of that many bytes.
func (w *work) spendText(bytes int) bool { return w.spend(bytes / 16) }

// weigh spends what it takes to go through a value once.
func (w *work) weigh(v value) bool {
	switch v := v.(type) {
	case string:
		return w.spendText(len(v))
	case []any:
		if !w.spend(len(v)) {
			return false
		}
		for _, e := range v {
			if !w.weigh(e) {
				return false
			}
		}
	case *object:
		if !w.spend(len(v.members)) {
			return false
		}
		for _, m := range v.members {
			if !w.weigh(m.value) {
				return false
			}
		}
	}
	return w.steps >= 0
}

// fits reports whether a result is no larger than a page. It counts less than
// the result's text would have.
func (w *work) fits(v value) bool {
	left := maxPage
	var fits func(v value) bool
	fits = func(v value) bool {
		left--
		switch v := v.(type) {
		case string:
			left -= len(v)
		case []any:
			return !slices.ContainsFunc(v, func(e any) bool { return !fits(e) })
		case *object:
			for _, m := range v.members {
				if left -= len(m.name); !fits(m.value) {
					return false
				}
			}
		}
		return left >= 0
	}
	w.large = w.large || !fits(v)
	return !w.large
}

func (w *work) spent() *failure {
	switch {
	case w.large:
		return badRequest("A result of the query is larger than a page of %d bytes.", maxPage)
	case w.rows < 0:
		return badRequest("The JOINs of the query make more than the %d rows that this emulator looks at.", maxRows)
	case w.steps < 0:
		return badRequest("The query takes more steps than the %d, beside those for each item, that this emulator makes for a page.", maxSteps)
	}
	return nil
}

// text writes a result, if there is work left for it and a page has room.
func (w *work) text(v value) ([]byte, bool) {
	if !w.weigh(v) || !w.fits(v) {
		return nil, false
	}
	return appendValue(nil, v), true
}
