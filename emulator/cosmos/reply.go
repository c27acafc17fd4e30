package cosmos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"oneeffect/emulator/control"
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

	event control.Event // what the log is to say beside the status
}

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
	h.Set("Date", now.Format(http.TimeFormat))
	h.Set("Cache-Control", "no-store, no-cache")
	h.Set("X-Ms-Activity-Id", activity)
	h.Set("X-Ms-Gatewayversion", "version=2.14.0")
	h.Set("X-Ms-Serviceversion", "version=2.14.0.0")
	h.Set("X-Ms-Request-Charge", strconv.FormatFloat(rep.charge, 'f', -1, 64))
	for _, one := range [...]struct{ name, text string }{
		{"X-Ms-Session-Token", rep.session}, {"Etag", rep.etag}, {"X-Ms-Continuation", rep.continuation},
	} {
		if one.text != "" {
			h.Set(one.name, one.text)
		}
	}
	for name, text := range rep.extra {
		h.Set(name, text)
	}
	if rep.retryAfter > 0 && !s.hub.Off("cosmos.retry-after") {
		h.Set("x-ms-retry-after-ms", strconv.FormatInt(rep.retryAfter.Milliseconds(), 10))
	}
	if rep.status == http.StatusNoContent || rep.status == http.StatusNotModified {
		w.WriteHeader(rep.status)
		return
	}
	if len(rep.body) > 0 {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Content-Length", strconv.Itoa(len(rep.body)))
	w.WriteHeader(rep.status)
	_, _ = w.Write(rep.body) // a client that has gone has nobody to tell
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
