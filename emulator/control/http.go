package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	bodyLimit = 1 << 20
	waitLimit = 10 * time.Minute
	jumpLimit = 366 * 24 * time.Hour
)

// face is the hub over HTTP.
type face struct{ hub *Hub }

// Handler serves the hub over HTTP, for a loopback listener of its own. A
// browser's request from another site's page is refused.
//
//	POST   /control/rules                        arm a rule: 201 {"name": …}
//	GET    /control/rules                        every rule and its state
//	GET    /control/rules/{name}                 one; ?for=reached or peer-gone, &wait=30s: 200, or 408 if it did not happen
//	POST   /control/rules/{name}/release         {"action": "go"} or "drop" or "answer"
//	DELETE /control/rules/{name}                 disarm
//	GET    /control/events?after=N&wait=30s      JSON lines; waits if there are none
//	GET    /control/clock                        {"now": …, "offset": …}
//	POST   /control/clock                        {"jump": "5m"}
//	GET    /control/switches                     every switch
//	PUT    /control/switches/{name}              {"off": true}
//	PUT    /control/clients/{client}/isolation   and DELETE
//	GET    /control/lag                          every lag of a replica
//	PUT    /control/lag/{container}              {"commits": 3} or {"duration": "5s"}; /control/lag is of all; and DELETE
//	GET    /healthz
func (h *Hub) Handler() http.Handler {
	f := face{hub: h}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /control/rules", f.arm)
	mux.HandleFunc("GET /control/rules", f.rules)
	mux.HandleFunc("GET /control/rules/{name}", f.rule)
	mux.HandleFunc("POST /control/rules/{name}/release", f.release)
	mux.HandleFunc("DELETE /control/rules/{name}", f.disarm)
	mux.HandleFunc("GET /control/events", f.events)
	mux.HandleFunc("GET /control/clock", f.clock)
	mux.HandleFunc("POST /control/clock", f.jump)
	mux.HandleFunc("GET /control/switches", f.switches)
	mux.HandleFunc("PUT /control/switches/{name...}", f.turn)
	mux.HandleFunc("PUT /control/clients/{client}/isolation", f.isolate)
	mux.HandleFunc("DELETE /control/clients/{client}/isolation", f.rejoin)
	mux.HandleFunc("GET /control/lag", f.lags)
	for _, at := range []string{"/control/lag", "/control/lag/{container}"} {
		mux.HandleFunc("PUT "+at, f.lag)
		mux.HandleFunc("DELETE "+at, f.endLag)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound, fmt.Errorf("there is no %s %s; there are /control/rules, /control/events, "+
			"/control/clock, /control/switches, /control/clients/{client}/isolation, /control/lag and /healthz", r.Method, r.URL.Path))
	})
	return http.NewCrossOriginProtection().Handler(mux)
}

func (f face) arm(w http.ResponseWriter, r *http.Request) {
	var rule Rule
	if !read(w, r, &rule) {
		return
	}
	name, err := f.hub.Arm(rule)
	if err != nil {
		problem(w, statusOf(err), err)
		return
	}
	w.Header().Set("Location", "/control/rules/"+name)
	write(w, http.StatusCreated, map[string]string{"name": name})
}

func (f face) rules(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]any{"rules": f.hub.Rules()})
}

// firingView is a Firing as JSON, its body as a document if it is one.
type firingView struct {
	Name      string `json:"name"`
	Service   string `json:"service,omitempty"`
	Operation string `json:"operation,omitempty"`
	Entity    string `json:"entity,omitempty"`
	Client    string `json:"client,omitempty"`
	Key       string `json:"key,omitempty"`
	Body      any    `json:"body,omitempty"`
	PeerGone  bool   `json:"peerGone"`
}

func viewOf(name string, firing Firing) firingView {
	op := firing.Op
	v := firingView{
		Name: name, Service: op.Service, Operation: op.Operation, Entity: op.Entity,
		Client: op.Client, Key: op.Key, PeerGone: firing.PeerGone,
	}
	switch {
	case json.Valid(op.Body):
		v.Body = json.RawMessage(op.Body)
	case len(op.Body) > 0:
		v.Body = string(op.Body)
	}
	return v
}

func (f face) rule(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	wait, err := waitOf(r)
	if err != nil {
		problem(w, http.StatusBadRequest, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	var firing Firing
	switch what := r.URL.Query().Get("for"); what {
	case "":
		f.state(w, name)
		return
	case "reached":
		firing, err = f.hub.waitRule(ctx, name, func(r *armed) *Firing { return r.reached })
	case "peer-gone":
		firing, err = f.hub.waitRule(ctx, name, func(r *armed) *Firing { return r.gone })
	default:
		err = fmt.Errorf(`for=%q: say "reached" or "peer-gone"`, what)
	}
	switch {
	case err == nil:
		write(w, http.StatusOK, viewOf(name, firing))
	case r.Context().Err() != nil: // nobody is there to read an answer
	case errors.Is(err, context.DeadlineExceeded):
		problem(w, http.StatusRequestTimeout, fmt.Errorf("rule %q: did not happen within %v; ask again, or for longer", name, wait))
	default:
		problem(w, statusOf(err), fmt.Errorf("rule %q: %w", name, err))
	}
}

func (f face) state(w http.ResponseWriter, name string) {
	states := f.hub.Rules()
	i := slices.IndexFunc(states, func(s RuleState) bool { return s.Rule.Name == name })
	if i < 0 {
		problem(w, http.StatusNotFound, fmt.Errorf("rule %q: %w", name, ErrNoRule))
		return
	}
	write(w, http.StatusOK, states[i])
}

func (f face) release(w http.ResponseWriter, r *http.Request) {
	var how Release
	if !read(w, r, &how) {
		return
	}
	done(w, f.hub.Release(r.PathValue("name"), how))
}

func (f face) disarm(w http.ResponseWriter, r *http.Request) {
	done(w, f.hub.Disarm(r.PathValue("name")))
}

func (f face) events(w http.ResponseWriter, r *http.Request) {
	var after uint64
	var mistakes []error
	if text := r.URL.Query().Get("after"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("after=%q: must be the number of an event, or 0", text))
		}
		after = n
	}
	wait, err := waitOf(r)
	mistakes = append(mistakes, err)
	if err := errors.Join(mistakes...); err != nil {
		problem(w, http.StatusBadRequest, err)
		return
	}
	events, grown := f.hub.log.next(after, chunkSize)
	if grown != nil && wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-grown:
		case <-timer.C:
		case <-f.hub.closed:
		case <-r.Context().Done():
			return
		}
		events, _ = f.hub.log.next(after, chunkSize)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	lines := json.NewEncoder(w)
	for len(events) > 0 {
		for _, e := range events {
			if lines.Encode(e) != nil {
				return // the reader has gone
			}
			after = e.Seq
		}
		events, _ = f.hub.log.next(after, chunkSize)
	}
}

func (f face) clock(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]any{"now": f.hub.Now(), "offset": f.hub.Offset().String()})
}

func (f face) jump(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Jump Duration `json:"jump"`
	}
	if !read(w, r, &body) {
		return
	}
	jump := time.Duration(body.Jump)
	if jump == 0 || jump.Abs() > jumpLimit {
		problem(w, http.StatusBadRequest, fmt.Errorf(`jump %v: say how far, like "5m" or "-1h", at most %v`, jump, jumpLimit))
		return
	}
	f.hub.Jump(jump)
	f.clock(w, r)
}

func (f face) switches(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]any{"switches": f.hub.Switches()})
}

func (f face) turn(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Off *bool `json:"off"`
	}
	if !read(w, r, &body) {
		return
	}
	if body.Off == nil {
		problem(w, http.StatusBadRequest, errors.New(`off: say true or false`))
		return
	}
	done(w, f.hub.Switch(r.PathValue("name"), *body.Off))
}

func (f face) isolate(w http.ResponseWriter, r *http.Request) {
	f.hub.Isolate(r.PathValue("client"))
	done(w, nil)
}

func (f face) rejoin(w http.ResponseWriter, r *http.Request) {
	f.hub.Rejoin(r.PathValue("client"))
	done(w, nil)
}

func (f face) lags(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]any{"lags": f.hub.Lags()})
}

func (f face) lag(w http.ResponseWriter, r *http.Request) {
	var lag Lag
	if !read(w, r, &lag) {
		return
	}
	done(w, f.hub.SetLag(r.PathValue("container"), lag))
}

func (f face) endLag(w http.ResponseWriter, r *http.Request) {
	f.hub.EndLag(r.PathValue("container"))
	done(w, nil)
}

// waitOf reads ?wait=30s; without it nothing is waited for.
func waitOf(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > waitLimit {
		return 0, fmt.Errorf(`wait=%q: must be a duration like "30s", at most %v`, text, waitLimit)
	}
	return wait, nil
}

// read decodes the body strictly, or answers with all that is wrong with it.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		problem(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the body is larger than %d bytes", bodyLimit))
		return false
	}
	if err == nil {
		err = decode(data, into)
	}
	if err != nil {
		problem(w, http.StatusBadRequest, err)
	}
	return err == nil
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, ErrNoRule):
		return http.StatusNotFound
	case errors.Is(err, ErrNotReached):
		return http.StatusConflict
	case errors.Is(err, ErrClosed):
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// done answers a request that has nothing to say but whether it worked.
func done(w http.ResponseWriter, err error) {
	if err != nil {
		problem(w, statusOf(err), err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// problem answers with RFC 9457 problem details; a detail of several lines is
// several mistakes, and stands as a list too.
func problem(w http.ResponseWriter, status int, err error) {
	p := map[string]any{"title": http.StatusText(status), "status": status, "detail": err.Error()}
	if mistakes := strings.Split(err.Error(), "\n"); len(mistakes) > 1 {
		p["mistakes"] = mistakes
	}
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, status, p)
}

func write(w http.ResponseWriter, status int, body any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a reader that has gone cannot be told
}
