package cosmos

import (
	"encoding/base64"
	"fmt"
	"iter"
	"net/http"
	"strconv"
)

const (
	defaultPage = 100
	dynamicPage = 1000    // of x-ms-max-item-count: -1
	maxPage     = 4 << 20 // bytes
)

// querySpec is the body of a query.
type querySpec struct {
	text       string
	parameters map[string]value
	selection  *selection
	ranged     bool // the client asks one partition, and puts several together
}

// readQuery reads a query, or for a plain GET of a feed the query it stands for.
func (c *call) readQuery() (querySpec, *failure) {
	if c.request.Method == http.MethodGet {
		spec := querySpec{text: "SELECT * FROM c"}
		spec.selection, _ = parseQuery(spec.text, nil)
		return spec, nil
	}
	if c.request.Method != http.MethodPost {
		return querySpec{}, notAllowed(c)
	}
	body, err := parseObject(c.body)
	if err != nil {
		return querySpec{}, badRequest("The query is not a JSON object: %s.", err)
	}
	spec := querySpec{parameters: map[string]value{}, ranged: c.header("X-Ms-Documentdb-Partitionkeyrangeid") != ""}
	for _, m := range body.members {
		switch m.name {
		case "query":
			text, ok := m.value.(string)
			if !ok {
				return spec, badRequest("The query is %s, want a string.", kindName(m.value))
			}
			spec.text = text
		case "parameters":
			if f := spec.readParameters(m.value); f != nil {
				return spec, f
			}
		default:
			return spec, badRequest("The query has a member %q, which means nothing.", m.name)
		}
	}
	if spec.text == "" {
		return spec, badRequest("The query is missing.")
	}
	if spec.selection, err = parseQuery(spec.text, spec.parameters); err != nil {
		return spec, queryFailure(err)
	}
	return spec, nil
}

func (q *querySpec) readParameters(v value) *failure {
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		return badRequest("The parameters are %s, want an array.", kindName(v))
	}
	for _, p := range list {
		o, ok := p.(*object)
		if !ok {
			return badRequest("A parameter is %s, want an object with name and value.", kindName(p))
		}
		name := o.text("name")
		if len(name) < 2 || name[0] != '@' {
			return badRequest("The parameter name %q does not start with @.", name)
		}
		if _, twice := q.parameters[name]; twice {
			return badRequest("The parameter %s is given more than once.", name)
		}
		q.parameters[name], ok = o.get("value")
		if !ok {
			return badRequest("The parameter %s has no value.", name)
		}
	}
	return nil
}

// pageSize reads how many results a client wants at most.
func (c *call) pageSize() (int, *failure) {
	text := c.header("X-Ms-Max-Item-Count")
	if text == "" {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < -1 || n == 0:
		return 0, badRequest("x-ms-max-item-count %q is neither -1 nor a positive number.", text)
	case n == -1:
		return dynamicPage, nil
	}
	return min(n, dynamicPage), nil
}

// serveQuery serves one page of a query over items.
func (s *Server) serveQuery(c *call) reply {
	spec, f := c.readQuery()
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	if isTrue(c.header("X-Ms-Cosmos-Is-Query-Plan-Request")) {
		return s.servePlan(c, spec)
	}
	size, f := c.pageSize()
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	k, ranged, f := s.queried(c, spec)
	if f != nil {
		rep := reply{failure: f}
		if k.rid != "" {
			rep.session = k.session
		}
		if f.substatus == crossPartitionQuery {
			rep.plan = spec.planOrNone(k.key)
		}
		return s.record(c, rep)
	}
	// From here on the snapshot is read without the lock.
	at, f := parseContinuation(c.header("X-Ms-Continuation"), k.rid, spec, c.header("X-Ms-Documentdb-Partitionkey"))
	if f != nil {
		return s.record(c, reply{failure: f, session: k.session})
	}
	if s.hub.Off("cosmos.continuation") {
		at.ordinal = ranged.ordinalOf(at.taken) // the place that so many results would have led to
	}
	page, f := spec.selection.page(ranged, size, at, s.hub.Now())
	if f != nil {
		return s.record(c, reply{failure: f, session: k.session})
	}
	rep := reply{
		status: http.StatusOK, body: feedText(k.rid, "Documents", page.results), session: k.session,
		continuation: page.next.token(), extra: map[string]string{"x-ms-item-count": strconv.Itoa(len(page.results))},
	}
	rep.charge = queryCharge(page.units)
	if isTrue(c.header("X-Ms-Documentdb-Populatequerymetrics")) {
		rep.extra["x-ms-documentdb-query-metrics"] = fmt.Sprintf(
			"totalExecutionTimeInMs=0.10;queryCompileTimeInMs=0.05;queryLogicalPlanBuildTimeInMs=0.01;queryPhysicalPlanBuildTimeInMs=0.01;"+
				"queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs=0.02;indexLookupTimeInMs=0.00;documentLoadTimeInMs=0.01;systemFunctionExecuteTimeInMs=0.00;"+
				"userFunctionExecuteTimeInMs=0.00;retrievedDocumentCount=%d;retrievedDocumentSize=%d;outputDocumentCount=%d;outputDocumentSize=%d;writeOutputTimeInMs=0.00;indexUtilizationRatio=1.00",
			page.examined, len(rep.body), len(page.results), len(rep.body))
	}
	if isTrue(c.header("X-Ms-Cosmos-Populateindexmetrics")) {
		rep.extra["x-ms-cosmos-index-utilization"] = base64.StdEncoding.EncodeToString(
			[]byte(`{"UtilizedSingleIndexes":[],"PotentialSingleIndexes":[],"UtilizedCompositeIndexes":[],"PotentialCompositeIndexes":[]}`))
	}
	return s.record(c, rep)
}

// seen is what a query needs of a container once its lock is gone.
type seen struct {
	rid     string
	session string
	key     keyDefinition
}

// queried decides whether the gateway serves a query, and takes a snapshot of
// what it ranges over.
func (s *Server) queried(c *call, spec querySpec) (seen, items, *failure) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	k, f := s.store.find(c.target)
	if f != nil {
		return seen{}, nil, f
	}
	k, f = s.readable(k, c)
	what := seen{k.rid, k.sessionToken(), k.settings.key}
	if f != nil {
		return what, nil, f
	}
	key, f := k.settings.key.parse(c.header("X-Ms-Documentdb-Partitionkey"))
	if f != nil {
		return what, nil, f
	}
	if key == nil {
		key = spec.selection.confinement(k.settings.key)
	}
	ranged := c.header("X-Ms-Documentdb-Partitionkeyrangeid")
	if ranged != "" && ranged != onlyRange && ranged != k.rid+","+onlyRange {
		return what, nil, goneRange(ranged)
	}
	enabled := isTrue(c.header("X-Ms-Documentdb-Query-Enablecrosspartition")) || c.request.Method == http.MethodGet
	if !s.hub.Off("cosmos.gateway") {
		f = spec.selection.gateway(key != nil || ranged != "", enabled)
	}
	if f == nil {
		f = spec.selection.indexed(k.settings)
	}
	if f != nil {
		return what, nil, f
	}
	between, f := c.effectiveRange(k.settings.key)
	if f != nil {
		return what, nil, f
	}
	all := k.scope(key, s.clock("cosmos.ttl-query"), spec.selection.bounds())
	return what, all.within(between, k.settings.key), nil
}

func goneRange(id string) *failure {
	return &failure{http.StatusGone, rangeGone, fmt.Sprintf("The requested partition key range %q does not exist.", id)}
}

// listed serves a query over databases, containers or offers.
func (s *Server) listed(c *call, name string, bodiesOf func(*call) (string, []*object, *failure)) reply {
	spec, f := c.readQuery()
	size, f2 := c.pageSize()
	if f == nil {
		f = f2
	}
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	s.store.mu.Lock()
	rid, bodies, f := bodiesOf(c)
	s.store.mu.Unlock()
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	list := newSequence(byAge)
	for i, body := range bodies {
		list.put(&document{ordinal: uint64(i) + 1, text: appendValue(nil, body)})
	}
	all := func(after uint64) iter.Seq[*document] { return list.from(&document{ordinal: after + 1}) }
	at, f := parseContinuation(c.header("X-Ms-Continuation"), rid+name, spec, "")
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	page, f := spec.selection.page(all, size, at, s.hub.Now())
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	// The feed of a kind of resources is not a scan of items: a full last page ends it.
	if len(page.results) == len(bodies) {
		page.next = continuation{}
	}
	rep := reply{status: http.StatusOK, body: feedText(rid, name, page.results), continuation: page.next.token()}
	rep.charge = queryCharge(page.units)
	return s.record(c, rep)
}
