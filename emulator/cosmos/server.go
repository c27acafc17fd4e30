// Package cosmos is a Cosmos DB account (NoSQL API) over HTTP, in memory or kept on
// disk: an independent witness for programs that use the real SDK. It shares no code with
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
//	V9  An account that is kept on disk tells nothing before it is kept: no write, no read
//	    and no refusal. What was told is there after the process has ended in whatever way,
//	    a batch is there whole or not at all, and no number is given twice.
package cosmos

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/emulator/inprocess"
)

// EmulatorKey is the key that every Cosmos DB emulator is known by.
const EmulatorKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// Options of a server. The zero value is a server with the well-known key.
type Options struct {
	Key         string // account key in base64; EmulatorKey if empty
	Consistency string // default consistency level in the account document; Session if empty
	Endpoint    string // address in the account document; built from the request's Host if empty

	// TokenCheck decides on a JSON web token for an audience such as https://localhost.
	// A token that it takes may do everything. Without it, only the tokens of the
	// emulators' own test credential are taken.
	TokenCheck func(token, audience string) (expires time.Time, err error)

	// ComputeGateway serves item ids that the service's older routing gateway refuses
	// in a path: with slashes, backslashes, number signs, percent escapes, trailing
	// blanks or control characters. The older gateway is what a client meets first, so
	// its refusals are the default.
	ComputeGateway bool

	// Committed, if set, is told of every change of items, in the order in which the
	// store makes them and before any client can see them: what a witness needs that
	// trusts no client. It is called under the store's lock, so it must not call the
	// account.
	Committed func(container string, versions []Version)
}

// Version is an item as a commit leaves it.
type Version struct {
	ID   string
	Text []byte // with the system's properties; nil: it was deleted. Not to be changed.
}

// Server is one account. It is an http.Handler and needs no listener; of its own
// it starts no goroutine.
type Server struct {
	hub       *control.Hub
	options   Options
	signer    *signer // nil if the key is not base64
	store     *store
	transport *inprocess.RoundTripper
}

// New makes an empty account in memory, whose clock, rules, switches and event log are the hub's.
func New(h *control.Hub, o Options) *Server { return serve(h, o, newStore(nil, h.Off)) }

func serve(h *control.Hub, o Options, held *store) *Server {
	if o.Key == "" {
		o.Key = EmulatorKey
	}
	if o.Consistency == "" {
		o.Consistency = "Session"
	}
	held.hub, held.committed = h, o.Committed
	s := &Server{hub: h, options: o, store: held, signer: newSigner(o.Key)} // authorizeKey says what is wrong with a key
	s.transport = inprocess.Transport(s)
	return s
}

// Transport calls the server without a network; it is what azcosmos takes as
// ClientOptions.Transport.
func (s *Server) Transport() *inprocess.RoundTripper { return s.transport }

// ComputeGateway is the same account behind the service's newer gateway, whatever
// the account's options say of that. The account document has the address by which
// a client has reached it.
func (s *Server) ComputeGateway() http.Handler {
	gateway := *s
	gateway.options.ComputeGateway = true
	gateway.options.Endpoint = ""
	return &gateway
}

// Close ends the calls that came through Transport and waits for them; every
// other call must have ended. Calls held by a late rule end when the hub is closed.
func (s *Server) Close() error {
	s.transport.Close()
	if s.store.kept == nil {
		return nil
	}
	return s.store.kept.Close()
}

// call is one request on its way through the server.
type call struct {
	request *http.Request
	target  target
	body    []byte
	op      control.Op

	// What the body was found to be while looking for the key that rules go by.
	item         *object // create, upsert
	itemErr      error
	batch        []operation
	batchFailure *failure
}

// header gives one of the request's. Names are written as Go's HTTP library keeps
// them, which it would have to make sure of for every request otherwise.
func (c *call) header(name string) string { return headerOf(c.request, name) }

func headerOf(r *http.Request, name string) string {
	if all := r.Header[name]; len(all) > 0 {
		return all[0]
	}
	return ""
}

// minimal reports whether the client does not want to be sent what it wrote.
func (c *call) minimal() bool { return strings.EqualFold(c.header("Prefer"), "return=minimal") }

// ServeHTTP answers one request of the REST API.
//
// A client's isolation is looked at when its request has been read (net/http
// notices that a client has gone only then) and before it is answered. Between the
// two the hub decides: what a late rule held is applied although its client is cut
// off, as a write that was on its way is.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{request: r}
	c.op = control.Op{Service: "cosmos", Client: applicationID(r.UserAgent())}
	refusal := s.read(c)
	s.vanishIfIsolated(c)
	if refusal != nil {
		s.write(w, c, s.record(c, reply{failure: refusal}))
		return
	}
	before := s.hub.Before(r.Context(), c.op)
	if before.Kind != control.Proceed {
		s.write(w, c, s.record(c, decided(before, r)))
		return
	}
	rep := s.dispatch(c)
	s.awaitKept()
	after := s.hub.After(r.Context(), c.op)
	if after.Kind != control.Proceed {
		rep = decided(after, r)
	}
	s.vanishIfIsolated(c)
	s.write(w, c, rep)
}

// mostDrained is how much of a body that is too large is read and thrown away.
const mostDrained = 64 << 20

// read takes in the request and says who asks for what.
func (s *Server) read(c *call) *failure {
	target, refusal := locate(c.request)
	c.target = target
	c.op.Operation = target.operation(c.request)
	c.op.Entity = strings.ToLower(target.container)
	limit := int64(maxItem)
	if s.hub.Off("cosmos.size-limit") {
		limit = mostDrained
	}
	body, err := c.readBody(limit)
	if err == nil && int64(len(body)) > limit {
		// Read on, within bounds: a client that is still sending hears no refusal.
		_, err = io.CopyN(io.Discard, c.request.Body, mostDrained)
		if err == io.EOF { //nolint:errorlint // CopyN returns it unwrapped
			err = nil
		}
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
	if refusal == nil {
		refusal = s.authorize(c.request, target)
	}
	if refusal == nil && int64(len(body)) > limit {
		refusal = refuse(http.StatusRequestEntityTooLarge, "Request size is too large: want at most %d bytes.", maxItem)
	}
	if refusal == nil {
		refusal = s.supported(c)
	}
	if refusal == nil && target.item != "" && !s.options.ComputeGateway {
		refusal = routable(target.item)
	}
	c.body = body
	c.op.Body = body
	c.op.Key = c.key()
	return refusal
}

// readBody reads one byte more than the limit at most.
func (c *call) readBody(limit int64) ([]byte, error) {
	if length := c.request.ContentLength; 0 < length && length <= limit {
		body := make([]byte, length)
		_, err := io.ReadFull(c.request.Body, body)
		return body, err
	}
	return io.ReadAll(io.LimitReader(c.request.Body, limit+1))
}

// consistencyLevels are those of the service, strongest first.
var consistencyLevels = []string{"Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual"}

// ConsistencyLevels are what Options.Consistency may be, strongest first.
func ConsistencyLevels() []string { return slices.Clone(consistencyLevels) }

// consistency is the level that a request asks for, or the account's.
func (s *Server) consistency(c *call) string {
	return cmp.Or(c.header("X-Ms-Consistency-Level"), s.options.Consistency)
}

// supported refuses headers that ask for what is not done here. Those that only
// hint (priority, caches, continuation size) are let be.
func (s *Server) supported(c *call) *failure {
	if level := c.header("X-Ms-Consistency-Level"); level != "" {
		asked := slices.Index(consistencyLevels, level)
		switch {
		case asked < 0:
			return badRequest("The consistency level %q is not one of %s.", level, strings.Join(consistencyLevels, ", "))
		case asked < slices.Index(consistencyLevels, s.options.Consistency):
			return badRequest("ConsistencyLevel %s specified in the request is invalid when service is configured with consistency level %s. "+
				"Ensure the request consistency level is not stronger than the service consistency level.", level, s.options.Consistency)
		}
	}
	if directive := c.header("X-Ms-Indexing-Directive"); directive != "" && !strings.EqualFold(directive, "Default") && !strings.EqualFold(directive, "Include") {
		return notImplemented("the indexing directive " + directive)
	}
	for _, trigger := range [...]string{"X-Ms-Documentdb-Pre-Trigger-Include", "X-Ms-Documentdb-Post-Trigger-Include"} {
		if c.header(trigger) != "" {
			return notImplemented("triggers")
		}
	}
	return nil
}

// key is the id of the item that a request is about, of a batch that of its
// first operation. What is wrong with the body is not said yet: rules come first.
func (c *call) key() string {
	switch c.op.Operation {
	case "create", "upsert":
		if c.item, c.itemErr = parseObject(c.body); c.itemErr == nil {
			return strings.Clone(c.item.text("id")) // which the log of events keeps, and not the whole body
		}
	case "batch":
		if c.batch, c.batchFailure = parseBatch(c.body); c.batchFailure == nil {
			return strings.Clone(c.batch[0].id)
		}
	}
	return c.target.item
}

// vanishIfIsolated never returns for a client that is cut off: to it the server
// has gone, which it learns by its own patience only.
func (s *Server) vanishIfIsolated(c *call) {
	if s.hub.Isolated(c.op.Client) {
		vanish(c.request)
	}
}

func vanish(r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// decided turns a rule's decision into a reply, or cuts the connection.
func decided(d control.Decision, r *http.Request) reply {
	switch d.Kind {
	case control.Answer:
		status := cmp.Or(d.Status, http.StatusInternalServerError)
		code, substatus := condition(status, d.Condition)
		message := cmp.Or(d.Description, "A rule of the emulator answers so.")
		return reply{failure: &failure{status, substatus, message}, code: code, retryAfter: d.RetryAfter}
	case control.Silence:
		vanish(r)
	}
	panic(http.ErrAbortHandler)
}

// dispatch applies a request. Whatever it does is done when it returns, and its
// event is recorded in the order in which the store has changed.
func (s *Server) dispatch(c *call) reply {
	switch c.op.Operation {
	case "account":
		if c.request.Method != http.MethodGet {
			return s.record(c, reply{failure: notAllowed(c)})
		}
		return s.record(c, reply{status: http.StatusOK, body: s.account(c.request)})
	case "read", "create", "upsert", "replace", "patch", "delete":
		if !methodFits(c) {
			return s.record(c, reply{failure: notAllowed(c)})
		}
		return s.serveItem(c)
	case "batch":
		return s.serveBatch(c)
	case "query":
		return s.serveQuery(c)
	case "change-feed":
		return s.serveFeed(c)
	}
	switch c.target.resourceType {
	case "dbs":
		return s.serveDatabases(c)
	case "colls":
		return s.serveContainers(c)
	case "pkranges":
		return s.serveRanges(c)
	}
	return s.serveOffers(c)
}

// methodFits holds for the operations whose names do not follow from the method.
func methodFits(c *call) bool {
	switch c.op.Operation {
	case "read":
		return c.request.Method == http.MethodGet
	case "create", "upsert":
		return c.request.Method == http.MethodPost
	}
	return true
}

func notAllowed(c *call) *failure {
	return refuse(http.StatusMethodNotAllowed, "%s is not a method of %s.", c.request.Method, c.request.URL.EscapedPath())
}

// clock reads the hub's. The rule is the one that expiry is a part of, where it is
// looked at.
func (s *Server) clock(rule string) clock {
	return clock{
		seconds: s.hub.Now().Unix(), expiry: !s.hub.Off("cosmos.ttl") && !s.hub.Off(rule),
		own: !s.hub.Off("cosmos.ttl-item"), never: !s.hub.Off("cosmos.ttl-never"),
	}
}

// record logs what has become of a request. Where the store's lock is held, the
// events are in the order of the changes.
func (s *Server) record(c *call, rep reply) reply {
	if rep.failure != nil {
		rep.status = rep.failure.status
	}
	rep.charge = s.consistent(c, max(rep.charge, leastCharge))
	s.hub.Record(control.Event{
		Service: "cosmos", Kind: "request",
		Operation: c.op.Operation, Entity: c.op.Entity, Client: c.op.Client, Key: c.op.Key,
		Method: c.request.Method, Path: c.target.path, Status: rep.status, Charge: rep.charge,
		ETagBefore: rep.before, ETagAfter: rep.after, BodyStatus: rep.bodyStatus,
	})
	return rep
}
