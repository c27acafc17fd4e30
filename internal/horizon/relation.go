package horizon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// Relation is one row of the table.
type Relation struct {
	Name  string // H1 …
	Words string // what must hold
	check func(*check, terms)
}

// Relations are the whole table, in its order.
func Relations() []Relation {
	return slices.Concat(leases(), lifetimes(), dispatches(), hosting())
}

// Violation is a relation that does not hold.
type Violation struct {
	Relation string // H1 …
	Left     string // its sides: settings by name, with their numbers
	Must     string // "must be at most", …
	Right    string
	Else     string // what goes wrong
	Remedy   string // which settings to change, and which way
}

func (v Violation) Error() string {
	text := fmt.Sprintf("%s: %s %s %s, else %s", v.Relation, v.Left, v.Must, v.Right, v.Else)
	if v.Remedy != "" {
		text += ": " + v.Remedy
	}
	return text
}

// Errors are violations as one error, nil if there are none.
func Errors(violations []Violation) error {
	errs := make([]error, len(violations))
	for i, v := range violations {
		errs[i] = v
	}
	return errors.Join(errs...)
}

// Unchecked is a part of a relation that nothing can be said about.
type Unchecked struct {
	Relation string
	Formula  string
	Missing  []string // the symbols of what is not known
}

func (u Unchecked) String() string {
	return fmt.Sprintf("%s: %s (not known: %s)", u.Relation, u.Formula, strings.Join(u.Missing, ", "))
}

// Log says which relations nothing is known about here, and at debug level why.
func Log(ctx context.Context, log *slog.Logger, unchecked []Unchecked) {
	var names []string
	for _, u := range unchecked {
		names = append(names, u.Relation)
		log.LogAttrs(ctx, slog.LevelDebug, "relation not checked", slog.String("relation", u.String()))
	}
	if len(names) > 0 {
		log.LogAttrs(ctx, slog.LevelInfo, "relations not checked here, or not in full", slog.Any("relations", distinct(names)))
	}
}

// Check holds the settings against every relation.
func Check(s Settings) (violations []Violation, unchecked []Unchecked) {
	for _, c := range clauses(s) {
		switch {
		case !c.applies:
		case len(c.missing) > 0:
			u := Unchecked{Relation: c.relation, Formula: c.formula(), Missing: c.missing}
			same := func(other Unchecked) bool { return other.String() == u.String() }
			if !slices.ContainsFunc(unchecked, same) { // as with two handlers
				unchecked = append(unchecked, u)
			}
		case !c.holds():
			violations = append(violations, Violation{
				Relation: c.relation, Left: c.left.side(), Must: c.op.must(), Right: c.right.side(),
				Else: c.otherwise, Remedy: c.remedy(func(l lever) string { return l.name }),
			})
		}
	}
	return violations, unchecked
}

// clauses are all relations, put in numbers.
func clauses(s Settings) []clause {
	t := termsOf(s)
	var all []clause
	for _, r := range Relations() {
		c := check{relation: r.Name, applies: true}
		r.check(&c, t)
		all = append(all, c.clauses...)
	}
	return all
}

// check collects the clauses of one relation.
type check struct {
	relation string
	clauses  []clause

	when    string // a condition in words, in front of the formula
	applies bool
	missing []string // of the condition
}

// clause is one inequality.
type clause struct {
	relation    string
	when        string
	applies     bool
	left, right amount
	op          operator
	otherwise   string
	missing     []string
}

type operator int

const (
	atMost operator = iota
	below
	atLeast
	equal
)

func (o operator) sign() string { return [...]string{"≤", "<", "≥", "="}[o] }

func (o operator) must() string {
	return [...]string{"must be at most", "must be less than", "must be at least", "must be"}[o]
}

func (c *check) add(left amount, op operator, right amount, otherwise string) {
	c.clauses = append(c.clauses, clause{
		relation: c.relation, when: c.when, applies: c.applies,
		left: left, right: right, op: op, otherwise: otherwise,
		missing: distinct(slices.Concat(c.missing, left.missing, right.missing)),
	})
}

func (c *check) atMost(left, right amount, otherwise string) { c.add(left, atMost, right, otherwise) }
func (c *check) below(left, right amount, otherwise string)  { c.add(left, below, right, otherwise) }
func (c *check) atLeast(left, right amount, otherwise string) {
	c.add(left, atLeast, right, otherwise)
}

// is wants a switch on or off.
func (c *check) is(s amount, on bool, otherwise string) {
	want := fixed(0, onOff)
	if on {
		want = fixed(1, onOff)
	}
	c.add(s, equal, want, otherwise)
}

// only makes clauses that matter only where a switch is on, or off.
func (c *check) only(words string, s amount, on bool, clauses func()) {
	c.when, c.missing, c.applies = words+": ", s.missing, len(s.missing) > 0 || (s.value != 0) == on
	clauses()
	c.when, c.missing, c.applies = "", nil, true
}

func (c clause) holds() bool {
	switch l, r := c.left.value, c.right.value; c.op {
	case atMost:
		return l <= r
	case below:
		return l < r
	case atLeast:
		return l >= r
	default:
		return l == r
	}
}

func (c clause) formula() string {
	return c.when + c.left.formula + " " + c.op.sign() + " " + c.right.formula
}

// remedy lists what to change, by one of a lever's two names.
func (c clause) remedy(name func(lever) string) string {
	if c.op == equal {
		return names("switch "+c.right.number(), c.left.grows, name)
	}
	small, large := c.left, c.right
	if c.op == atLeast {
		small, large = large, small
	}
	var ways []string
	for _, way := range []string{
		names("lower", slices.Concat(small.grows, large.shrinks), name),
		names("raise", slices.Concat(large.grows, small.shrinks), name),
	} {
		if way != "" {
			ways = append(ways, way)
		}
	}
	return strings.Join(ways, "; or ")
}

func names(verb string, levers []lever, name func(lever) string) string {
	var all []string
	for _, l := range levers {
		all = append(all, name(l))
	}
	all = distinct(all)
	switch n := len(all); n {
	case 0:
		return ""
	case 1:
		return verb + " " + all[0]
	default:
		return verb + " " + strings.Join(all[:n-1], ", ") + " or " + all[n-1]
	}
}

// distinct keeps the first of those that are equal, in their order.
func distinct(all []string) []string {
	var kept []string
	for _, s := range all {
		if !slices.Contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}
