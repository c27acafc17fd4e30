package downstream

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// maxFile bounds handlers.yaml.
const maxFile = 1 << 20

// Form is how a key is written in its header.
type Form string

// The forms: as it is, or as a String of RFC 8941 (the IETF draft of Idempotency-Key).
const (
	Bare   Form = "bare"
	Quoted Form = "quoted"
)

// Declared is one handler as handlers.yaml declares it, defaults filled in.
type Declared struct {
	Type       string
	Go         bool      // it is written in Go, and the rest is empty: its own Declaration says it
	Requests   []Request // one, or one for each step
	Attempts   int
	BackoffMin time.Duration
	BackoffMax time.Duration
}

// Request is one call as it is declared.
type Request struct {
	Step    string // empty if it is the only one
	Method  string
	URL     string
	Results bool // the body also carries the results of the steps before
	Timeout time.Duration

	Keyed          bool          // the downstream honours the key
	Header         string        // where the key goes
	Form           Form          // and how it is written
	Window         time.Duration // for so long after the first call
	InProgress     int           // the status that says: the first call is still running; 0 is none
	ReplayedHeader string        // marks a stored reply that is given again; "" is none

	Auth   Auth
	Result string // JSON pointer to the result's reference in the reply; "" is none
}

// ReadHandlers reads handlers.yaml. ${NAME} stands for a variable, in any value;
// one that is not set is a mistake. All mistakes are reported at once.
func ReadHandlers(r io.Reader, getenv func(string) string) ([]Declared, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read handlers: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("read handlers: the file is larger than %d bytes", maxFile)
	}
	var document yaml.Node
	if err := yaml.Load(text, &document); err != nil {
		return nil, fmt.Errorf("read handlers: %w", err)
	}
	in := reading{getenv: getenv, declared: make(map[string]int)}
	declared := in.document(&document)
	if len(in.mistakes) > 0 {
		return nil, fmt.Errorf("read handlers: %w", errors.Join(in.mistakes...))
	}
	return declared, nil
}

// reading is one file being read: its mistakes so far, and where each type was
// declared.
type reading struct {
	getenv   func(string) string
	declared map[string]int // type → line
	mistakes []error
}

func (r *reading) mistake(line int, format string, args ...any) {
	r.mistakes = append(r.mistakes, fmt.Errorf("line %d: %w", line, fmt.Errorf(format, args...)))
}

func (r *reading) document(document *yaml.Node) []Declared {
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.SequenceNode {
		r.mistake(max(document.Line, 1), "a list is expected, each handler beginning with \"- type: NAME\"")
		return nil
	}
	r.expand(document)
	var all []Declared
	for _, item := range document.Content[0].Content {
		all = append(all, r.handler(item))
	}
	return all
}

// variable is how a variable is written in a value.
var variable = regexp.MustCompile(`\$\{([^}]*)\}?`)

// expand puts variables in their places after the file is parsed, so that no
// value of a variable can change its structure.
func (r *reading) expand(n *yaml.Node) {
	for _, child := range n.Content {
		r.expand(child)
	}
	if n.Kind != yaml.ScalarNode {
		return
	}
	n.Value = variable.ReplaceAllStringFunc(n.Value, func(text string) string {
		name := variable.FindStringSubmatch(text)[1]
		value := r.getenv(name)
		switch {
		case name == "" || !strings.HasSuffix(text, "}"):
			r.mistake(n.Line, "%q is not a variable: write ${NAME}", text)
		case value == "":
			r.mistake(n.Line, "the variable %s is not set", name)
		}
		return value
	})
}

// load reads one entry, as far as it can be read.
func (r *reading) load(item *yaml.Node) entry {
	var e entry
	err := item.Load(&e, yaml.WithKnownFields())
	if all, ok := errors.AsType[*yaml.LoadErrors](err); ok {
		for _, one := range all.Errors {
			what, _, _ := strings.Cut(one.Message, " in type ") // the rest names a type of ours
			r.mistake(one.Mark.Line, "%s", what)
		}
	} else if err != nil {
		r.mistake(item.Line, "%w", err)
	}
	return e
}

// at is the line where the member at a path of names stands, or where the
// nearest of its parents does.
func at(n *yaml.Node, path ...string) int {
	line := n.Line
	for _, name := range path {
		next := member(n, name)
		if next == nil {
			break
		}
		n, line = next, next.Line
	}
	return line
}

func member(n *yaml.Node, name string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}
