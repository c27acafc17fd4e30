package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// pointer is a parsed JSON pointer (RFC 6901) in which the segment "*" stands
// for any array element or object member.
type pointer []string

func parsePointer(s string) (pointer, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf(`must be empty or begin with "/"`)
	}
	segments := strings.Split(s[1:], "/")
	for i, segment := range segments {
		for rest := segment; ; {
			_, after, escaped := strings.Cut(rest, "~")
			if !escaped {
				break
			}
			if after == "" || after[0] != '0' && after[0] != '1' {
				return nil, fmt.Errorf(`has a "~" that is not followed by 0 or 1`)
			}
			rest = after
		}
		segments[i] = strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
	}
	return segments, nil
}

// finds reports whether want stands where the pointer leads in a decoded document.
func (p pointer) finds(document, want any) bool {
	if len(p) == 0 {
		return reflect.DeepEqual(document, want)
	}
	segment, rest := p[0], p[1:]
	switch node := document.(type) {
	case map[string]any:
		if segment == "*" {
			for _, member := range node {
				if rest.finds(member, want) {
					return true
				}
			}
			return false
		}
		member, ok := node[segment]
		return ok && rest.finds(member, want)
	case []any:
		if segment == "*" {
			return slices.ContainsFunc(node, func(element any) bool { return rest.finds(element, want) })
		}
		i, err := strconv.Atoi(segment)
		if err != nil || i < 0 || i >= len(node) || segment != strconv.Itoa(i) {
			return false
		}
		return rest.finds(node[i], want)
	}
	return false
}

// bodyMatch is one entry of Match.Body, ready to use.
type bodyMatch struct {
	at   pointer
	want any
}

// compileBody parses the pointers and brings the wanted values into the form
// that decoding a document gives, so that a Go int equals a JSON number.
func compileBody(body map[string]any) (matches []bodyMatch, mistakes []error) {
	for _, at := range slices.Sorted(maps.Keys(body)) {
		p, err := parsePointer(at)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("match.body: pointer %q %w", at, err))
			continue
		}
		text, err := json.Marshal(body[at])
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("match.body: the value at %q is not JSON: %w", at, err))
			continue
		}
		var want any
		if err := json.Unmarshal(text, &want); err != nil {
			mistakes = append(mistakes, fmt.Errorf("match.body: the value at %q: %w", at, err))
			continue
		}
		matches = append(matches, bodyMatch{at: p, want: want})
	}
	return matches, mistakes
}

// about reports whether an operation is one of those a rule is about. It reads
// only what never changes, so it needs no lock.
func (r *armed) about(when string, op Op) bool {
	if r.rule.When != when || !r.rule.Match.covers(op) {
		return false
	}
	if len(r.body) == 0 {
		return true
	}
	var document any
	if json.Unmarshal(op.Body, &document) != nil {
		return false
	}
	return !slices.ContainsFunc(r.body, func(b bodyMatch) bool { return !b.at.finds(document, b.want) })
}

// covers reports whether an operation is one of these, but for its body.
func (m *Match) covers(op Op) bool {
	return (m.Service == "" || m.Service == op.Service) &&
		(m.Operation == "" || m.Operation == op.Operation) &&
		(m.Entity == "" || m.Entity == op.Entity) &&
		(m.Client == "" || m.Client == op.Client) &&
		(m.Key == "" || m.Key == op.Key)
}
