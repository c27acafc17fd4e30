package orchestrator

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxBody bounds a request. A task message holds the payload and less than
// 2 KiB beside it, and MaxMessage is checked on the real message.
const maxBody = 1 << 20

// maxKey bounds an Idempotency-Key.
const maxKey = 256

// maxDepth bounds the nesting of a payload. The store takes documents of 128
// levels, and the execution around the payload and the batch around that are
// some of them.
const maxDepth = 100

// API is the orchestrator's HTTP interface.
//
//	POST /v1/executions       {"type":…, "payload":…, "executionId":…}   201, 200, 400, 413, 422
//	GET  /v1/executions/{id}  the execution, with its ETag               200, 304, 404
//	GET  /livez, /readyz
//
// Errors are problem documents (RFC 9457). A web page of another origin cannot
// make a browser create executions: loopback alone would not keep it from that.
func (o *Orchestrator) API() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/executions", o.create)
	mux.HandleFunc("GET /v1/executions/{id}", o.show)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /readyz", o.ready)
	mux.HandleFunc("GET /{$}", o.home)
	mux.HandleFunc("/v1/executions", o.notAllowed("POST", "POST creates an execution, GET /v1/executions/{id} shows it"))
	mux.HandleFunc("/v1/executions/{id}", o.notAllowed("GET, HEAD", "GET shows an execution, POST /v1/executions creates one"))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		o.problem(w, http.StatusNotFound, "no such resource: the executions are at /v1/executions")
	})
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		o.problem(w, http.StatusForbidden, "a web page of another origin may not do this")
	}))
	return origins.Handler(mux)
}

// notAllowed answers a method that a resource does not have.
func (o *Orchestrator) notAllowed(allowed, instead string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		o.problem(w, http.StatusMethodNotAllowed, "not "+r.Method+": "+instead)
	}
}

// request is the body of POST /v1/executions.
type request struct {
	Type        string         `json:"type"`
	Payload     jsontext.Value `json:"payload"`
	ExecutionID string         `json:"executionId,omitzero"`
}

func (o *Orchestrator) create(w http.ResponseWriter, r *http.Request) {
	req, status, err := readRequest(w, r)
	if err != nil {
		o.problem(w, status, err.Error())
		return
	}
	e, entry, err := newExecution(req, r.Header.Get("Idempotency-Key"), time.Now().UTC())
	if err != nil {
		o.problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	e.TraceParent = traceparent(r.Context())
	m, err := taskFor(e, entry, execution.ETag(make([]byte, 64))) // as long as a real ETag, and longer
	if err != nil {
		o.problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	if len(m.Body) > o.MaxMessage {
		o.problem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the task message would have %d bytes, the queue takes %d: put the data elsewhere and send a reference", len(m.Body), o.MaxMessage))
		return
	}
	etag, err := o.Store.Create(r.Context(), e, entry)
	if errors.Is(err, message.ErrExists) || errors.Is(err, message.ErrUnknown) {
		o.again(w, r, e, err)
		return
	}
	if err != nil {
		o.unavailable(w, r, err)
		return
	}
	if err := o.dispatch(r.Context(), e, entry, etag); err != nil {
		// The execution stands and its outbox entry too: the relay sends it (O2, E6).
		o.Log.LogAttrs(r.Context(), slog.LevelWarn, "dispatch is left to the relay", slog.String("task", e.ExecutionID), slog.Any("err", err))
	}
	o.answer(w, http.StatusCreated, execution.Stored{Execution: e, ETag: etag})
}

// again answers a request whose execution stands already, or may: what stands
// decides (O1). If it is our own write, whose answer was lost, its outbox entry
// stands too, and the relay sends it.
func (o *Orchestrator) again(w http.ResponseWriter, r *http.Request, e execution.Execution, cause error) {
	stands, err := o.Store.Load(r.Context(), e.ExecutionID)
	switch {
	case err != nil:
		o.unavailable(w, r, errors.Join(cause, err))
	case !stands.Execution.SameRequest(e):
		o.problem(w, http.StatusUnprocessableEntity, "this key or executionId was used for another request: choose a new one")
	case errors.Is(cause, message.ErrUnknown) && stands.Execution.CreatedAt.Equal(e.CreatedAt):
		o.answer(w, http.StatusCreated, stands)
	default:
		o.answer(w, http.StatusOK, stands)
	}
}

// timeout is how the errors of a connection say that its time was up.
type timeout interface {
	error
	Timeout() bool
}

func readRequest(w http.ResponseWriter, r *http.Request) (request, int, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return request{}, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", tooLarge.Limit)
	}
	if late, ok := errors.AsType[timeout](err); ok && late.Timeout() { // the server's ReadTimeout
		return request{}, http.StatusRequestTimeout, errors.New("the body did not arrive in time: send it again, and faster")
	}
	if err != nil {
		return request{}, http.StatusBadRequest, fmt.Errorf("read the body: %w", err)
	}
	if len(r.Header.Get("Idempotency-Key")) > maxKey {
		return request{}, http.StatusBadRequest, fmt.Errorf("the Idempotency-Key has more than %d characters", maxKey)
	}
	var req request
	if err := message.Decode(body, &req, json.RejectUnknownMembers(true)); err != nil {
		return request{}, http.StatusBadRequest, fmt.Errorf(`the body is not {"type":…, "payload":…}: %w`, err)
	}
	if deeper(req.Payload, maxDepth) {
		return request{}, http.StatusUnprocessableEntity, fmt.Errorf("the payload is nested more than %d levels deep, and the store does not take it: make it flatter, or put the data elsewhere and send a reference", maxDepth)
	}
	return req, 0, nil
}

// deeper reports whether a JSON value that was read already has more levels.
func deeper(value jsontext.Value, levels int) bool {
	tokens := jsontext.NewDecoder(bytes.NewReader(value))
	for {
		if _, err := tokens.ReadToken(); err != nil {
			return false // its end: there is no other error in what was read already
		}
		if tokens.StackDepth() > levels {
			return true
		}
	}
}

// newExecution is what a request asks for. Its id is the given one, else made of
// the key, so that one create decides (O1), else random.
func newExecution(req request, key string, now time.Time) (execution.Execution, execution.Entry, error) {
	id := req.ExecutionID
	switch {
	case id != "":
	case key != "":
		digest := sha256.Sum256([]byte("anonymous\x00" + key)) // the principal, once callers sign in
		id = base64.RawURLEncoding.EncodeToString(digest[:])
	default:
		id = rand.Text()
	}
	if req.Payload == nil {
		req.Payload = jsontext.Value("{}")
	}
	if err := errors.Join(message.CheckExecutionID(id), message.CheckType(req.Type)); err != nil {
		return execution.Execution{}, execution.Entry{}, err
	}
	fingerprint, err := claim.Fingerprint(req.Type, req.Payload)
	if err != nil {
		return execution.Execution{}, execution.Entry{}, err
	}
	return execution.New(id, req.Type, req.Payload, fingerprint, now), execution.OutboxEntry(id, message.TaskMessageID(id, 1), 1), nil
}

func (o *Orchestrator) show(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if err := message.CheckExecutionID(id); err != nil {
		o.problem(w, http.StatusNotFound, err.Error())
		return
	}
	stands, err := o.Store.Load(r.Context(), id)
	switch {
	case errors.Is(err, message.ErrNotFound):
		o.problem(w, http.StatusNotFound, "no execution has this id")
	case err != nil:
		o.unavailable(w, r, err)
	case r.Header.Get("If-None-Match") == string(stands.ETag):
		w.Header().Set("ETag", string(stands.ETag))
		w.WriteHeader(http.StatusNotModified)
	default:
		o.answer(w, http.StatusOK, stands)
	}
}

func (o *Orchestrator) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if _, err := o.Store.Load(ctx, "readyz"); err != nil && !errors.Is(err, message.ErrNotFound) {
		o.unavailable(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (o *Orchestrator) home(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, "oneeffect orchestrator\n\nPOST /v1/executions       {\"type\":\"customer.create\",\"payload\":{\"name\":\"Ada\"}}\nGET  /v1/executions/{id}\n")
}

func (o *Orchestrator) answer(w http.ResponseWriter, status int, s execution.Stored) {
	body, err := json.Marshal(s.Execution)
	if err != nil {
		o.problem(w, http.StatusInternalServerError, "the execution cannot be written as JSON")
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("ETag", string(s.ETag))
	h.Set("Location", "/v1/executions/"+s.Execution.ExecutionID)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the peer may be gone: nothing to do about it
}

// unavailable is for failures that are not the caller's: it may try again with
// the same key. The cause goes to the log, not to the caller.
// unavailable answers what the store did not. Of a refusal nobody is told to try
// again: the same request will be refused until somebody removes the cause.
func (o *Orchestrator) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	o.Log.LogAttrs(r.Context(), slog.LevelWarn, "request not answered", slog.String("path", r.URL.Path), slog.Any("err", err))
	if errors.Is(err, message.ErrRefused) && !errors.Is(err, message.ErrUnknown) {
		o.problem(w, http.StatusInternalServerError, "the store refused it, and will again until the cause is removed, which the log of this process names; nothing was begun")
		return
	}
	w.Header().Set("Retry-After", "1")
	o.problem(w, http.StatusServiceUnavailable, "the store did not answer; try again, with the same Idempotency-Key or executionId")
}

// problem is an RFC 9457 problem document.
func (o *Orchestrator) problem(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
	if err != nil { // a detail that is not UTF-8
		body = []byte(`{}`)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
