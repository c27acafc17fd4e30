package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// API is the orchestrator's HTTP interface. GET /openapi.json describes it, and
// docs/api.md shows it.
//
//	POST /v1/executions                {"type":…, "payload":…, "executionId":…}
//	GET  /v1/executions                the newest first, ?status= ?type= ?q= ?limit= ?after=
//	GET  /v1/executions/{id}           the execution, with its ETag
//	GET  /v1/executions/{id}/timeline  what happened to it
//	POST /v1/executions/{id}/cancel    {"reason":…}, under If-Match
//	POST /v1/executions/{id}/replay    {"reason":…, "assertNothingApplied":…}
//	POST /v1/executions/{id}/resolve   {"reason":…, "resultRef":…}
//	GET  /v1/dead-letters              with what a replay of each would do, ?from= ?limit=
//	GET  /openapi.json, /livez, /readyz, /
//
// Errors are problem documents (RFC 9457). A web page of another origin cannot
// make a browser create executions: loopback alone would not keep it from that. Who
// asks, and whether they may, is for whoever stands in front of it to say.
func (o *Orchestrator) API() http.Handler {
	mux := http.NewServeMux()
	for _, r := range []resource{
		{path: "/v1/executions", get: o.list, post: o.create, query: []string{"status", "type", "q", "limit", "after"}},
		{path: "/v1/executions/{id}", get: o.show},
		{path: "/v1/executions/{id}/timeline", get: o.timeline},
		{path: "/v1/executions/{id}/cancel", post: o.cancel},
		{path: "/v1/executions/{id}/replay", post: o.replay},
		{path: "/v1/executions/{id}/resolve", post: o.resolve},
		{path: "/v1/dead-letters", get: o.deadLetters, query: []string{"from", "limit"}},
		{path: "/openapi.json", get: o.openAPI},
		{path: "/livez", get: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }},
		{path: "/readyz", get: o.ready},
		{path: "/{$}", get: o.home},
	} {
		mux.Handle(r.path, r)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { noSuchResource(w) })
	api := OwnOrigin(routed(mux))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !canonical(r.URL) {
			noSuchResource(w) // a mux would answer with a page that sends elsewhere
			return
		}
		api.ServeHTTP(w, r)
	})
}

// OwnOrigin is next, but for what a web page of another origin has a browser ask to
// change.
func OwnOrigin(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		WriteProblem(w, CrossOrigin, "a web page of another origin may not do this")
	}))
	return origins.Handler(next)
}

// canonical reports whether a path is written as its resource is named, without
// dots and doubled slashes.
func canonical(u *url.URL) bool {
	written := u.EscapedPath()
	clean := path.Clean(written)
	if strings.HasSuffix(written, "/") && clean != "/" {
		clean += "/"
	}
	return strings.HasPrefix(written, "/") && written == clean
}

func noSuchResource(w http.ResponseWriter) {
	WriteProblem(w, NoSuchResource, "no such resource: the executions are at /v1/executions, and /openapi.json describes everything")
}

// resource is what one path answers to.
type resource struct {
	path      string
	get, post http.HandlerFunc // nil: it has no such method
	query     []string         // the parameters of its GET
}

func (s resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serve, query := s.get, s.query
	switch {
	case r.Method == http.MethodPost:
		serve, query = s.post, nil
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		serve = nil
	}
	if serve == nil {
		w.Header().Set("Allow", s.allowed())
		WriteProblem(w, NoSuchMethod, "not "+strconv.QuoteToASCII(r.Method)+": this resource has "+s.allowed())
		return
	}
	for _, check := range []func(*http.Request) error{
		acceptable, jsonBody, func(r *http.Request) error { return onlyParameters(r, query) },
	} {
		if p, ok := errors.AsType[problem](check(r)); ok {
			WriteProblem(w, p.kind, p.detail)
			return
		}
	}
	serve(w, r)
}

func (s resource) allowed() string {
	switch {
	case s.post == nil:
		return "GET, HEAD"
	case s.get == nil:
		return "POST"
	}
	return "GET, HEAD, POST"
}

// acceptable refuses who takes anything but JSON. A range that cannot be read says
// nothing.
func acceptable(r *http.Request) error {
	ranges := strings.Split(strings.Join(r.Header.Values("Accept"), ","), ",")
	some := false
	for _, text := range ranges {
		taken, parameters, err := mime.ParseMediaType(text)
		if err != nil {
			continue
		}
		some = true
		quality, err := strconv.ParseFloat(parameters["q"], 64)
		if zero := err == nil && quality == 0; zero {
			continue
		}
		if slices.Contains([]string{"*/*", "application/*", "application/json"}, taken) {
			return nil
		}
	}
	if some {
		return problem{NotAcceptable, "there is only application/json, and application/problem+json for errors: accept it"}
	}
	return nil
}

// jsonBody refuses a body that says it is something else than JSON.
func jsonBody(r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return problem{NotJSON, "the body is encoded as " + strconv.QuoteToASCII(coding) + ": send it as it is"}
	}
	said := r.Header.Get("Content-Type")
	if said == "" {
		return nil
	}
	media, parameters, err := mime.ParseMediaType(said)
	if charset := parameters["charset"]; err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return problem{NotJSON, "the body is " + strconv.QuoteToASCII(said) + ": send application/json"}
	}
	return nil
}

// onlyParameters refuses parameters that a resource does not have: one that is
// mistyped would otherwise be one that is left out.
func onlyParameters(r *http.Request, known []string) error {
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return problem{InvalidRequest, "the query cannot be read: " + err.Error()}
	}
	for name := range given {
		if !slices.Contains(known, name) {
			return problem{InvalidRequest, fmt.Sprintf("no parameter is called %+q here; there are %q", name, known)}
		}
	}
	return nil
}

// number reads a parameter that is a number within bounds.
func number(r *http.Request, name string, least, most, otherwise int64) (int64, error) {
	values := r.URL.Query()[name]
	if len(values) == 0 {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || len(values) > 1 || n < least || n > most {
		return 0, problem{InvalidRequest, fmt.Sprintf("%s is %+q: give one number from %d to %d", name, values, least, most)}
	}
	return n, nil
}

// executionID is the id in a path.
func executionID(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if err := message.CheckExecutionID(id); err != nil {
		return "", problem{NoSuchResource, err.Error()}
	}
	return id, nil
}

// jsonAnyText writes what is no UTF-8 as the replacement character: an error may
// quote a caller's bytes.
var jsonAnyText = jsontext.AllowInvalidUTF8(true)

// writeJSON answers with a JSON document.
func (o *Orchestrator) writeJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := json.Marshal(v, jsonAnyText)
	if err != nil {
		o.fail(w, r, fmt.Errorf("%w: write JSON: %w", message.ErrRefused, err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the peer may be gone: nothing to do about it
	_, _ = io.WriteString(w, "\n")
}

func (o *Orchestrator) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if _, err := o.Store.Load(ctx, "readyz"); err != nil && !errors.Is(err, message.ErrNotFound) {
		o.fail(w, r, err)
		return
	}
	if o.Attached != nil {
		if err := o.Attached(ctx); err != nil {
			o.fail(w, r, fmt.Errorf("%w: %w", message.ErrTransient, err))
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

func (o *Orchestrator) home(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, "oneeffect orchestrator\n\nPOST /v1/executions       {\"type\":\"customer.create\",\"payload\":{\"name\":\"Ada\"}}\nGET  /v1/executions\nGET  /v1/executions/{id}\nGET  /openapi.json\n")
}
