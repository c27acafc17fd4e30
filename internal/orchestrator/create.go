package orchestrator

import (
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

// maxBody bounds a request.
const maxBody = 1 << 20

// besidePayload is more than a task message holds beside its payload. Where that is not
// known to fit, MaxMessage is checked on the real message.
const besidePayload = 2 << 10

// maxKey bounds an Idempotency-Key.
const maxKey = 256

// maxDepth bounds the nesting of a payload. The store takes documents of 128
// levels, and the execution around the payload and the batch around that are
// some of them.
const maxDepth = 100

// request is the body of POST /v1/executions: one task, or several that end
// together.
type request struct {
	task
	Tasks       []task `json:"tasks,omitzero"`
	ExecutionID string `json:"executionId,omitzero"`
}

type task struct {
	Type    string         `json:"type,omitzero"`
	Payload jsontext.Value `json:"payload,omitzero"`
}

func (o *Orchestrator) create(w http.ResponseWriter, r *http.Request) {
	e, entries, err := o.requested(w, r)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	etag, err := o.Store.Create(r.Context(), e, entries...)
	if errors.Is(err, message.ErrExists) || errors.Is(err, message.ErrUnknown) {
		o.again(w, r, e, err)
		return
	}
	if err != nil {
		o.fail(w, r, err)
		return
	}
	if len(e.Tasks) > 0 {
		o.fanOut(r.Context(), e, entries)
	} else if err := o.dispatch(r.Context(), e, entries[0], etag); err != nil {
		// The execution stands and its outbox entry too: the relay sends it (O2, E6).
		o.Log.LogAttrs(r.Context(), slog.LevelWarn, "dispatch is left to the relay", slog.String("task", e.ExecutionID), slog.Any("err", err))
	}
	w.Header().Set("Location", at(e.ExecutionID))
	o.answer(w, r, http.StatusCreated, execution.Stored{Execution: e, ETag: etag})
}

// at is where an execution is shown.
func at(id string) string { return "/v1/executions/" + id }

// again answers a request whose execution stands already, or may: what stands
// decides (O1). If it is our own write, whose answer was lost, its outbox entry
// stands too, and the relay sends it.
func (o *Orchestrator) again(w http.ResponseWriter, r *http.Request, e execution.Execution, cause error) {
	stands, err := o.Store.Load(r.Context(), e.ExecutionID)
	w.Header().Set("Location", at(e.ExecutionID))
	switch {
	case errors.Is(err, message.ErrNotFound): // not applied, or not at this replica yet
		o.fail(w, r, errors.Join(cause, message.ErrTransient))
	case err != nil:
		o.fail(w, r, errors.Join(cause, err))
	case !stands.Execution.SameRequest(e):
		o.fail(w, r, problem{KeyReused, "this key or executionId was used for another request: choose a new one"})
	case errors.Is(cause, message.ErrUnknown) && stands.Execution.CreatedAt.Equal(e.CreatedAt):
		o.answer(w, r, http.StatusCreated, stands)
	default:
		o.answer(w, r, http.StatusOK, stands)
	}
}

// requested reads a request and makes of it what is to be created, with an outbox
// entry for each task.
func (o *Orchestrator) requested(w http.ResponseWriter, r *http.Request) (execution.Execution, []execution.Entry, error) {
	var none execution.Execution
	keys := r.Header.Values("Idempotency-Key")
	switch {
	case len(keys) > 1:
		return none, nil, problem{InvalidRequest, "there are several Idempotency-Keys: send one"}
	case len(keys) == 1 && (keys[0] == "" || len(keys[0]) > maxKey):
		return none, nil, problem{InvalidRequest, fmt.Sprintf("the Idempotency-Key has %d characters: give 1 to %d", len(keys[0]), maxKey)}
	}
	var req request
	if err := readBody(w, r, &req, `{"type":…, "payload":…} or {"tasks":[…]}`, true); err != nil {
		return none, nil, err
	}
	by := PrincipalOf(r.Context()).Name
	e, entries, err := newExecution(req, by, keys, time.Now().UTC())
	if err != nil {
		return none, nil, problem{InvalidExecution, err.Error()}
	}
	e.TraceParent, e.History[0].By = traceparent(r.Context()), by
	for i, entry := range entries {
		sent := e
		if len(e.Tasks) > 0 {
			sent.ExecutionID, sent.Type, sent.Payload, sent.Orchestration = entry.Part, e.Tasks[i].Type, e.Tasks[i].Payload, e.ExecutionID
		}
		if err := o.sendable(sent, entry); err != nil {
			return none, nil, err
		}
	}
	return e, entries, nil
}

// sendable refuses a task that the store or the queue would not take.
func (o *Orchestrator) sendable(e execution.Execution, entry execution.Entry) error {
	if deeper(e.Payload, maxDepth) {
		return problem{InvalidExecution, fmt.Sprintf("the payload is nested more than %d levels deep, and the store does not take it: make it flatter, or put the data elsewhere and send a reference", maxDepth)}
	}
	if len(e.Payload)+besidePayload <= o.MaxMessage {
		return nil
	}
	m, err := taskFor(e, entry, execution.ETag(make([]byte, 64))) // as long as a real ETag, and longer
	if err != nil {
		return problem{InvalidExecution, err.Error()}
	}
	if len(m.Body) > o.MaxMessage {
		return problem{BodyTooLarge, fmt.Sprintf("the task message would have %d bytes, the queue takes %d: put the data elsewhere and send a reference", len(m.Body), o.MaxMessage)}
	}
	return nil
}

// timeout is how the errors of a connection say that its time was up.
type timeout interface {
	error
	Timeout() bool
}

// readBody reads a body that has this form; unless it is required, there may be none.
func readBody(w http.ResponseWriter, r *http.Request, into any, form string, required bool) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem{BodyTooLarge, fmt.Sprintf("the body has more than %d bytes", tooLarge.Limit)}
	}
	if late, ok := errors.AsType[timeout](err); ok && late.Timeout() { // the server's ReadTimeout
		return problem{SlowBody, "the body did not arrive in time: send it again, and faster"}
	}
	if err != nil {
		return problem{InvalidRequest, "the body was not sent whole"}
	}
	if len(body) == 0 && !required {
		return nil
	}
	if err := message.Decode(body, into, json.RejectUnknownMembers(true)); err != nil {
		return problem{InvalidRequest, fmt.Sprintf("the body is not %s: %v", form, err)}
	}
	return nil
}

// deeper reports whether a JSON value that was read already has more levels.
func deeper(value jsontext.Value, levels int) bool {
	depth, inText := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case inText && c == '\\':
			i++ // what is escaped does not end the text
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			if depth++; depth > levels {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// newExecution is what a request asks for. Its id is the given one, else made of
// who asks and the key, so that one create decides (O1), else random.
func newExecution(req request, principal string, key []string, now time.Time) (execution.Execution, []execution.Entry, error) {
	id := req.ExecutionID
	switch {
	case id != "":
	case len(key) > 0:
		digest := sha256.Sum256([]byte(principal + "\x00" + key[0])) // no header has a NUL
		id = base64.RawURLEncoding.EncodeToString(digest[:])
	default:
		id = rand.Text()
	}
	if err := message.CheckExecutionID(id); err != nil {
		return execution.Execution{}, nil, err
	}
	if req.Tasks != nil {
		return newOrchestration(id, req, now)
	}
	part, err := req.part()
	if err != nil {
		return execution.Execution{}, nil, err
	}
	entry := execution.OutboxEntry(id, message.TaskMessageID(id, 1), 1)
	return execution.New(id, part.Type, part.Payload, part.Request, now), []execution.Entry{entry}, nil
}

func newOrchestration(id string, req request, now time.Time) (execution.Execution, []execution.Entry, error) {
	if req.Type != "" || req.Payload != nil {
		return execution.Execution{}, nil, errors.New("give either type and payload, or tasks")
	}
	parts := make([]execution.Part, len(req.Tasks))
	for i, t := range req.Tasks {
		var err error
		if parts[i], err = t.part(); err != nil {
			return execution.Execution{}, nil, fmt.Errorf("tasks[%d]: %w", i, err)
		}
	}
	whole, err := json.Marshal(parts)
	if err != nil {
		return execution.Execution{}, nil, err
	}
	fingerprint, err := claim.Fingerprint(execution.TypeOrchestration, whole)
	if err != nil {
		return execution.Execution{}, nil, err
	}
	return execution.NewOrchestration(id, parts, fingerprint, now)
}

// part checks a task that is asked for.
func (t task) part() (execution.Part, error) {
	if t.Payload == nil {
		t.Payload = jsontext.Value("{}")
	}
	if err := message.CheckType(t.Type); err != nil {
		return execution.Part{}, err
	}
	fingerprint, err := claim.Fingerprint(t.Type, t.Payload)
	return execution.Part{Type: t.Type, Payload: t.Payload, Request: fingerprint}, err
}
