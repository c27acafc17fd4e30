package sim

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"oneeffect/internal/message"
)

// attend is an operator who looks at what has failed, tells the truth and waits as
// long as is asked. how is what there is a choice of.
func (pl *player) attend(how int) {
	for id, since := range pl.h.failed() {
		if time.Since(since) < pl.pace.replaySettle || how == 2 {
			continue
		}
		v, _ := pl.h.execution(id)
		uncertain := v.doc.Failure != nil && slices.Contains([]string{message.OutcomeUnknown, message.KeyWindowPassed}, v.doc.Failure.Reason)
		nothing, all := pl.applied(id)
		path := "/v1/executions/" + id
		switch {
		case !uncertain && !nothing && all && how == 1:
			pl.note("resolve", id, "", pl.ask(http.MethodPost, path+"/resolve", `{"reason":"it is there","resultRef":"/seen/`+id+`"}`, ""))
		case !uncertain:
			pl.note("replay", id, "", pl.ask(http.MethodPost, path+"/replay", `{"reason":"try again"}`, ""))
		case nothing:
			pl.note("replay", id, "asserted", pl.ask(http.MethodPost, path+"/replay", `{"reason":"nothing there","assertNothingApplied":true}`, ""))
		case all:
			pl.note("resolve", id, "", pl.ask(http.MethodPost, path+"/resolve", `{"reason":"it is there","resultRef":"/seen/`+id+`"}`, ""))
		}
	}
}

// applied is what an operator sees downstream: whether every effect has its result in
// the claim, and whether everything is done.
func (pl *player) applied(id string) (nothing, all bool) {
	kept := map[string]bool{}
	if v := pl.h.claim(id); v != nil {
		for step := range v.doc.Steps {
			kept[step] = true
		}
	}
	effects := pl.h.witness.effects(id)
	nothing = true
	for where, n := range effects {
		path, key, _ := strings.Cut(where, " ")
		_, step, _ := strings.Cut(key, "/")
		if path == "/letters" && len(stepsOf[pl.h.plan.Tasks[id]]) > 0 {
			step = "letter"
		}
		nothing = nothing && (n == 0 || kept[step])
	}
	count := 0
	for _, n := range effects {
		count += min(n, 1)
	}
	return nothing, count == len(callsOf[pl.h.plan.Tasks[id]])
}

// stepsOf are the steps of those types that have several, in their order.
var stepsOf = map[string][]string{
	"customer.move": {"invoice", "address"}, "customer.welcome": {"customer", "letter"}, "customer.greet": {"letter", "customer"},
}

// callsOf are the paths that each type of task calls, in their order.
var callsOf = map[string][]string{
	"customer.create": {"/customers"}, "customer.brief": {"/customers"}, "letter.print": {"/letters"}, "customer.greet": {"/letters", "/customers"},
	"customer.move": {"/customers", "/customers"}, "customer.welcome": {"/customers", "/letters"},
}
