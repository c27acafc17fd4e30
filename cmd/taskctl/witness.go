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

// sighting is one line of the emulators' event log, as far as a drill uses it.
type sighting struct {
	Seq         uint64 `json:"seq"`
	Kind        string `json:"kind"`
	Entity      string `json:"entity"`
	Client      string `json:"client"`
	Key         string `json:"key"`
	Operation   string `json:"operation"`
	Disposition string `json:"disposition"`
	Status      int    `json:"status"`
	BodyStatus  string `json:"bodyStatus"`
	Traceparent string `json:"traceparent"`
	Rule        string `json:"rule"`
}

// witness is the emulators' control interface, with what it has told since skip.
type witness struct {
	base string
	seen []sighting
	last uint64
}

// Bounds of one request: how long it may take, and how much its answer may be. A
// witness waits for news for some seconds at a time.
const (
	askBound = 15 * time.Second
	newsWait = 5 * time.Second
	maxLog   = 64 << 20
)

// skip forgets what has happened so far, as the log may have before it.
func (w *witness) skip(ctx context.Context) error {
	seen, err := w.after(ctx, 0)
	if len(seen) > 0 {
		w.last = seen[len(seen)-1].Seq
	}
	return err
}

// await returns the first event that matches, whether it has happened already or is
// still to come.
func (w *witness) await(ctx context.Context, what string, match func(sighting) bool) (sighting, error) {
	for from := 0; ; {
		for ; from < len(w.seen); from++ {
			if match(w.seen[from]) {
				return w.seen[from], nil
			}
		}
		if err := w.more(ctx, newsWait); err != nil {
			return sighting{}, fmt.Errorf("wait for the event %s: %w", what, err)
		}
	}
}

// more reads what has happened since, and waits for something if nothing has. What the
// log has forgotten meanwhile may have been what is waited for.
func (w *witness) more(ctx context.Context, wait time.Duration) error {
	news, err := w.after(ctx, wait)
	if err != nil {
		return err
	}
	for _, s := range news {
		if s.Seq != w.last+1 {
			return fmt.Errorf("events %d to %d were forgotten before they were read: try again with less load on the emulators", w.last+1, s.Seq-1)
		}
		w.seen, w.last = append(w.seen, s), s.Seq
	}
	return nil
}

// after reads the log from the last event on.
func (w *witness) after(ctx context.Context, wait time.Duration) (news []sighting, err error) {
	bounded, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	req, err := http.NewRequestWithContext(bounded, http.MethodGet, w.url("/control/events?wait="+wait.String()+"&after="+strconv.FormatUint(w.last, 10)), nil)
	if err != nil {
		return nil, err
	}
	answer, err := answerTo(req)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(answer))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s sighting
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("read the event log: %w", err)
		}
		news = append(news, s)
	}
	return news, lines.Err()
}

// ask makes one request of the control interface.
func (w *witness) ask(ctx context.Context, method, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.url(path), bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	_, err = answerTo(req)
	return err
}

func (w *witness) url(path string) string { return strings.TrimSuffix(w.base, "/") + path }

// answerTo sends a request; any answer but a 2xx is an error with its text.
func answerTo(req *http.Request) ([]byte, error) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxLog))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %s", req.Method, req.URL, resp.Status, strings.TrimSpace(string(answer)))
	}
	return answer, nil
}
