package servicebus

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// What a Config.json without a property means, from the official schema.
const (
	defaultLock        = time.Minute
	defaultMaxDelivery = 3
	defaultTimeToLive  = time.Hour
	defaultWindow      = 20 * time.Second
)

// walk reads a parsed document and collects every mistake instead of stopping at the first.
type walk struct{ mistakes []error }

// node is a value of the document and the path to it.
type node struct {
	path  string
	value any
}

// members maps the names an object may have to what reads each.
type members map[string]func(node)

func (w *walk) mistake(n node, format string, args ...any) {
	path := n.path
	if path == "" {
		path = "document"
	}
	w.mistakes = append(w.mistakes, fmt.Errorf("%s: "+format, append([]any{path}, args...)...))
}

// members reads an object's members in the order of their names, and reports unknown and missing ones.
func (w *walk) members(n node, known members, required ...string) {
	object, ok := n.value.(map[string]any)
	if !ok {
		w.mistake(n, "must be an object, is %s", kind(n.value))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		child := node{path: strings.TrimPrefix(n.path+"."+name, "."), value: object[name]}
		if read, ok := known[name]; ok {
			read(child)
		} else {
			w.mistake(child, "is not known here; known are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	for _, name := range required {
		if _, ok := object[name]; !ok {
			w.mistake(n, "lacks %s", name)
		}
	}
}

func (w *walk) list(n node) []node {
	values, ok := n.value.([]any)
	if !ok {
		w.mistake(n, "must be a list, is %s", kind(n.value))
		return nil
	}
	nodes := make([]node, len(values))
	for i, v := range values {
		nodes[i] = node{path: fmt.Sprintf("%s[%d]", n.path, i), value: v}
	}
	return nodes
}

func (w *walk) text(n node) string {
	s, ok := n.value.(string)
	if !ok {
		w.mistake(n, "must be a string, is %s", kind(n.value))
	}
	return s
}

func (w *walk) boolean(n node) bool {
	b, ok := n.value.(bool)
	if !ok {
		w.mistake(n, "must be true or false, is %s", kind(n.value))
	}
	return b
}

// count reads a whole number of at least 1.
func (w *walk) count(n node) int {
	f, ok := n.value.(float64)
	if !ok || f != math.Trunc(f) || f < 1 || f > math.MaxInt32 {
		w.mistake(n, "must be a whole number of at least 1, is %v", n.value)
		return 1
	}
	return int(f)
}

func (w *walk) oneOf(n node, allowed ...string) {
	if s := w.text(n); s != "" && !slices.Contains(allowed, s) {
		w.mistake(n, "must be one of %q, is %q", allowed, s)
	}
}

// duration reads an ISO 8601 duration of more than nothing. Years and months have no fixed length and are refused.
func (w *walk) duration(n node) time.Duration {
	s := w.text(n)
	if s == "" {
		return 0
	}
	d, err := parseDuration(s)
	if err != nil {
		w.mistake(n, "%w", err)
	}
	return d
}

func (w *walk) name(n node) string {
	s, ok := n.value.(string)
	switch {
	case !ok:
		w.mistake(n, "must be a string, is %s", kind(n.value))
	case !entityName.MatchString(s):
		w.mistake(n, "must begin and end with a letter or digit and hold only letters, digits and _ - . /, is %q", s)
	case len(s) > maxName:
		w.mistake(n, "must not be longer than %d characters, is %d", maxName, len(s))
	}
	return s
}

func (w *walk) unique(n node, taken map[string]string, name string) {
	key := strings.ToLower(name)
	if first, ok := taken[key]; ok && name != "" {
		w.mistake(n, "has the name %q, which %s has already (names are compared without case)", name, first)
		return
	}
	taken[key] = n.path
}

// receiving reads the properties that queues and subscriptions share.
func (w *walk) receiving(lock *time.Duration, maxDelivery *int, ttl *time.Duration, deadLetter *bool) members {
	return members{
		"LockDuration":                     func(n node) { *lock = w.duration(n) },
		"MaxDeliveryCount":                 func(n node) { *maxDelivery = w.count(n) },
		"DefaultMessageTimeToLive":         func(n node) { *ttl = w.duration(n) },
		"DeadLetteringOnMessageExpiration": func(n node) { *deadLetter = w.boolean(n) },
		"ForwardTo":                        w.notForwarding,
		"ForwardDeadLetteredMessagesTo":    w.notForwarding,
		"RequiresSession": func(n node) {
			if w.boolean(n) {
				w.mistake(n, "sessions are not supported yet")
			}
		},
	}
}

// detecting adds the properties of duplicate detection, which queues and topics share.
func (w *walk) detecting(p members, detect *bool, window *time.Duration) {
	p["RequiresDuplicateDetection"] = func(n node) { *detect = w.boolean(n) }
	p["DuplicateDetectionHistoryTimeWindow"] = func(n node) { *window = w.duration(n) }
}

func (w *walk) notForwarding(n node) {
	if s := w.text(n); s != "" {
		w.mistake(n, "forwarding (here to %q) is not supported yet", s)
	}
}

// rule accepts only what every subscription without rules has: $Default, which matches all.
func (w *walk) rule(n node) {
	var name string
	if object, ok := n.value.(map[string]any); ok {
		name, _ = object["Name"].(string)
	}
	w.mistake(n, "rule %q: correlation and SQL rules are not supported yet; a subscription without rules matches every message", name)
}

func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case float64:
		return "a number"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	}
	return "an object"
}
