package orchestrator

import (
	"net/http"

	"oneeffect/internal/execution"
)

func (o *Orchestrator) show(w http.ResponseWriter, r *http.Request) {
	known, err := tagsOf(r, "If-None-Match")
	if err != nil {
		o.fail(w, r, err)
		return
	}
	id, err := executionID(r)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	stands, err := o.Store.Load(r.Context(), id)
	switch {
	case err != nil:
		o.fail(w, r, err)
	case known.weak(string(stands.ETag)):
		w.Header().Set("ETag", string(stands.ETag))
		w.WriteHeader(http.StatusNotModified)
	default:
		o.answer(w, r, http.StatusOK, stands)
	}
}

// answer shows an execution.
func (o *Orchestrator) answer(w http.ResponseWriter, r *http.Request, status int, s execution.Stored) {
	w.Header().Set("ETag", string(s.ETag))
	about(r.Context(), s.Execution)
	o.writeJSON(w, r, status, s.Execution)
}
