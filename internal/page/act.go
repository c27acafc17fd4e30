package page

import (
	"errors"
	"mime"
	"net/http"
	"net/url"

	"oneeffect/internal/execution"
	"oneeffect/internal/orchestrator"
)

// maxForm bounds a form's bytes.
const maxForm = 16 << 10

// act does what a form asks for: the API does (P2).
func (p *Page) act(w http.ResponseWriter, r *http.Request, escaped, action string) {
	id, err := url.PathUnescape(escaped)
	media, _, err2 := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err := errors.Join(err, err2); err != nil || media != "application/x-www-form-urlencoded" {
		orchestrator.WriteProblem(w, orchestrator.InvalidRequest, "this path takes a form of the page; programs use /v1/executions/{id}/"+action)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		orchestrator.WriteProblem(w, orchestrator.InvalidRequest, "the form cannot be read, or is too long")
		return
	}
	form := r.PostForm
	body := map[string]any{"reason": form.Get("reason")}
	switch action {
	case "replay":
		body["assertNothingApplied"] = form.Get("assertNothingApplied") == "yes"
	case "resolve":
		body["resultRef"] = form.Get("resultRef")
	}
	header := http.Header{}
	if seen := form.Get("etag"); seen != "" {
		header.Set("If-Match", seen)
	}
	var changed execution.Execution
	_, err = p.ask(r, http.MethodPost, of(id, "/"+action), header, body, &changed)
	refused, isRefused := errors.AsType[*problem](err)
	switch {
	case err == nil && form.Get("back") == lettersPath:
		http.Redirect(w, r, lettersPath+"?done="+url.QueryEscape(id), http.StatusSeeOther)
	case err == nil:
		http.Redirect(w, r, "/executions/"+url.PathEscape(id)+"?done="+action, http.StatusSeeOther)
	case isRefused && !gone(err):
		p.showExecution(w, r, id, refused.Status, refusal{action, form, refused})
	default:
		p.fail(w, r, "/", err)
	}
}
