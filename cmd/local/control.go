package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// event is one line of the emulators' event log, as far as it is used here. The
// log is written by the emulators alone: it is what somebody outside the workers
// has seen.
type event struct {
	Seq         uint64    `json:"seq"`
	At          time.Time `json:"at"`
	Service     string    `json:"service"`
	Kind        string    `json:"kind"`
	Entity      string    `json:"entity"`
	Client      string    `json:"client"`
	Key         string    `json:"key"`
	Sequence    int64     `json:"sequenceNumber"`
	Delivery    int       `json:"delivery"`
	Disposition string    `json:"disposition"`
	Reason      string    `json:"reason"`
	Operation   string    `json:"operation"`
	Status      int       `json:"status"`
	ETagBefore  string    `json:"etagBefore"`
	ETagAfter   string    `json:"etagAfter"`
	BodyStatus  string    `json:"bodyStatus"`
	Method      string    `json:"method"`
	Path        string    `json:"path"`
	Effects     int       `json:"effects"`
	Replayed    bool      `json:"replayed"`
	Resource    string    `json:"resource"`
	Traceparent string    `json:"traceparent"`
	Rule        string    `json:"rule"`
}

// controller is the emulators' control interface, with the events read so far.
type controller struct {
	address string
	http    http.Client
	seen    []event
	last    uint64
}

// await returns the first event that matches, whether it has happened already or
// is still to come, until ctx ends. It never polls: the log is asked to answer
// when something happens.
func (c *controller) await(ctx context.Context, match func(event) bool) (event, error) {
	for from := 0; ; {
		for ; from < len(c.seen); from++ {
			if match(c.seen[from]) {
				return c.seen[from], nil
			}
		}
		if err := c.more(ctx, waitForMore); err != nil {
			return event{}, err
		}
	}
}

// until returns when the log as a whole is as it is asked to be.
func (c *controller) until(ctx context.Context, so func([]event) bool) error {
	for !so(c.seen) {
		if err := c.more(ctx, waitForMore); err != nil {
			return err
		}
	}
	return nil
}

// rest reads what has happened so far, and waits for nothing.
func (c *controller) rest(ctx context.Context) error { return c.more(ctx, 0) }

// count is how many of the events seen so far match.
func (c *controller) count(match func(event) bool) int {
	n := 0
	for _, e := range c.seen {
		if match(e) {
			n++
		}
	}
	return n
}

// waitForMore is how long one request waits for the next event.
const waitForMore = 10 * time.Second

// more reads what has happened since, and waits for something if nothing has.
func (c *controller) more(ctx context.Context, wait time.Duration) error {
	events, err := c.next(ctx, wait)
	c.seen = append(c.seen, events...)
	return err
}

// next is what has happened since, and waits for something if nothing has. It is for
// who cannot keep all that happens.
func (c *controller) next(ctx context.Context, wait time.Duration) (events []event, err error) {
	body, _, err := c.ask(ctx, http.MethodGet, "/control/events?wait="+wait.String()+"&after="+strconv.FormatUint(c.last, 10), nil)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return events, fmt.Errorf("read the event log: %w", err)
		}
		if e.Seq != c.last+1 {
			return events, fmt.Errorf("events %d to %d were forgotten before they were read: nothing can be counted", c.last+1, e.Seq-1)
		}
		events, c.last = append(events, e), e.Seq
	}
	return events, lines.Err()
}

// rule is a fault, as far as it is armed from here.
type rule struct {
	Name      string `json:"name"`
	Match     match  `json:"match"`
	When      string `json:"when"`
	Do        string `json:"do"`
	Status    int    `json:"status,omitempty"` // of an answer
	Condition string `json:"condition,omitempty"`
	Late      bool   `json:"late,omitempty"`
	Nth       int    `json:"nth,omitempty"`
	Times     int    `json:"times,omitempty"`

	Delay       string  `json:"delay,omitempty"`
	RetryAfter  string  `json:"retryAfter,omitempty"`
	Probability float64 `json:"probability,omitempty"`
	Seed        uint64  `json:"seed,omitempty"`
}

// match says which operations a rule is about.
type match struct {
	Service   string         `json:"service,omitempty"`
	Operation string         `json:"operation,omitempty"`
	Entity    string         `json:"entity,omitempty"`
	Client    string         `json:"client,omitempty"`
	Key       string         `json:"key,omitempty"`
	Body      map[string]any `json:"body,omitempty"`
}

func (c *controller) arm(ctx context.Context, r rule) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, _, err = c.ask(ctx, http.MethodPost, "/control/rules", body)
	return err
}

// disarm takes a rule away and says how often it has fired.
func (c *controller) disarm(ctx context.Context, name string) (fired int, err error) {
	answer, _, err := c.ask(ctx, http.MethodGet, "/control/rules/"+name, nil)
	if err != nil {
		return 0, err
	}
	var state struct {
		Fired int `json:"fired"`
	}
	if err := json.Unmarshal(answer, &state); err != nil {
		return 0, fmt.Errorf("read rule %s: %w", name, err)
	}
	_, _, err = c.ask(ctx, http.MethodDelete, "/control/rules/"+name, nil)
	return state.Fired, err
}

// release lets go of what a rule holds: "go" or "drop".
func (c *controller) release(ctx context.Context, name, action string) error {
	_, _, err := c.ask(ctx, http.MethodPost, "/control/rules/"+name+"/release", []byte(`{"action":"`+action+`"}`))
	return err
}

// jump moves the clock of all emulators.
func (c *controller) jump(ctx context.Context, by time.Duration) error {
	_, _, err := c.ask(ctx, http.MethodPost, "/control/clock", []byte(`{"jump":"`+by.String()+`"}`))
	return err
}

// switchOff turns one rule of an emulator off.
func (c *controller) switchOff(ctx context.Context, name string) error {
	_, _, err := c.ask(ctx, http.MethodPut, "/control/switches/"+name, []byte(`{"off":true}`))
	return err
}

// maxAnswer bounds what is read of one answer: no less than what a ledger that is full
// tells of keys that were used once or twice.
const maxAnswer = 128 << 20

func (c *controller) ask(ctx context.Context, method, path string, body []byte) ([]byte, http.Header, error) {
	return ask(ctx, &c.http, method, "http://"+c.address+path, body)
}

// askBound is how long one request may take: longer than the log is asked to wait, and
// than the longest ledger needs.
const askBound = 30 * time.Second

// ask makes one request; any answer but a 2xx is an error with its text.
func ask(ctx context.Context, client *http.Client, method, url string, body []byte) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return exchange(client, req)
}

// exchange sends a request and reads its answer.
func exchange(client *http.Client, req *http.Request) ([]byte, http.Header, error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", req.Method, req.URL, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, nil, fmt.Errorf("%s %s: %s: %s", req.Method, req.URL, resp.Status, strings.TrimSpace(string(answer)))
	}
	return answer, resp.Header, nil
}
