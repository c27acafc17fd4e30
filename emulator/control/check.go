package control

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

var ruleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// check says every mistake in a rule at once, and compiles its body match.
func (r Rule) check() ([]bodyMatch, error) {
	var mistakes []error
	wrong := func(format string, args ...any) { mistakes = append(mistakes, fmt.Errorf(format, args...)) }

	if r.Name != "" && !ruleName.MatchString(r.Name) {
		wrong("name %q: take 1 to 64 of A-Z a-z 0-9 . _ -, the first a letter or digit", r.Name)
	}
	if r.When != "before" && r.When != "after" {
		wrong(`when %q: say "before" or "after"`, r.When)
	}
	mistakes = append(mistakes, r.Match.check()...)
	mistakes = append(mistakes, r.checkDo()...)

	if r.Nth < 0 {
		wrong("nth %d: cannot be negative", r.Nth)
	}
	if r.Times < 0 {
		wrong("times %d: cannot be negative", r.Times)
	}
	if r.Nth > 0 && r.Times > 1 {
		wrong("nth and times %d: the nth operation comes once; leave one of them out", r.Times)
	}
	if !(r.Probability >= 0 && r.Probability <= 1) {
		wrong("probability %v: must be between 0 and 1", r.Probability)
	}
	if r.Nth > 0 && r.Probability > 0 {
		wrong("nth and probability: leave one of them out")
	}
	if r.Seed != 0 && r.Probability == 0 {
		wrong("seed: means nothing without a probability")
	}
	body, wrongBody := compileBody(r.Match.Body)
	mistakes = append(mistakes, wrongBody...)
	return body, errors.Join(mistakes...)
}

// underLock are the operations that need a lock.
var underLock = []string{"complete", "abandon", "dead-letter", "release", "defer", "renew-lock", "renew-session-lock"}

// checkDo checks what the rule does, and that it says nothing that belongs to
// another thing to do: a forgotten field is more often a mistake than a wish.
func (r Rule) checkDo() (mistakes []error) {
	wrong := func(format string, args ...any) { mistakes = append(mistakes, fmt.Errorf(format, args...)) }
	switch r.Do {
	case "hold", "drop", "reset", "silence":
	case "delay":
		if r.Delay <= 0 {
			wrong(`delay %v: do "delay" needs a positive duration like "1.5s"`, r.Delay)
		}
	case "answer":
		mistakes = append(mistakes, checkAnswer(r.Status, r.Condition, r.RetryAfter)...)
	case "detach", "close":
		if r.Match.Service != "servicebus" {
			wrong(`do %q is of AMQP: say match.service "servicebus"`, r.Do)
		}
		if r.Condition == "" {
			wrong(`condition: do %q needs one, like %q`, r.Do, map[string]string{"detach": "amqp:link:detach-forced", "close": "amqp:connection:forced"}[r.Do])
		}
	case "lose-lock":
		if r.Match.Service != "servicebus" || !slices.Contains(underLock, r.Match.Operation) {
			wrong(`do "lose-lock" is of what needs a lock: say match.service "servicebus" and match.operation %s`, strings.Join(underLock, ", "))
		}
		if r.When == "after" {
			wrong(`do "lose-lock": means nothing after apply, since the operation has used its lock`)
		}
	default:
		wrong(`do %q: say "hold", "drop", "delay", "answer", "detach", "close", "reset", "lose-lock" or "silence"`, r.Do)
		return mistakes
	}
	if r.Delay != 0 && r.Do != "delay" {
		wrong(`delay: means nothing with do %q`, r.Do)
	}
	if r.Late && r.Do != "hold" && r.Do != "delay" {
		wrong(`late: means nothing with do %q`, r.Do)
	}
	if r.Late && r.When == "after" {
		wrong(`late: means nothing after apply, since the operation is applied already`)
	}
	if r.Do != "answer" && (r.Status != 0 || r.RetryAfter != 0) {
		wrong(`status and retryAfter: mean nothing with do %q`, r.Do)
	}
	if r.Do != "answer" && r.Do != "detach" && r.Do != "close" && (r.Condition != "" || r.Description != "") {
		wrong(`condition and description: mean nothing with do %q`, r.Do)
	}
	return mistakes
}

// checkAnswer checks what an answer says, in a rule or in a release.
func checkAnswer(status int, condition string, retryAfter Duration) (mistakes []error) {
	if status == 0 && condition == "" {
		mistakes = append(mistakes, errors.New(`an answer needs a status (HTTP) or a condition (AMQP)`))
	}
	if status != 0 && (status < 200 || status > 599) {
		mistakes = append(mistakes, fmt.Errorf("status %d: must be between 200 and 599", status))
	}
	if retryAfter < 0 {
		mistakes = append(mistakes, fmt.Errorf("retryAfter %v: cannot be negative", retryAfter))
	}
	return mistakes
}

func (m Match) check() (mistakes []error) {
	wrong := func(format string, args ...any) { mistakes = append(mistakes, fmt.Errorf(format, args...)) }
	services := slices.Sorted(maps.Keys(operations))
	known, isService := operations[m.Service]
	switch {
	case m.Service == "":
		for _, service := range services {
			known = append(known, operations[service]...)
		}
	case !isService:
		wrong("match.service %q: there are %s", m.Service, strings.Join(services, ", "))
	}
	if m.Operation != "" && len(known) > 0 && !slices.Contains(known, m.Operation) {
		wrong("match.operation %q: there are %s", m.Operation, strings.Join(known, ", "))
	}
	if m.Entity != strings.ToLower(m.Entity) {
		wrong("match.entity %q: entities are written in lower case here", m.Entity)
	}
	return mistakes
}

// decision is what a release lets a held operation do.
func (r Release) decision() (Decision, error) {
	plain := r.Status == 0 && r.Condition == "" && r.Description == "" && r.RetryAfter == 0
	switch r.Action {
	case "go", "drop":
		if !plain {
			return Decision{}, fmt.Errorf("status, condition, description and retryAfter mean nothing with action %q", r.Action)
		}
		if r.Action == "drop" {
			return Decision{Kind: Drop}, nil
		}
		return Decision{}, nil
	case "answer":
		if err := errors.Join(checkAnswer(r.Status, r.Condition, r.RetryAfter)...); err != nil {
			return Decision{}, err
		}
		return Decision{
			Kind: Answer, Status: r.Status, Condition: r.Condition,
			Description: r.Description, RetryAfter: time.Duration(r.RetryAfter),
		}, nil
	}
	return Decision{}, fmt.Errorf(`action %q: say "go", "drop" or "answer"`, r.Action)
}
