package projector

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"oneeffect/internal/message"
	"oneeffect/internal/receipt"

	"github.com/go-json-experiment/json"
)

// Webhooks hears what others tell over HTTP. Its fields are its wiring, filled in
// by cmd/projector.
type Webhooks struct {
	Book     *receipt.Book
	Secrets  map[string][][]byte // of each source; several while one is being replaced
	MaxBody  int64               // bytes
	Budget   time.Duration       // of one webhook, from its signature to its answer
	Slots    chan struct{}       // as many as may be heard at once
	Counters *Counters
	Log      *slog.Logger
}

// answer is what a sender is told when there is nothing more for it to do.
type answer struct {
	Result    string        `json:"result"` // applied, duplicate or stale
	Class     receipt.Class `json:"class"`
	RequestID string        `json:"requestId"`
	Resource  string        `json:"resource"`
	Version   int64         `json:"version"`
	Found     int64         `json:"found"` // the resource's version when the request was decided on; 0: it was new
}

var results = map[receipt.Class]string{receipt.Applied: "applied", receipt.Duplicate: "duplicate", receipt.Stale: "stale"}

// Handler serves POST /webhooks/{source}.
func (h *Webhooks) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /webhooks/{source}", h.hear)
	return mux
}

func (h *Webhooks) hear(w http.ResponseWriter, r *http.Request) {
	select {
	case h.Slots <- struct{}{}:
		defer func() { <-h.Slots }()
	default:
		later(w, "busy: as many webhooks are being heard as can be")
		return
	}
	source := r.PathValue("source")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.MaxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		problem(w, http.StatusRequestEntityTooLarge, "the body is larger than is heard here")
		return
	}
	if err != nil {
		problem(w, http.StatusBadRequest, "the body ended early")
		return
	}
	if !signed(h.Secrets[source], r.Header.Get(HeaderTimestamp), r.Header.Get(HeaderSignature), body, time.Now()) {
		h.Log.LogAttrs(r.Context(), slog.LevelWarn, "webhook not heard", slog.String("source", cut(source)), slog.String("reason", "signature"))
		problem(w, http.StatusUnauthorized, "no known source signed this body within the last five minutes: sign each attempt anew, with its own time")
		return
	}
	change, err := message.ParseChange(body)
	var event receipt.Event
	if err == nil {
		event, err = receipt.FromWebhook(source, change)
	}
	if err != nil {
		h.Log.LogAttrs(r.Context(), slog.LevelWarn, "webhook not taken", slog.String("source", source), slog.Any("err", err))
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	h.record(w, r, change, event)
}

// record applies the change and answers. The sender may be gone by then; what was
// begun is finished all the same.
func (h *Webhooks) record(w http.ResponseWriter, r *http.Request, change message.Change, event receipt.Event) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), h.Budget)
	defer cancel()
	delivery := cut(r.Header.Get(HeaderDelivery))
	d, err := h.Book.Record(ctx, event, receipt.Delivery{ID: delivery, Trace: traceOf(ctx)})
	tell(ctx, h.Log, h.Counters, "webhook", event, d, err, slog.String("attempt", delivery))
	switch {
	case err != nil:
		later(w, "it is not known whether this was applied: send it again, under the same requestId")
	case d.Class == receipt.Conflict:
		problem(w, http.StatusConflict, "this requestId was used for other content; nothing was changed")
	default:
		write(w, http.StatusOK, "application/json", answer{
			Result: results[d.Class], Class: d.Class, RequestID: change.RequestID,
			Resource: change.Resource, Version: d.Receipt.Version, Found: d.Receipt.Found,
		})
	}
}

// maxDelivery bounds what a sender may have us keep and log as names.
const maxDelivery = 128

// cut keeps what is printable, and not too much of it.
func cut(name string) string {
	kept := make([]byte, 0, min(len(name), maxDelivery))
	for i := 0; i < len(name) && len(kept) < maxDelivery; i++ {
		if ' ' <= name[i] && name[i] <= '~' {
			kept = append(kept, name[i])
		}
	}
	return string(kept)
}

// retryAfter is the moment after which a repetition may fare better, in seconds.
const retryAfter = "2"

func later(w http.ResponseWriter, detail string) {
	w.Header().Set("Retry-After", retryAfter)
	problem(w, http.StatusServiceUnavailable, detail)
}

// problem answers with a problem document (RFC 9457).
func problem(w http.ResponseWriter, status int, detail string) {
	write(w, status, "application/problem+json", struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
}

func write(w http.ResponseWriter, status int, contentType string, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}
