package cosmos

import (
	"net/http"
	"runtime"
	"strings"
)

const (
	maxItem   = 2 << 20
	maxItemID = 1023 // bytes
)

// operation is one thing to do to one item: a request of its own or a part of a
// batch.
type operation struct {
	kind        string // create, upsert, read, replace, patch, delete
	id          string
	ifMatch     string
	ifNoneMatch string
	partition   string         // the partition key in JSON, in a batch that is not atomic
	body        *object        // create, upsert, replace
	patch       *patchDocument // patch
	failure     *failure       // what is wrong with it whatever is stored
}

// outcome is what became of an operation.
type outcome struct {
	status        int
	before, after string // etags
	item          *document
	charge        float64
	failure       *failure
}

// apply does one operation in the overlay. It decides and writes under the lock
// that commit will be called under, so what it has checked still holds then.
func (o *overlay) apply(op operation) outcome {
	if op.patch != nil && op.failure == nil && len(op.patch.operations) > maxPatchOperations && !o.store.off("cosmos.patch-limit") {
		op.failure = badRequest("The number of patch operations, %d, exceeds the maximum of %d.", len(op.patch.operations), maxPatchOperations)
	}
	if op.failure != nil {
		return refused(op.failure, nil)
	}
	old := o.find(op.id)
	if op.body != nil {
		key, err := o.container.settings.key.of(op.body)
		if err != nil {
			return refused(err, old)
		}
		if key.canonical() != o.partition && !o.store.off("cosmos.partition-key") {
			return refused(&failure{http.StatusBadRequest, partitionKeyMismatch, "PartitionKey extracted from document doesn't match the one specified in the header."}, old)
		}
	}
	if f := o.precondition(op, old); f != nil {
		return refused(f, old)
	}
	switch op.kind {
	case "read":
		if op.ifNoneMatch != "" && (op.ifNoneMatch == "*" || op.ifNoneMatch == old.etag) {
			return outcome{status: http.StatusNotModified, before: old.etag, after: old.etag, charge: readCharge(0)}
		}
		return outcome{status: http.StatusOK, before: old.etag, after: old.etag, item: old, charge: readCharge(len(old.text))}
	case "delete":
		if old == nil {
			return outcome{status: http.StatusNoContent}
		}
		o.remove(old)
		return outcome{status: http.StatusNoContent, before: old.etag, charge: writeCharge(old, nil)}
	case "patch":
		return o.applyPatch(op, old)
	}
	return o.save(op, old, op.body)
}

// precondition checks what an operation needs of the item as it is, nil if there
// is none.
func (o *overlay) precondition(op operation, old *document) *failure {
	exists, matches := old != nil, old == nil || o.unchecked || o.matches(op.ifMatch, old)
	switch {
	case op.kind == "create" && exists && !o.unchecked && !o.store.off("cosmos.create-once"):
		return refuse(http.StatusConflict, "Entity with the specified id already exists in the system.")
	case op.kind == "create":
		return nil
	case op.kind == "upsert" && !exists && op.ifMatch != "" && o.store.off("cosmos.upsert-absent"):
		matches = false // where by rights it creates the item
	case (op.kind == "replace" || op.kind == "delete") && o.store.off("cosmos.absent"):
	case op.kind != "upsert" && !exists:
		return refuse(http.StatusNotFound, "Entity with the specified id does not exist in the system.")
	}
	if !matches {
		return refuse(http.StatusPreconditionFailed, "One of the specified pre-condition is not met.")
	}
	return nil
}

// save writes an item that has passed all checks but those of its size and
// its unique keys.
func (o *overlay) save(op operation, old *document, body *object) outcome {
	d, err := o.put(old, op.id, body)
	if err != nil {
		return refused(err, old)
	}
	out := outcome{status: http.StatusOK, after: d.etag, item: d, charge: writeCharge(old, d)}
	if old == nil {
		out.status = http.StatusCreated
	} else {
		out.before = old.etag
	}
	return out
}

// applyPatch changes the item as the patch says. Its condition sees the item as
// it is stored, system properties included.
func (o *overlay) applyPatch(op operation, old *document) outcome {
	if !op.patch.holds(old.body()) && !o.unchecked && !o.store.off("cosmos.patch-condition") {
		return refused(&failure{http.StatusPreconditionFailed, conditionNotMet, "One of the specified pre-condition is not met."}, old)
	}
	body, err := op.patch.apply(old.body())
	if err != nil && o.store.off("cosmos.patch-atomic") {
		_ = o.save(op, old, body)
	}
	if err == nil {
		err = validItem(body)
	}
	if err == nil && nesting(body) > maxNesting {
		err = badRequest("The patched item is nested deeper than %d.", maxNesting)
	}
	if err != nil {
		return refused(err, old)
	}
	key, err := o.container.settings.key.of(body)
	if err != nil {
		return refused(err, old)
	}
	if key.canonical() != o.partition && !o.store.off("cosmos.partition-key") || body.text("id") != old.id {
		return refused(badRequest("A patch cannot change the id or the partition key of an item."), old)
	}
	return o.save(op, old, body)
}

// matches compares etags as the opaque texts they are; quotes are part of them.
func (o *overlay) matches(ifMatch string, d *document) bool {
	return ifMatch == "" || ifMatch == "*" || ifMatch == d.etag || o.ignore
}

func refused(f *failure, old *document) outcome {
	out := outcome{status: f.status, failure: f, charge: readCharge(0)}
	if old != nil {
		out.before, out.after = old.etag, old.etag
	}
	return out
}

// validItem checks what can be checked without the store.
func validItem(body *object) *failure {
	id, _ := body.get("id")
	text, ok := id.(string)
	switch {
	case !ok || text == "":
		return badRequest("The input content is invalid because the required properties - 'id; ' - are missing: an item needs an id that is a string and not empty.")
	case len(text) > maxItemID:
		return badRequest("The item id is %d bytes long, want at most %d.", len(text), maxItemID)
	}
	if v, ok := body.get("ttl"); ok && v != nil && !validTTL(v) {
		return badRequest("The input ttl '%s' is invalid. Ensure to provide a nonzero positive integer less than or equal to '2147483647', or -1.", textOf(v))
	}
	return nil
}

func validTTL(v value) bool {
	n, ok := v.(number)
	if !ok {
		return false
	}
	i, whole := n.integer()
	return whole && (i == -1 || i > 0 && i <= 1<<31-1)
}

// itemOperation reads a single-item request.
func (c *call) itemOperation() operation {
	op := operation{
		kind: c.op.Operation, id: c.target.item,
		ifMatch: c.header("If-Match"), ifNoneMatch: c.header("If-None-Match"),
	}
	switch {
	case op.ifNoneMatch != "" && op.kind != "read":
		op.failure = notImplemented("If-None-Match on a write")
		return op
	case op.kind == "read" || op.kind == "delete":
		return op
	case op.kind == "patch":
		op.patch, op.failure = parsePatch(c.body)
		return op
	}
	body, err := c.item, c.itemErr
	if op.kind == "replace" {
		body, err = parseObject(c.body)
	}
	if err != nil {
		op.failure = badRequest("The request body is not a JSON object that can be stored: %s.", err)
		return op
	}
	op.body, op.failure = body, validItem(body)
	if op.kind == "replace" && op.failure == nil && body.text("id") != op.id {
		op.failure = badRequest("The id in the body, %q, is not the id in the request path, %q: a replacement cannot change it.", body.text("id"), op.id)
	}
	if op.kind != "replace" {
		op.id = body.text("id")
	}
	return op
}

// serveItem does one operation on one item.
func (s *Server) serveItem(c *call) reply {
	op := c.itemOperation()
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	container, f := s.store.find(c.target)
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	key, f := container.keyOf(c, op.body)
	if f == nil && op.kind == "read" {
		container, f = s.readable(container, c)
	}
	if f != nil {
		return s.record(c, reply{failure: f, session: container.sessionToken()})
	}
	o := s.overlay(container, key, op.kind)
	out := o.apply(op)
	if out.failure == nil && s.hub.Off("cosmos.check-and-write") {
		s.letOthersIn()
		o = s.overlay(container, key, op.kind)
		o.unchecked = true
		out = o.apply(op)
	}
	if out.failure == nil || s.hub.Off("cosmos.patch-atomic") {
		o.commit()
	}
	rep := reply{
		status: out.status, failure: out.failure, charge: out.charge,
		session: container.sessionToken(),
		told:    told{out.before, out.after, op.bodyStatus()},
	}
	if out.failure == nil {
		rep.etag = out.after // a refusal does not tell what to try next
	}
	if out.item != nil && (op.kind == "read" || !c.minimal()) {
		rep.body = out.item.text
	}
	return s.record(c, rep)
}

// overlay begins a change, or a look, of the kind. The caller holds the lock.
func (s *Server) overlay(k *container, key partitionKey, kind string) *overlay {
	rule := "cosmos.ttl-write"
	if kind == "read" {
		rule = "cosmos.ttl-read"
	}
	o := s.store.begin(k, key, s.clock(rule))
	o.ignore = s.ignoresPreconditions(k)
	return o
}

// letOthersIn gives up the lock in the middle of an operation, and takes it again:
// the lie of a store that looks first and writes later.
func (s *Server) letOthersIn() {
	s.store.mu.Unlock()
	for range 64 { // so that all who wait at the same time have looked before one writes
		runtime.Gosched()
	}
	s.store.mu.Lock()
}

// keyOf finds the logical partition of a single-item request: in its header, or
// for a new item without one in the item itself.
func (c *container) keyOf(call *call, body *object) (partitionKey, *failure) {
	key, f := c.settings.key.parse(call.header("X-Ms-Documentdb-Partitionkey"))
	if f != nil || key != nil {
		return key, f
	}
	if body != nil && (call.op.Operation == "create" || call.op.Operation == "upsert") {
		return c.settings.key.of(body)
	}
	return nil, badRequest("PartitionKey value must be supplied for this operation.")
}

// ignoresPreconditions is a lie that can be switched on: for all containers, or
// for one.
func (s *Server) ignoresPreconditions(c *container) bool {
	return s.hub.Off("cosmos.if-match") || s.hub.Off("cosmos.if-match/"+c.id)
}

// bodyStatus is the member "status" of what the operation writes.
func (op operation) bodyStatus() string {
	if op.body != nil {
		return strings.Clone(op.body.text("status")) // without the rest of the body
	}
	if op.patch != nil {
		return op.patch.valueAt("/status")
	}
	return ""
}
