package cosmos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// reply is an answer in the making.
type reply struct {
	status     int
	failure    *failure // instead of a body
	plan       *object  // beside the failure of a query that only clients with a query engine can put together
	code       string   // of the failure, if it is not its status's
	retryAfter time.Duration
	body       []byte

	charge       float64
	session      string
	etag         string
	continuation string
	extra        map[string]string // headers that one kind of request alone has

	told
}

// told is what the log of events is to say of a request beside its status.
type told struct{ before, after, bodyStatus string }

// leastCharge is what a request costs that the service does not bill by size;
// its clients take a charge of nothing for an error.
const leastCharge = 1

// write sends the reply. Date is the hub's time at this moment, on the same clock
// as every _ts: the difference between the two is an age (V4).
func (s *Server) write(w http.ResponseWriter, c *call, rep reply) {
	h := w.Header()
	activity := c.header("X-Ms-Activity-Id")
	if activity == "" {
		activity = fmt.Sprintf("%08x-0000-4000-8000-%012x", rand.Uint32(), rand.N(uint64(1)<<48))
	}
	if rep.failure != nil {
		rep.status = rep.failure.status
		rep.body = failureBody(rep, activity)
		if rep.failure.substatus != 0 {
			h.Set("x-ms-substatus", strconv.Itoa(rep.failure.substatus))
		}
	}
	now := s.hub.Now()
	if s.hub.Off("cosmos.one-clock") {
		now = time.Now().UTC()
	}
	if rep.session != "" && s.hub.Off("cosmos.session-rises") {
		rep.session = "0:-1#1"
	}
	contentType, length := "", ""
	if rep.status != http.StatusNoContent && rep.status != http.StatusNotModified {
		if length = strconv.Itoa(len(rep.body)); len(rep.body) > 0 {
			contentType = "application/json"
		}
	}
	always := [...]struct{ name, text string }{
		{"Date", now.Format(http.TimeFormat)},
		{"Cache-Control", "no-store, no-cache"},
		{"X-Ms-Activity-Id", activity},
		{"X-Ms-Gatewayversion", "version=2.14.0"},
		{"X-Ms-Serviceversion", "version=2.14.0.0"},
		{"X-Ms-Request-Charge", strconv.FormatFloat(rep.charge, 'f', -1, 64)},
		{"X-Ms-Session-Token", rep.session},
		{"Etag", rep.etag},
		{"X-Ms-Continuation", rep.continuation},
		{"Content-Type", contentType},
		{"Content-Length", length},
	}
	texts := make([]string, len(always)) // of all of them, instead of one slice each
	for i, one := range always {
		if one.text != "" {
			texts[i] = one.text
			h[one.name] = texts[i : i+1 : i+1]
		}
	}
	for name, text := range rep.extra {
		h.Set(name, text)
	}
	if rep.retryAfter > 0 && !s.hub.Off("cosmos.retry-after") {
		h.Set("x-ms-retry-after-ms", strconv.FormatInt(rep.retryAfter.Milliseconds(), 10))
	}
	w.WriteHeader(rep.status)
	if length != "" {
		_, _ = w.Write(rep.body) // a client that has gone has nobody to tell
	}
}

func failureBody(rep reply, activity string) []byte {
	code := rep.code
	if code == "" {
		code = codeOf(rep.status)
	}
	o := &object{}
	o.set("code", code)
	o.set("message", rep.failure.message+"\r\nActivityId: "+activity)
	if rep.plan != nil {
		o.set("additionalErrorInfo", textOf(rep.plan))
	}
	return appendValue(nil, o)
}
