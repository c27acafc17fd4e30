package orchestrator

import (
	"errors"
	"log/slog"
	"net/http"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
)

// Problem is a kind of problem (RFC 9457). Its name ends the URI that a problem
// document has as its type, and never changes: callers decide by it. The detail is
// for people.
type Problem string

// The kinds of problem.
const (
	InvalidRequest       Problem = "invalid-request"       // 400: it cannot be read
	Unauthenticated      Problem = "unauthenticated"       // 401: nobody knows who asks
	NotPermitted         Problem = "not-permitted"         // 403: who asks may not
	CrossOrigin          Problem = "cross-origin"          // 403: a web page of another origin asks
	NoSuchResource       Problem = "no-such-resource"      // 404
	NoSuchMethod         Problem = "no-such-method"        // 405
	NotAcceptable        Problem = "not-acceptable"        // 406: there is only JSON
	SlowBody             Problem = "slow-body"             // 408
	NotPossible          Problem = "not-possible"          // 409: not as the execution stands
	Changed              Problem = "changed"               // 412: If-Match names another version
	BodyTooLarge         Problem = "body-too-large"        // 413
	NotJSON              Problem = "not-json"              // 415
	Misdirected          Problem = "misdirected"           // 421: an open API by another name than loopback's
	InvalidExecution     Problem = "invalid-execution"     // 422: it can be read, and not be executed
	KeyReused            Problem = "key-reused"            // 422: the key stands for another request
	PreconditionRequired Problem = "precondition-required" // 428: no If-Match
	StoreRefused         Problem = "store-refused"         // 500: and will again until an operator removes the cause
	Unavailable          Problem = "unavailable"           // 503: try again
)

// problemType begins every problem's type.
const problemType = "urn:oneeffect:problem:"

// Status is the HTTP status that a kind of problem is answered with.
func (p Problem) Status() int {
	switch p {
	case InvalidRequest:
		return http.StatusBadRequest
	case Unauthenticated:
		return http.StatusUnauthorized
	case NotPermitted, CrossOrigin:
		return http.StatusForbidden
	case NoSuchResource:
		return http.StatusNotFound
	case NoSuchMethod:
		return http.StatusMethodNotAllowed
	case NotAcceptable:
		return http.StatusNotAcceptable
	case SlowBody:
		return http.StatusRequestTimeout
	case NotPossible:
		return http.StatusConflict
	case Changed:
		return http.StatusPreconditionFailed
	case BodyTooLarge:
		return http.StatusRequestEntityTooLarge
	case NotJSON:
		return http.StatusUnsupportedMediaType
	case Misdirected:
		return http.StatusMisdirectedRequest
	case InvalidExecution, KeyReused:
		return http.StatusUnprocessableEntity
	case PreconditionRequired:
		return http.StatusPreconditionRequired
	case Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// WriteProblem answers with a problem document. What it says beside its detail is
// the same for every problem of its kind.
func WriteProblem(w http.ResponseWriter, p Problem, detail string) {
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{problemType + string(p), http.StatusText(p.Status()), p.Status(), detail}, jsonAnyText)
	if err != nil {
		body = []byte(`{}`)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status())
	_, _ = w.Write(append(body, '\n')) // the peer may be gone: nothing to do about it
}

// problem is an error that says with which kind of problem it is answered.
type problem struct {
	kind   Problem
	detail string
}

func (p problem) Error() string { return p.detail }

// fail answers with an error. What is not a problem of the caller's is the store's:
// of a refusal nobody is told to try again, since the same request will be refused
// until somebody removes the cause. The cause goes to the log, not to the caller.
func (o *Orchestrator) fail(w http.ResponseWriter, r *http.Request, err error) {
	if p, ok := errors.AsType[problem](err); ok {
		WriteProblem(w, p.kind, p.detail)
		return
	}
	o.Log.LogAttrs(r.Context(), slog.LevelWarn, "request not answered", slog.String("path", r.URL.Path), slog.Any("err", err))
	switch {
	case errors.Is(err, message.ErrNotFound):
		WriteProblem(w, NoSuchResource, "no execution has this id")
	case errors.Is(err, message.ErrRefused) && !errors.Is(err, message.ErrUnknown):
		WriteProblem(w, StoreRefused, "the store refused it, and will again until the cause is removed, which the log of this process names; nothing was begun")
	default:
		w.Header().Set("Retry-After", "1")
		WriteProblem(w, Unavailable, "the store did not answer; try again: the same request, with the same Idempotency-Key or executionId, is never carried out twice")
	}
}
