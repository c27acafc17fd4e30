// Package cosmos is a Cosmos DB account (NoSQL API) over HTTP, in memory: an
// independent witness for programs that use the real SDK. It shares no code with
// what it is used to test, and where the service and it could differ it is the
// stricter of the two.
//
// What it promises:
//
//	V1  A precondition (If-Match, a patch condition, an id that must not exist yet)
//	    is checked under the same lock as the write: of writers that race under one
//	    ETag exactly one wins.
//	V2  A transactional batch is all or nothing, and nobody sees half of it.
//	V3  A request that a rule holds before it is applied, and whose client goes away,
//	    is never applied, unless the rule says so.
//	V4  Date and _ts come from one clock, the hub's. The difference between the two in
//	    one response is an age, whatever any other clock says.
//	V5  Requests are signed with the account's key, or refused.
//	V6  Limits are the service's: 2 MB an item and a batch, 100 operations a batch, 10 a
//	    patch, 1023 bytes an id.
//	V7  A query that the service's gateway would not serve is refused here too. What
//	    this emulator does not do is a 400 that names it, never a guess.
//	V8  A rule that holds a request holds that request alone: the store's lock is never
//	    held over a rule, a body or an answer.
package cosmos

import (
	"net/http"

	"oneeffect/emulator/control"
)

// EmulatorKey is the key that every Cosmos DB emulator is known by.
const EmulatorKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// Options of a server. The zero value is a server with the well-known key.
type Options struct {
	Key         string // account key in base64; EmulatorKey if empty
	Consistency string // default consistency level in the account document; Session if empty
	Endpoint    string // address in the account document; built from the request's Host if empty

	// ComputeGateway serves item ids that the service's older routing gateway refuses
	// in a path: with slashes, backslashes, number signs, percent escapes, trailing
	// blanks or control characters. The older gateway is what a client meets first, so
	// its refusals are the default.
	ComputeGateway bool
}

// Server is one account. It is an http.Handler and needs no listener.
type Server struct {
	hub     *control.Hub
	options Options
}

// New makes an empty account whose clock, rules, switches and event log are the hub's.
func New(h *control.Hub, o Options) *Server {
	if o.Key == "" {
		o.Key = EmulatorKey
	}
	if o.Consistency == "" {
		o.Consistency = "Session"
	}
	return &Server{hub: h, options: o}
}

// ServeHTTP answers one request of the REST API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	http.Error(w, "no route for "+r.Method+" "+r.URL.EscapedPath(), http.StatusNotImplemented)
}
