package inprocess

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// heldBack is how much of an answer is kept until the handler returns, flushes
// or writes more. As in net/http, it decides what a client sees of a handler
// that writes a little and then aborts: nothing.
const heldBack = 2048

// responseWriter is the handler's end of an exchange. Like that of net/http it
// is for one goroutine at a time.
type responseWriter struct {
	exchange *exchange
	header   http.Header // the handler's
	sent     http.Header // as it was at WriteHeader
	status   int         // 0 before WriteHeader
	declared int64       // the handler's Content-Length, -1 if it gave none
	written  int64
	held     []byte
	begun    bool // the answer is with the caller
}

var _ http.Flusher = (*responseWriter)(nil)

func (w *responseWriter) Header() http.Header { return w.header }

func (w *responseWriter) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %d", status))
	}
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	w.sent = w.header.Clone()
	if n, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		w.declared = n
	} else {
		w.sent.Del("Content-Length")
	}
}

func (w *responseWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if !w.hasBody() {
		return 0, http.ErrBodyNotAllowed
	}
	if w.declared >= 0 && w.written+int64(len(p)) > w.declared {
		return 0, http.ErrContentLength
	}
	w.written += int64(len(p))
	if w.exchange.request.Method == http.MethodHead {
		return len(p), nil
	}
	if !w.begun {
		if len(w.held)+len(p) <= heldBack {
			w.held = append(w.held, p...)
			return len(p), nil
		}
		w.begin(w.declared, append(w.held, p...))
	}
	return w.exchange.answer.Write(p)
}

// Flush lets the answer begin with what has been written so far.
func (w *responseWriter) Flush() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.begun {
		w.begin(w.declared, w.held)
	}
}

// hasBody reports whether answers of this status have a body at all.
func (w *responseWriter) hasBody() bool {
	return w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

// begin hands status and headers to the caller and passes on what was held back.
func (w *responseWriter) begin(length int64, start []byte) {
	w.begun = true
	if w.sent.Get("Date") == "" {
		w.sent.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	if _, given := w.sent["Content-Type"]; !given && len(start) > 0 {
		w.sent.Set("Content-Type", http.DetectContentType(start))
	}
	if length >= 0 && w.hasBody() {
		w.sent.Set("Content-Length", strconv.FormatInt(length, 10))
	}
	response := &http.Response{
		Status:     fmt.Sprintf("%03d %s", w.status, http.StatusText(w.status)),
		StatusCode: w.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        w.sent,
		Body:          &responseBody{exchange: w.exchange},
		ContentLength: length,
		Request:       w.exchange.caller,
	}
	if len(w.held) > 0 {
		_, _ = w.exchange.answer.Write(w.held) // fits the empty stream; if the caller is gone, the handler sees it at its next write
		w.held = nil
	}
	w.exchange.begin(response, nil)
}

// finish ends the answer after the handler has returned.
func (w *responseWriter) finish() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	head := w.exchange.request.Method == http.MethodHead
	if w.declared >= 0 && w.written < w.declared && !head && w.hasBody() {
		w.fail(broken()) // fewer bytes than it promised
		return
	}
	if w.begun {
		w.exchange.answer.finish(io.EOF)
		return
	}
	length := w.declared
	switch {
	case !w.hasBody():
		length = 0
	case length < 0 && (!head || w.written > 0):
		length = w.written
	}
	w.begin(length, w.held)
	w.exchange.answer.finish(io.EOF)
}

// fail breaks the connection.
func (w *responseWriter) fail(err error) {
	w.exchange.answer.finish(err)
	if !w.begun {
		w.begun = true
		w.exchange.begin(nil, err)
	}
}

// responseBody is the caller's end of an answer.
type responseBody struct{ exchange *exchange }

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.exchange.answer.Read(p)
	if err != nil {
		b.exchange.forgetCaller()
	}
	return n, err
}

// Close hangs up: a handler that is still writing has lost its caller.
func (b *responseBody) Close() error {
	b.exchange.forgetCaller()
	b.exchange.hangUp(http.ErrBodyReadAfterClose)
	return nil
}
