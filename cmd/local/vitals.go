package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// vitals are what a process that lives through a soak has been found to hold.
type vitals struct {
	child   *child
	profile string // URL of its profiles, once it has told
	since   time.Time
	seen    []vital
	missed  int // looks that were not answered in time: on a machine that has much else to do
}

// vital is one look at a process.
type vital struct {
	after      time.Duration
	goroutines float64 // but those of renewals
	renewals   float64 // goroutines of the SDK that renew a token for a link
	heap       float64 // bytes that live, after a collection
	resident   float64 // bytes that the system has given it
}

// lookEvery is how often processes are looked at.
const lookEvery = time.Second

// watch looks at the processes until ctx ends.
func (s *soaking) watch(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		for _, v := range s.vitals {
			err := v.look(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, context.DeadlineExceeded):
				v.missed++
			case err != nil:
				return fmt.Errorf("look at %s: %w", v.child.name, err)
			}
		}
	}
}

// look is one look. Before the process has told where its profiles are there is none.
func (v *vitals) look(ctx context.Context) error {
	if v.profile == "" {
		log, err := os.ReadFile(v.child.logPath)
		if err != nil {
			return err
		}
		if v.profile = profilesIn(log); v.profile == "" {
			return nil
		}
		v.since = time.Now()
	}
	profile, err := v.ask(ctx, "heap?gc=1&debug=1")
	if err != nil {
		return err
	}
	heap, err := numberIn(profile, `(?m)^# HeapAlloc = (\d+)$`)
	if err != nil {
		return err
	}
	if profile, err = v.ask(ctx, "goroutine?debug=1"); err != nil {
		return err
	}
	goroutines, renewals, err := goroutinesIn(profile)
	if err != nil {
		return err
	}
	resident, err := residentOf(v.child.cmd.Process.Pid)
	if err != nil {
		return err
	}
	v.seen = append(v.seen, vital{time.Since(v.since), goroutines, renewals, heap, resident})
	return nil
}

// profilesIn finds where a process says that its profiles are.
func profilesIn(log []byte) string {
	lines := bufio.NewScanner(bytes.NewReader(log))
	for lines.Scan() {
		var line struct {
			Message string `json:"msg"`
			Address string `json:"address"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "profiles" {
			return line.Address
		}
	}
	return ""
}

// lookBound is how long a process may take to tell.
const lookBound = 10 * time.Second

func (v *vitals) ask(ctx context.Context, profile string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	text, _, err := ask(ctx, http.DefaultClient, http.MethodGet, v.profile+profile, nil)
	return text, err
}

func numberIn(profile []byte, number string) (float64, error) {
	found := regexp.MustCompile(number).FindSubmatch(profile)
	if found == nil {
		return 0, fmt.Errorf("the profile does not say %s: %.80s", number, profile)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// ofRenewal is a line of a goroutine that renews a token for a link. azservicebus 1.11.0
// forgets some for good: whoever asks for links that are not there makes them, one after
// the other, and of what the last one does not replace two of these stay
// (internal/amqpLinks.go, Get, looks before it takes the lock and not after).
const ofRenewal = "azservicebus/internal.(*Namespace).startNegotiateClaimRenewer."

// goroutinesIn counts what a profile shows, renewals apart.
func goroutinesIn(profile []byte) (others, renewals float64, err error) {
	total, err := numberIn(profile, `^goroutine profile: total (\d+)`)
	if err != nil {
		return 0, 0, err
	}
	for stack := range bytes.SplitSeq(profile, []byte("\n\n")) {
		if !bytes.Contains(stack, []byte(ofRenewal)) {
			continue
		}
		n, err := numberIn(stack, `(?m)^(\d+) @ `)
		if err != nil {
			return 0, 0, err
		}
		renewals += n
	}
	return total - renewals, renewals, nil
}

// residentOf is what the system has given a process, where there is a /proc to say so.
func residentOf(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		return math.NaN(), nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if kilobytes, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kilobytes), "kB")), 64)
			return n * 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmRSS", pid)
}

// The bounds of what a process may grow by in a minute. A goroutine that every kill,
// or every dropped link, left behind would be more than ten; a hundred bytes that every
// task left behind would be some 60 KiB, so the heap may grow by half of that. The
// orchestrator's list of the newest 10,000 executions grows until it is full: until then
// it may grow by what the list takes. Memory that the system has given comes in steps,
// and not back at once.
const (
	goroutinesBound = 1
	heapBound       = 32 << 10
	indexBound      = 1 << 20
	residentBound   = 1 << 20

	// judgedFrom is the shortest time from which a slope is judged: the second half of
	// a run, since in the first one pools and lists fill.
	judgedFrom = time.Minute
)

// slope is a straight line through what was seen: how much it rises in a minute, and
// the standard error of that.
type slope struct{ rise, err float64 }

// fit is the line of the least squares.
func fit(seen []vital, what func(vital) float64) slope {
	n := float64(len(seen))
	var x, y float64
	for _, v := range seen {
		x, y = x+v.after.Minutes()/n, y+what(v)/n
	}
	var xx, xy, rest float64
	for _, v := range seen {
		dx := v.after.Minutes() - x
		xx, xy = xx+dx*dx, xy+dx*(what(v)-y)
	}
	s := slope{rise: xy / xx}
	for _, v := range seen {
		d := what(v) - y - s.rise*(v.after.Minutes()-x)
		rest += d * d
	}
	s.err = math.Sqrt(rest / (n - 2) / xx)
	return s
}

// exceeds says that a slope is above its bound, by more than the scatter explains.
func (s slope) exceeds(bound float64) bool { return s.rise-3*s.err > bound }

// judge says in a line what a process has held through a soak, and whether that was flat.
func (v *vitals) judge(load time.Duration) (line string, err error) {
	half := v.seen[len(v.seen)/2:]
	if len(half) < 3 || v.missed > len(v.seen) {
		line = fmt.Sprintf("%s was looked at %d times, and did not answer %d times: nothing is known of it", v.child.name, len(v.seen), v.missed)
		if load >= 2*judgedFrom {
			err = errors.New(line)
		}
		return line, err
	}
	bound := float64(heapBound)
	if v.child.name == "orchestrator" {
		bound = indexBound
	}
	return v.judged(half, bound)
}

// judged fits the second half of what was seen.
func (v *vitals) judged(half []vital, heap float64) (line string, err error) {
	const kib = 1 << 10
	took := half[len(half)-1].after - half[0].after
	var said []string
	var errs []error
	for _, m := range []struct {
		name        string
		of          func(vital) float64
		bound, unit float64
		unitName    string
	}{
		{"goroutines", func(l vital) float64 { return l.goroutines }, goroutinesBound, 1, ""},
		{"heap", func(l vital) float64 { return l.heap }, heap, kib, " KiB"},
		{"resident", func(l vital) float64 { return l.resident }, residentBound, kib, " KiB"},
	} {
		last := m.of(half[len(half)-1])
		if math.IsNaN(last) {
			said = append(said, m.name+" not known on this system")
			continue
		}
		s := fit(half, m.of)
		said = append(said, fmt.Sprintf("%s %.0f%s, %+.1f ± %.1f a minute (bound %.0f)", m.name, last/m.unit, m.unitName, s.rise/m.unit, s.err/m.unit, m.bound/m.unit))
		if took >= judgedFrom && s.exceeds(m.bound) {
			errs = append(errs, fmt.Errorf("%s of %s grow by %.1f%s a minute, more than %.0f", m.name, v.child.name, s.rise/m.unit, m.unitName, m.bound/m.unit))
		}
	}
	renewals := half[len(half)-1].renewals
	said = append(said, fmt.Sprintf("renewals of tokens %.0f, %+.0f", renewals, renewals-half[0].renewals))
	line = fmt.Sprintf("%s over the last %v, %d looks: %s", v.child.name, took.Round(time.Second), len(half), strings.Join(said, "; "))
	if took < judgedFrom {
		line += fmt.Sprintf(" (not judged: under %v says nothing of a slope)", judgedFrom)
	}
	return line, errors.Join(errs...)
}
