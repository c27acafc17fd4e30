package page

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// listPage is the front page.
type listPage struct {
	frame
	Executions []execution.Summary
	Order      string
	AsOf       time.Time
	Next       string
	Statuses   []choice
	Type       string
	Text       string
	First      bool // the newest page, and so a live one
	Filtered   bool
}

// choice is one box of the filter.
type choice struct {
	Value   execution.Status
	Checked bool
}

// list shows executions. What is searched for by its whole id is found however old it
// is.
func (p *Page) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	data := listPage{frame: p.frame(r, "Executions", "/"), Type: query.Get("type"), Text: query.Get("q"), First: query.Get("after") == ""}
	data.Live = p.Live.Now() // before looking: what comes in between is told again
	if p.known(r, data.Text) {
		http.Redirect(w, r, "/executions/"+url.PathEscape(data.Text), http.StatusSeeOther)
		return
	}
	asked := url.Values{}
	for _, name := range []string{"status", "type", "q", "after", "limit"} {
		for _, value := range query[name] {
			if value != "" {
				asked.Add(name, value)
			}
		}
	}
	for _, s := range execution.Statuses() {
		data.Statuses = append(data.Statuses, choice{s, slices.Contains(query["status"], string(s))})
	}
	data.Filtered = asked.Has("status") || asked.Has("type") || asked.Has("q")
	var answered struct {
		Executions []execution.Summary `json:"executions"`
		Order      string              `json:"order"`
		AsOf       time.Time           `json:"asOf"`
		Next       string              `json:"next"`
	}
	if _, err := p.ask(r, http.MethodGet, "/v1/executions?"+asked.Encode(), nil, nil, &answered); err != nil {
		p.fail(w, r, "/", err)
		return
	}
	data.Executions, data.Order, data.AsOf = answered.Executions, answered.Order, answered.AsOf
	if next, err := url.Parse(answered.Next); err == nil && answered.Next != "" {
		data.Next = "/?" + next.RawQuery
	}
	p.show(w, r, http.StatusOK, "list.html", data)
}

// known reports whether a text is an execution's id.
func (p *Page) known(r *http.Request, text string) bool {
	if text == "" || message.CheckExecutionID(text) != nil {
		return false
	}
	var e execution.Execution
	_, err := p.ask(r, http.MethodGet, of(text, ""), nil, nil, &e)
	return err == nil
}
