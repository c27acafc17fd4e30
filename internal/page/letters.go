package page

import (
	"net/http"
	"net/url"
	"time"

	"oneeffect/internal/orchestrator"
)

// lettersPath is where they are, and where a form may lead back to.
const lettersPath = "/dead-letters"

// lettersPage is the page of dead letters.
type lettersPage struct {
	frame
	Letters []letter
	Next    string
	Done    string // the execution that was replayed
}

// letter is a dead letter as the API shows it.
type letter struct {
	Sequence      int64                `json:"sequence"`
	MessageID     string               `json:"messageId"`
	Reason        string               `json:"reason"`
	Description   string               `json:"description"`
	EnqueuedAt    time.Time            `json:"enqueuedAt"`
	DeliveryCount int                  `json:"deliveryCount"`
	ExecutionID   string               `json:"executionId"`
	Type          string               `json:"type"`
	Run           int                  `json:"run"`
	Status        string               `json:"status"`
	ETag          string               `json:"etag"`
	Verdict       orchestrator.Verdict `json:"verdict"`
	Why           string               `json:"why"`
}

// Replays reports whether a replay may be asked for.
func (l letter) Replays() bool { return l.Verdict == orchestrator.Safe || l.Unknown() }

// Unknown reports whether a replay takes somebody who has looked.
func (l letter) Unknown() bool {
	return l.Verdict == orchestrator.OutcomeUnknown && l.Status == "FAILED"
}

func (p *Page) letters(w http.ResponseWriter, r *http.Request) {
	data := lettersPage{frame: p.frame(r, "Dead letters", lettersPath), Done: r.URL.Query().Get("done")}
	asked := url.Values{}
	for _, name := range []string{"from", "limit"} {
		if value := r.URL.Query().Get(name); value != "" {
			asked.Set(name, value)
		}
	}
	var answered struct {
		DeadLetters []letter `json:"deadLetters"`
		Next        string   `json:"next"`
	}
	if _, err := p.ask(r, http.MethodGet, "/v1/dead-letters?"+asked.Encode(), nil, nil, &answered); err != nil {
		p.fail(w, r, lettersPath, err)
		return
	}
	data.Letters = answered.DeadLetters
	if next, err := url.Parse(answered.Next); err == nil && answered.Next != "" {
		data.Next = lettersPath + "?" + next.RawQuery
	}
	p.show(w, r, http.StatusOK, "letters.html", data)
}
