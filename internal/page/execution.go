package page

import (
	"html/template"
	"net/http"
	"net/url"

	"oneeffect/internal/diagram"
	"oneeffect/internal/execution"

	"github.com/go-json-experiment/json/jsontext"
)

// executionPage is the page of one execution.
type executionPage struct {
	frame
	Execution execution.Execution
	ETag      string
	Line      diagram.Timeline
	Diagram   diagram.Diagram
	SVG       template.HTML
	Payload   string
	Cut       bool // the payload is longer
	Done      string
	Refused   string     // the action that was
	Form      url.Values // what its form was sent with
}

// Kept is what was written in a form that was refused.
func (p executionPage) Kept(action, field string) string {
	if p.Refused != action {
		return ""
	}
	return p.Form.Get(field)
}

// refusal is what was asked for and refused, and why; its zero: nothing was.
type refusal struct {
	action  string
	form    url.Values
	problem *problem
}

// maxPayload bounds what a page shows of a payload.
const maxPayload = 16 << 10

func (p *Page) execution(w http.ResponseWriter, r *http.Request, escaped string) {
	id, err := url.PathUnescape(escaped)
	if err != nil {
		p.o.API.ServeHTTP(w, r)
		return
	}
	p.showExecution(w, r, id, http.StatusOK, refusal{})
}

// showExecution shows an execution as it stands, and beside it why something that was
// asked for was refused.
func (p *Page) showExecution(w http.ResponseWriter, r *http.Request, id string, status int, was refusal) {
	data := executionPage{frame: p.frame(r, id, "/"), Refused: was.action, Form: was.form}
	data.Live = p.Live.Now()
	etag, err := p.ask(r, http.MethodGet, of(id, ""), nil, nil, &data.Execution)
	if err == nil {
		_, err = p.ask(r, http.MethodGet, of(id, "/timeline"), nil, nil, &data.Line)
	}
	if err != nil {
		p.fail(w, r, "/", err)
		return
	}
	data.ETag, data.Problem = etag, was.problem
	data.Diagram = diagram.Of(data.Line)
	data.SVG = template.HTML(diagram.SVG(data.Diagram)) //nolint:gosec // its promise G3: no foreign markup is in it
	data.Payload, data.Cut = pretty(data.Execution.Payload)
	if done := r.URL.Query().Get("done"); was.problem == nil && (done == "cancel" || done == "replay" || done == "resolve") {
		data.Done = done
	}
	p.show(w, r, status, "execution.html", data)
}

func pretty(payload jsontext.Value) (text string, cut bool) {
	if len(payload) > maxPayload {
		return string(payload[:maxPayload]), true
	}
	indented := payload.Clone()
	if err := indented.Indent(jsontext.WithIndent("  ")); err != nil {
		return string(payload), false
	}
	return string(indented), false
}
