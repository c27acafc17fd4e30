package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// verdict is what became of one test.
type verdict struct {
	Name    string
	Outcome string // "pass", "fail" or "skip"; "" if the program ended before the test did
	Took    time.Duration
	Said    tail
	Skipped []string // its skipped subtests, each with the reason
}

// tail keeps the last lines of what is said.
type tail []string

const tailLines = 40

func (t *tail) add(line string) {
	*t = append(*t, strings.TrimRight(line, "\n"))
	if len(*t) > 2*tailLines {
		*t = append((*t)[:0], (*t)[len(*t)-tailLines:]...)
	}
}

func (t tail) last() []string { return t[max(0, len(t)-tailLines):] }

// event is one line of test2json.
type event struct {
	Action  string
	Test    string
	Elapsed float64
	Output  string
}

// transcript is what one run of a test binary has said so far.
type transcript struct {
	verdicts map[string]*verdict
	order    []string        // names in the order in which they began
	subtests map[string]tail // of those that have not ended
	between  tail            // what was said outside of any test
	begun    func(test string)
}

func newTranscript(begun func(test string)) *transcript {
	return &transcript{verdicts: make(map[string]*verdict), subtests: make(map[string]tail), begun: begun}
}

// read takes in test2json's events until they end.
func (t *transcript) read(r io.Reader) error {
	decoder := json.NewDecoder(r)
	for {
		var e event
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read test2json's events: %w", err)
		}
		t.add(e)
	}
}

func (t *transcript) add(e event) {
	if e.Test == "" {
		if e.Action == "output" {
			t.between.add(e.Output)
		}
		return
	}
	name, _, isSubtest := strings.Cut(e.Test, "/")
	v := t.verdicts[name]
	if v == nil {
		v = &verdict{Name: name}
		t.verdicts[name] = v
		t.order = append(t.order, name)
		t.begun(name)
	}
	switch e.Action {
	case "output":
		v.Said.add(e.Output)
		if isSubtest {
			said := t.subtests[e.Test]
			said.add(e.Output)
			t.subtests[e.Test] = said
		}
	case "pass", "fail", "skip":
		switch {
		case !isSubtest:
			v.Outcome = e.Action
			v.Took = time.Duration(e.Elapsed * float64(time.Second))
		case e.Action == "skip":
			v.Skipped = append(v.Skipped, e.Test+": "+reason(t.subtests[e.Test]))
		}
		delete(t.subtests, e.Test)
	}
}

// framing is what the testing package says about a test, rather than the test.
var framing = regexp.MustCompile(`^\s*(===|---) `)

// position is where a test said something.
var position = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason is why a test was skipped, in its own words.
func reason(said tail) string {
	var words []string
	for _, line := range said.last() {
		if !framing.MatchString(line) {
			words = append(words, strings.TrimSpace(position.ReplaceAllString(line, "")))
		}
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}
