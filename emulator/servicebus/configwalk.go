package servicebus

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"oneeffect/emulator/servicebus/broker"
)

// What a Config.json without a property means, from the official schema.
const (
	defaultLock        = time.Minute
	defaultMaxDelivery = 3
	defaultTimeToLive  = time.Hour
	defaultWindow      = 20 * time.Second
)

// What the official emulator allows at most, and the one name it knows.
const (
	officialName          = "sbemulatorns"
	officialEntities      = 50
	officialSubscriptions = 50
	officialRules         = 1000
	officialMaxDelivery   = 10
)

// span is what a duration may be: what the official emulator allows, and the most that the service does.
type span struct{ least, most, never time.Duration }

var (
	lockDurations    = span{5 * time.Second, 5 * time.Minute, maxLock}
	timesToLive      = span{5 * time.Minute, time.Hour, broker.Forever}
	duplicateWindows = span{5 * time.Second, 5 * time.Minute, maxWindow}
)

// walk reads a parsed document and collects every mistake instead of stopping at the first.
type walk struct {
	mistakes []error
	beyond   []string
	entities map[string]string // the path of every queue and topic, by its name in lower case
	forwards []forward
}

// forward is a wish for messages to go on, to be checked when all entities are known.
type forward struct {
	node   node
	target string
}

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

// exceeds notes where the document goes beyond the official emulator.
func (w *walk) exceeds(n node, format string, args ...any) {
	w.beyond = append(w.beyond, fmt.Sprintf("%s: "+format, append([]any{n.path}, args...)...))
}

// list reads a list; more than the official emulator's number of elements is noted.
func (w *walk) list(n node, official int) []node {
	values, ok := n.value.([]any)
	if !ok {
		w.mistake(n, "must be a list, is %s", kind(n.value))
		return nil
	}
	if len(values) > official && official > 1 {
		w.exceeds(n, "has %d elements; the official emulator takes at most %d", len(values), official)
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

// count reads a whole number of at least 1, of deliveries.
func (w *walk) count(n node) int {
	f, ok := n.value.(float64)
	if !ok || f != math.Trunc(f) || f < 1 || f > math.MaxInt32 {
		w.mistake(n, "must be a whole number of at least 1, is %v", n.value)
		return 1
	}
	switch {
	case f > maxMaxDelivery:
		w.mistake(n, "must be at most %d, is %v", maxMaxDelivery, f)
	case f > officialMaxDelivery:
		w.exceeds(n, "is %v; the official emulator takes at most %d", f, officialMaxDelivery)
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

// within reads a duration and compares it with what is allowed.
func (w *walk) within(n node, s span) time.Duration {
	before := len(w.mistakes)
	d := w.duration(n)
	switch {
	case len(w.mistakes) > before || d == 0:
	case d > s.never:
		w.mistake(n, "must be at most %s, is %q", formatDuration(s.never), n.value)
	case d < s.least || d > s.most:
		w.exceeds(n, "is %v; the official emulator takes %s to %s", n.value, formatDuration(s.least), formatDuration(s.most))
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

// receiving is where the properties go that queues and subscriptions share.
type receiving struct {
	lock              *time.Duration
	maxDelivery       *int
	timeToLive        *time.Duration
	deadLetterExpired *bool
	session           *bool
	forwardTo         *string
	forwardDead       *string
}

func (w *walk) receiving(r receiving) members {
	return members{
		"LockDuration":                     func(n node) { *r.lock = w.within(n, lockDurations) },
		"MaxDeliveryCount":                 func(n node) { *r.maxDelivery = w.count(n) },
		"DefaultMessageTimeToLive":         func(n node) { *r.timeToLive = w.within(n, timesToLive) },
		"DeadLetteringOnMessageExpiration": func(n node) { *r.deadLetterExpired = w.boolean(n) },
		"ForwardTo":                        func(n node) { *r.forwardTo = w.forward(n) },
		"ForwardDeadLetteredMessagesTo":    func(n node) { *r.forwardDead = w.forward(n) },
		"RequiresSession":                  func(n node) { *r.session = w.boolean(n) },
	}
}

// detecting adds the properties of duplicate detection, which queues and topics share.
func (w *walk) detecting(p members, detect *bool, window *time.Duration) {
	p["RequiresDuplicateDetection"] = func(n node) { *detect = w.boolean(n) }
	p["DuplicateDetectionHistoryTimeWindow"] = func(n node) { *window = w.within(n, duplicateWindows) }
}

// forward reads the name of the queue or topic that messages go on to. Empty means that they stay.
func (w *walk) forward(n node) string {
	target := w.text(n)
	if target != "" {
		w.forwards = append(w.forwards, forward{n, target})
	}
	return target
}

// checkForwarding checks that what messages go on to is there. A topic's subscription takes messages from its topic
// alone.
func (w *walk) checkForwarding() {
	for _, f := range w.forwards {
		path, ok := w.entities[strings.ToLower(f.target)]
		switch {
		case !ok:
			w.mistake(f.node, "must name a queue or a topic of this namespace, and there is no %q", f.target)
		case strings.HasPrefix(f.node.path, path+".") && !strings.Contains(f.node.path, ".Subscriptions["):
			w.mistake(f.node, "must not name the queue itself")
		}
	}
}

func (w *walk) notBoth(n node, session bool, forwardTo string) {
	if session && forwardTo != "" {
		w.mistake(n, "RequiresSession and ForwardTo exclude each other: messages of sessions are not forwarded")
	}
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
