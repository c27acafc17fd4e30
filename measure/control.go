package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Ask sends a request to the emulator's control port and returns the answer's body.
func (s *Server) Ask(ctx context.Context, method, path, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.Control+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return answer, err
}

// Event is what is read here of a line of the event log.
type Event struct {
	Seq         uint64  `json:"seq"`
	Service     string  `json:"service"`
	Kind        string  `json:"kind"`
	Entity      string  `json:"entity"`
	Disposition string  `json:"disposition"`
	Operation   string  `json:"operation"`
	Charge      float64 `json:"charge"` // request units
	Rule        string  `json:"rule"`
}

// Events waits for events after a number, and returns them, none if none comes in ten seconds.
func (s *Server) Events(ctx context.Context, after uint64) ([]Event, error) {
	text, err := s.Ask(ctx, http.MethodGet, fmt.Sprintf("/control/events?after=%d&wait=10s", after), "")
	if err != nil {
		return nil, err
	}
	var events []Event
	for lines := json.NewDecoder(bytes.NewReader(text)); lines.More(); {
		var e Event
		if err := lines.Decode(&e); err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		events = append(events, e)
	}
	return events, nil
}
