package cosmos

import (
	"net/http"
	"slices"
	"strings"
)

const maxBatchOperations = 100

// parseBatch reads the body of a transactional batch. What is wrong with the
// batch is an error of the request; what is wrong with one operation is that
// operation's own outcome.
func parseBatch(text []byte) ([]operation, *failure) {
	v, err := parseValue(text)
	if err != nil {
		return nil, badRequest("The batch is not a JSON array: %s.", err)
	}
	list, ok := v.([]any)
	switch {
	case !ok:
		return nil, badRequest("The batch is %s, want a JSON array.", kindName(v))
	case len(list) == 0:
		return nil, badRequest("The batch has no operations.")
	}
	operations := make([]operation, len(list))
	for i, v := range list {
		o, ok := v.(*object)
		if !ok {
			return nil, badRequest("Operation %d of the batch is %s, want an object.", i, kindName(v))
		}
		if operations[i], err = readOperation(o); err != nil {
			return nil, badRequest("Operation %d of the batch: %s.", i, err)
		}
	}
	return operations, nil
}

var batchKinds = map[string]string{
	"create": "create", "upsert": "upsert", "read": "read", "replace": "replace", "delete": "delete", "patch": "patch",
}

// readOperation reads one operation of a batch.
func readOperation(o *object) (operation, error) {
	var op operation
	var body *object
	for _, m := range o.members {
		text, isText := m.value.(string)
		switch m.name {
		case "operationType":
			op.kind = batchKinds[strings.ToLower(text)]
			if op.kind == "" {
				return op, badRequest("the operationType %s is unknown", textOf(m.value))
			}
		case "resourceBody":
			var ok bool
			if list, isList := m.value.([]any); isList && strings.EqualFold(o.text("operationType"), "patch") {
				body, _ = patchOf(list)
			} else if body, ok = m.value.(*object); !ok {
				return op, badRequest("the resourceBody is %s, want an object", kindName(m.value))
			}
		case "id", "ifMatch", "partitionKey":
			if !isText {
				return op, badRequest("the %s is %s, want a string", m.name, kindName(m.value))
			}
			switch m.name {
			case "id":
				op.id = text
			case "ifMatch":
				op.ifMatch = text
			default:
				op.partition = text
			}
		default:
			return op, badRequest("this emulator does not know the member %q", m.name)
		}
	}
	switch op.kind {
	case "":
		return op, badRequest("the operationType is missing")
	case "create", "upsert", "replace":
		op.withBody(body)
	case "patch":
		if body == nil {
			return op, badRequest("the resourceBody of a patch is missing")
		}
		op.patch, op.failure = readPatch(body)
	}
	if op.id == "" && op.failure == nil {
		op.failure = badRequest("The operation has no id.")
	}
	return op, nil
}

func (op *operation) withBody(body *object) {
	if body == nil {
		op.failure = badRequest("The operation has no resourceBody.")
		return
	}
	op.body, op.failure = body, validItem(body)
	id := body.text("id")
	if op.kind != "replace" {
		op.id = id
	} else if op.failure == nil && op.id != id {
		op.failure = badRequest("The id in the body, %q, is not the operation's, %q: a replacement cannot change it.", id, op.id)
	}
}

// serveBatch applies all operations of a batch, or none (V2).
func (s *Server) serveBatch(c *call) reply {
	if !isTrue(c.header("X-Ms-Cosmos-Batch-Atomic")) {
		return s.serveBulk(c)
	}
	operations, f := s.batchOf(c)
	switch {
	case f != nil:
	case isTrue(c.header("X-Ms-Cosmos-Batch-Continue-On-Error")):
		f = badRequest("A batch that is atomic cannot continue after an error.")
	case slices.ContainsFunc(operations, func(op operation) bool { return op.partition != "" }):
		f = badRequest("The operations of a batch that is atomic have one partition key, which is in the header.")
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	container, missing := s.store.find(c.target)
	if f == nil {
		f = missing
	}
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	key, f := container.settings.key.parse(c.header("X-Ms-Documentdb-Partitionkey"))
	if f == nil && key == nil {
		f = badRequest("PartitionKey value must be supplied for this operation.")
	}
	if f != nil {
		return s.record(c, reply{failure: f, session: container.sessionToken()})
	}
	o, outcomes, failed := s.applyAll(container, key, operations)
	// With the switch off, what was written before the failure stays: the lie that
	// a test of atomicity must be able to find out.
	if failed < 0 || s.hub.Off("cosmos.batch-atomic") {
		o.commit()
	}
	rep := reply{status: http.StatusOK, session: container.sessionToken(), told: batchEvent(operations, outcomes, failed < 0)}
	if failed >= 0 {
		rep.status = http.StatusMultiStatus
	}
	results := make([]any, len(operations))
	for i, op := range operations {
		out := outcomes[i]
		if s.hub.Off("cosmos.failing-status") && i == failed || failed >= 0 && i != failed && (i > failed || !s.hub.Off("cosmos.failed-dependency")) {
			out = outcome{status: http.StatusFailedDependency}
		}
		rep.charge += out.charge
		results[i] = out.result(op, c.minimal())
	}
	rep.charge = cents(rep.charge)
	rep.body = appendValue(nil, results)
	return s.record(c, rep)
}

// batchOf gives the operations of a batch, atomic or not.
func (s *Server) batchOf(c *call) ([]operation, *failure) {
	switch {
	case c.batchFailure != nil:
		return nil, c.batchFailure
	case c.request.Method != http.MethodPost:
		return nil, notAllowed(c)
	case len(c.batch) > maxBatchOperations && !s.hub.Off("cosmos.batch-limit"):
		return nil, badRequest("Batch request has more operations than what is supported: %d, want at most %d.", len(c.batch), maxBatchOperations)
	}
	return c.batch, nil
}

// applyAll applies operations until one fails and gives its place, -1 if none did.
func (s *Server) applyAll(k *container, key partitionKey, operations []operation) (o *overlay, outcomes []outcome, failed int) {
	o = s.overlay(k, key, "batch")
	outcomes = make([]outcome, len(operations))
	for i, op := range operations {
		outcomes[i] = o.apply(op)
		if outcomes[i].failure != nil {
			return o, outcomes, i
		}
		if s.hub.Off("cosmos.batch-isolated") {
			o.commit()
			s.letOthersIn()
			o = s.overlay(k, key, "batch")
		}
	}
	return o, outcomes, -1
}

// result is an operation's entry in the answer to its batch.
func (out outcome) result(op operation, minimal bool) value {
	o := &object{}
	o.set("statusCode", integerOf(int64(out.status)))
	if out.failure != nil && out.failure.substatus != 0 {
		o.set("subStatusCode", integerOf(int64(out.failure.substatus)))
	}
	o.set("requestCharge", numberOf(out.charge))
	if out.failure != nil {
		o.set("message", out.failure.message)
		return o
	}
	if out.after != "" {
		o.set("eTag", out.after)
	}
	if out.item != nil && (!minimal || op.kind == "read") {
		o.set("resourceBody", out.item.body())
	}
	return o
}

// batchEvent joins what the operations' events would say; whether those that went
// well have changed anything depends, in a batch that is atomic, on all others.
func batchEvent(operations []operation, outcomes []outcome, applied bool) told {
	var before, after, status []string
	for i, op := range operations {
		before = append(before, outcomes[i].before)
		status = append(status, op.bodyStatus())
		if applied {
			after = append(after, outcomes[i].after)
		}
	}
	return told{joined(before), joined(after), joined(status)}
}

// joined keeps every place, so that the nth entry is the nth operation's, and is
// empty if all places are.
func joined(list []string) string {
	all := strings.Join(list, ",")
	if strings.Trim(all, ",") == "" {
		return ""
	}
	return all
}
