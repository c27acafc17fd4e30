// Package downstream is the world the workers act on, told apart by what it does
// with an Idempotency-Key:
//
//	POST /customers   the CRM, which honours it
//	POST /letters     the print shop, which ignores it
//	GET  /ledger      what was called and what it did, for witnesses; also /ledger/{key}
//
// What it promises, each held by the tests that name it:
//
//	S1  One key has one effect at the CRM, however often and however concurrently
//	    it is called: 201 with a Location the first time, then 200 with the same
//	    Location and Idempotent-Replayed: true.
//	S2  The same key with another payload is refused with 422, and while the first
//	    call is running with 409; no key at all with 400. None of them has an effect.
//	S3  Every accepted call of the print shop is one more effect.
//	S4  A call that is refused, held and dropped before apply, or told to fail by its
//	    payload {"fail": 500}, has no effect; one dropped after apply has, and the
//	    ledger shows it. Every effect is an event as it happens, also if nobody is
//	    told of it in a reply.
//	    At the CRM that failure is stored under the key and given again, marked
//	    Idempotent-Replayed: true, for as long as the key is remembered.
//	S5  The CRM remembers a key for 24 hours of the hub's clock. After that, a call
//	    under it is a first one: a new effect.
//	S6  With the switch downstream.idempotency off keys are forgotten: each call is
//	    a new effect and a new resource. The ledger still counts them under their key.
//	S7  An answer of a rule with a status of 3xx has a Location at another host. With
//	    the switch downstream.reply-ends off, the bodies of replies never end.
//
// Rules of emulator/control see one operation, "call", whose entity is the path.
// Held before apply, a call has not arrived at the system yet: nothing is known
// about its key. Held after apply it is running: its effect has happened, and
// calls with the same key get 409.
package downstream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"oneeffect/emulator/control"
	"oneeffect/emulator/inprocess"
)

const (
	bodyLimit = 1 << 20
	keyLimit  = 255
)

// Server is the CRM and the print shop.
type Server struct {
	hub       *control.Hub
	ledger    *ledger
	mux       *http.ServeMux
	transport *inprocess.RoundTripper
}

// New returns a downstream that nobody has called yet.
func New(h *control.Hub) *Server {
	s := &Server{hub: h, ledger: newLedger(), mux: http.NewServeMux()}
	s.mux.HandleFunc("POST /customers", func(w http.ResponseWriter, r *http.Request) { s.call(w, r, "/customers") })
	s.mux.HandleFunc("POST /letters", func(w http.ResponseWriter, r *http.Request) { s.call(w, r, "/letters") })
	s.mux.HandleFunc("GET /customers/{number}", func(w http.ResponseWriter, r *http.Request) { s.resource(w, r, "/customers") })
	s.mux.HandleFunc("GET /letters/{number}", func(w http.ResponseWriter, r *http.Request) { s.resource(w, r, "/letters") })
	s.mux.HandleFunc("GET /ledger", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, s.Ledger())
	})
	s.mux.HandleFunc("GET /ledger/{key...}", s.ledgerOf)
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound, fmt.Errorf("there is no %s %s; there are POST /customers, POST /letters, "+
			"GET /ledger, GET /ledger/{key} and GET /healthz", r.Method, r.URL.Path))
	})
	s.transport = inprocess.Transport(s)
	return s
}

// ServeHTTP serves the downstream on any listener.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Transport calls the server without a network.
func (s *Server) Transport() *inprocess.RoundTripper { return s.transport }

// Close ends the calls that came through Transport and waits for them. Calls
// held by a late rule end when the hub is closed.
func (s *Server) Close() error {
	s.transport.Close()
	return nil
}

// Ledger is what GET /ledger answers.
func (s *Server) Ledger() Summary { return s.ledger.summary(func(Entry) bool { return true }) }

// LedgerOf is the part of the ledger under one key, which is empty if it was
// never used.
func (s *Server) LedgerOf(key string) Summary {
	return s.ledger.summary(func(e Entry) bool { return e.Key == key })
}

func (s *Server) ledgerOf(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("key")
	summary := s.LedgerOf(key)
	if len(summary.Entries) == 0 {
		problem(w, http.StatusNotFound, fmt.Errorf("no call has come under the key %q", key))
		return
	}
	write(w, http.StatusOK, summary)
}

func (s *Server) resource(w http.ResponseWriter, r *http.Request, path string) {
	text := r.PathValue("number")
	n, err := strconv.Atoi(text)
	if err != nil || !s.ledger.made(path, n) {
		problem(w, http.StatusNotFound, fmt.Errorf("there is no %s", r.URL.Path))
		return
	}
	write(w, http.StatusOK, map[string]string{"id": text})
}

// call is the way of one call: arrive, rules, effect, rules, reply.
func (s *Server) call(w http.ResponseWriter, r *http.Request, path string) {
	client := clientOf(r)
	if s.hub.Isolated(client) {
		// net/http notices that a client has gone only after its body has been read.
		_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, bodyLimit))
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	c, body, refused := read(w, r, path, client)
	event := control.Event{
		Service: "downstream", Kind: "call", Entity: path, Client: client, Key: c.key,
		Operation: "call", Method: r.Method, Path: path, Traceparent: c.traceparent,
	}
	if !s.ledger.arrive(c) {
		problem(w, http.StatusServiceUnavailable, errFull)
		return
	}
	s.hub.Record(event)
	event.Kind = "reply"
	if refused.problem != nil {
		s.reply(w, c, refused, event)
		return
	}
	op := control.Op{Service: "downstream", Operation: "call", Entity: path, Client: client, Key: c.key, Body: body}
	if d := s.hub.Before(r.Context(), op); d.Kind != control.Proceed {
		s.obey(w, r, c, d, event)
		return
	}
	c.at = s.hub.Now()
	c.keyed = path == "/customers" && !s.hub.Off("downstream.idempotency")
	o := s.ledger.decide(c)
	event.Effects, event.Resource = o.effects, o.resource
	if o.first {
		done := event
		done.Kind = "effect"
		s.hub.Record(done)
	}
	d := s.hub.After(r.Context(), op)
	if o.first {
		s.ledger.settled(c)
	}
	if d.Kind != control.Proceed {
		s.obey(w, r, c, d, event)
		return
	}
	s.reply(w, c, o, event)
}

// obey does what a decision other than to proceed asks for. An aborted handler
// cuts its connection, over a socket as in process.
func (s *Server) obey(w http.ResponseWriter, r *http.Request, c call, d control.Decision, event control.Event) {
	if d.Kind == control.Answer {
		if d.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.RetryAfter.Seconds()))))
		}
		if d.Status >= 300 && d.Status <= 399 {
			w.Header().Set("Location", "http://elsewhere.invalid"+c.path)
		}
		s.reply(w, c, outcome{
			status:   cmp.Or(d.Status, http.StatusInternalServerError),
			problem:  errors.New(cmp.Or(d.Description, "a fault rule answers this")),
			effects:  event.Effects,
			resource: event.Resource,
		}, event)
		return
	}
	if d.Kind == control.Silence {
		<-r.Context().Done()
	}
	panic(http.ErrAbortHandler)
}

// reply notes the answer, then sends it.
func (s *Server) reply(w http.ResponseWriter, c call, o outcome, event control.Event) {
	s.ledger.replied(c, Reply{At: s.hub.Now(), Status: o.status, Replayed: o.replayed, Resource: o.resource})
	event.Status, event.Replayed = o.status, o.replayed
	s.hub.Record(event)
	if o.replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if o.problem != nil {
		problem(w, o.status, o.problem)
		return
	}
	w.Header().Set("Location", o.resource)
	write(w, o.status, map[string]string{"id": o.resource[strings.LastIndexByte(o.resource, '/')+1:]})
	if s.hub.Off("downstream.reply-ends") {
		endless(w)
	}
}

// endless writes until nobody reads any more.
func endless(w io.Writer) {
	line := bytes.Repeat([]byte(" "), 4096)
	for {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

// read checks a request and its body. Of a refused one it returns what is known,
// and an outcome with a problem.
func read(w http.ResponseWriter, r *http.Request, path, client string) (c call, body []byte, refused outcome) {
	c = call{path: path, client: client, traceparent: r.Header.Get("Traceparent")}
	refuse := func(status int, err error) (call, []byte, outcome) {
		return c, nil, outcome{status: status, problem: err}
	}
	keys := r.Header.Values("Idempotency-Key")
	if len(keys) == 1 && validKey(keys[0]) {
		c.key = keys[0]
	}
	if path == "/customers" && c.key == "" {
		return refuse(http.StatusBadRequest, fmt.Errorf(
			"Idempotency-Key: send this header once, with 1 to %d visible ASCII characters", keyLimit))
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json") {
		return refuse(http.StatusUnsupportedMediaType, errors.New("Content-Type: send application/json"))
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return refuse(http.StatusRequestEntityTooLarge, fmt.Errorf("the body is larger than %d bytes", bodyLimit))
	}
	if err != nil {
		return refuse(http.StatusBadRequest, fmt.Errorf("read the body: %w", err))
	}
	object, err := parse(body)
	if err != nil {
		return refuse(http.StatusBadRequest, err)
	}
	if c.fail, err = failOf(object); err != nil {
		return refuse(http.StatusBadRequest, err)
	}
	if c.payload, err = normalForm(object); err != nil {
		return refuse(http.StatusBadRequest, err)
	}
	return c, body, outcome{}
}

// parse takes one JSON object without repeated members or trailing bytes.
func parse(body []byte) (map[string]any, error) {
	if value := jsontext.Value(body); !value.IsValid() {
		return nil, errors.New("the body is not one valid JSON document with distinct members")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil || object == nil {
		return nil, errors.New("the body must be a JSON object")
	}
	return object, nil
}

// failOf reads the status that a payload asks to fail with, 0 if it asks for none.
func failOf(object map[string]any) (int, error) {
	value, asked := object["fail"]
	if !asked {
		return 0, nil
	}
	number, _ := value.(json.Number)
	status, err := strconv.Atoi(number.String())
	if err != nil || status < 400 || status > 599 {
		return 0, errors.New("fail: must be an HTTP status from 400 to 599")
	}
	return status, nil
}

func validKey(key string) bool {
	return key != "" && len(key) <= keyLimit && !strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' })
}

// clientOf is the name in the User-Agent's first product token, "" without one.
func clientOf(r *http.Request) string {
	product, _, _ := strings.Cut(strings.TrimSpace(r.UserAgent()), " ")
	name, _, _ := strings.Cut(product, "/")
	return name
}

// problem answers with RFC 9457 problem details.
func problem(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, status, map[string]any{"title": http.StatusText(status), "status": status, "detail": err.Error()})
}

func write(w http.ResponseWriter, status int, body any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a reader that has gone cannot be told
}
