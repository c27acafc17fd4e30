package cosmos

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// serveContainers serves /dbs/{db}/colls and /dbs/{db}/colls/{id}.
func (s *Server) serveContainers(c *call) reply {
	if !c.target.single && (isQuery(c.request) || c.request.Method == http.MethodGet) {
		return s.listed(c, "DocumentCollections", s.containerList)
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	d, ok := s.store.databases[c.target.database]
	if !ok {
		return s.record(c, reply{failure: noDatabase(c.target.database)})
	}
	if !c.target.single {
		if c.request.Method != http.MethodPost {
			return s.record(c, reply{failure: notAllowed(c)})
		}
		return s.record(c, s.createContainer(c, d))
	}
	k, ok := d.containers[c.target.container]
	if !ok {
		return s.record(c, reply{failure: notFound()})
	}
	switch c.request.Method {
	case http.MethodGet:
		rep := c.found(k.body, k.etag)
		rep.session = k.sessionToken()
		return s.record(c, rep)
	case http.MethodPut:
		return s.record(c, s.replaceContainer(c, k))
	case http.MethodDelete:
		if f := c.precondition(k.etag); f != nil {
			return s.record(c, reply{failure: f})
		}
		s.store.dropContainer(k)
		return s.record(c, reply{status: http.StatusNoContent})
	}
	return s.record(c, reply{failure: notAllowed(c)})
}

// readDefinition checks a container's definition and fills in what the service
// would.
func (c *call) readDefinition() (*object, settings, *failure) {
	body, err := parseObject(c.body)
	if err != nil {
		return nil, settings{}, badRequest("The request body is not a JSON object: %s.", err)
	}
	if _, f := validName(body); f != nil {
		return nil, settings{}, f
	}
	set, f := readSettings(body)
	if f != nil {
		return nil, settings{}, f
	}
	for _, d := range defaults {
		if v, ok := body.get(d.name); !ok || v == nil {
			body.set(d.name, d.value)
		}
	}
	if v, ok := body.get("defaultTtl"); ok && v == nil {
		body = body.without("defaultTtl")
	}
	return body, set, nil
}

// defaults are the policies of a container that does not name them. They are
// never changed: bodies that hold them are copied on the way.
var defaults = []member{
	{"indexingPolicy", mustParse(`{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]}`)},
	{"conflictResolutionPolicy", mustParse(`{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","conflictResolutionProcedure":""}`)},
	{"geospatialConfig", mustParse(`{"type":"Geography"}`)},
}

func mustParse(text string) value {
	v, err := parseValue([]byte(text))
	if err != nil {
		panic(err) // a constant of this file
	}
	return v
}

func (s *Server) createContainer(c *call, d *database) reply {
	body, set, f := c.readDefinition()
	if f != nil {
		return reply{failure: f}
	}
	id := body.text("id")
	if _, exists := d.containers[id]; exists {
		return reply{failure: refuse(http.StatusConflict, "Resource with specified id or name already exists: container %q.", id)}
	}
	throughput, f := c.throughput()
	if f != nil {
		return reply{failure: f}
	}
	if throughput == nil && !s.store.hasOffer(d.rid) {
		throughput = manual(leastThroughput) // a container of its own has the least there is
	}
	now := s.hub.Now().Unix()
	k := s.store.newContainer(id, s.store.nextSerial(), d)
	etag := s.store.nextETag(now)
	s.store.putContainer(k, set, k.resource(body, etag, now), etag)
	if throughput != nil {
		s.store.addOffer(throughput, k.rid, k.self(), now)
	}
	return reply{status: http.StatusCreated, body: appendValue(nil, k.body), etag: k.etag, session: k.sessionToken()}
}

func (k *container) resource(body *object, etag string, ts int64) *object {
	o := resource(body, k.rid, k.self(), etag, ts)
	for _, feed := range []string{"docs", "sprocs", "triggers", "udfs", "conflicts"} {
		o.set("_"+feed, feed+"/")
	}
	return o
}

// replaceContainer takes a new definition. Items made under the old one stay:
// a new time to live counts from when they were last written.
func (s *Server) replaceContainer(c *call, k *container) reply {
	body, set, f := c.readDefinition()
	if f == nil {
		f = c.precondition(k.etag)
	}
	if f == nil {
		f = k.settings.replaceable(set)
	}
	if f == nil && body.text("id") != k.id {
		f = badRequest("The id of a container cannot be changed.")
	}
	if f != nil {
		return reply{failure: f, session: k.sessionToken()}
	}
	now := s.hub.Now().Unix()
	etag := s.store.nextETag(now)
	s.store.putContainer(k, set, k.resource(body, etag, now), etag)
	return reply{status: http.StatusOK, body: appendValue(nil, k.body), etag: k.etag, session: k.sessionToken()}
}

// containerList gives a database's containers in the order they were made. The
// caller holds the lock.
func (s *Server) containerList(c *call) (string, []*object, *failure) {
	d, ok := s.store.databases[c.target.database]
	if !ok {
		return "", nil, noDatabase(c.target.database)
	}
	all := slices.SortedFunc(maps.Values(d.containers), func(a, b *container) int {
		return cmp.Compare(a.serial, b.serial)
	})
	var list []*object
	for _, k := range all {
		list = append(list, k.body)
	}
	return d.rid, list, nil
}

// serveRanges serves the physical partitions, of which there is one. A client
// asks again with the etag of the last page until there is nothing new.
func (s *Server) serveRanges(c *call) reply {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if c.request.Method != http.MethodGet {
		return s.record(c, reply{failure: notAllowed(c)})
	}
	k, f := s.store.find(c.target)
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	if none := c.header("If-None-Match"); none == k.rangesETag() || none == "*" {
		return s.record(c, reply{status: http.StatusNotModified, etag: none, session: k.sessionToken()})
	}
	rid := ridOf(databaseBytes(k.database.serial), containerBytes(k.serial), []byte{2, 0, 0, 0, 0, 0, 0, 0x50})
	one := &object{}
	one.set("_rid", rid)
	one.set("id", onlyRange)
	one.set("_etag", `"00000000-0000-0000-0000-000000000000"`)
	one.set("minInclusive", "")
	one.set("maxExclusive", "FF")
	one.set("ridPrefix", integerOf(0))
	one.set("_self", k.self()+"pkranges/"+rid+"/")
	one.set("throughputFraction", integerOf(1))
	one.set("status", "online")
	one.set("parents", []any{})
	one.set("ownedArchivalPKRangeIds", []any{})
	one.set("_ts", integerOf(s.hub.Now().Unix()))
	one.set("lsn", integerOf(int64(k.lsn)))
	return s.record(c, reply{
		status: http.StatusOK, etag: k.rangesETag(), session: k.sessionToken(),
		body: feedBody(k.rid, "PartitionKeyRanges", []value{one}),
	})
}

// onlyRange is the id of the one physical partition that a container has here.
const onlyRange = "0"

func (k *container) rangesETag() string { return `"` + k.rid + `-ranges-1"` }

// feedBody wraps a list as the service does.
func feedBody(rid, name string, list []value) []byte {
	texts := make([][]byte, len(list))
	for i, v := range list {
		texts[i] = appendValue(nil, v)
	}
	return feedText(rid, name, texts)
}

// feedText is feedBody for values that are text already.
func feedText(rid, name string, list [][]byte) []byte {
	size := 0
	for _, text := range list {
		size += len(text) + 1
	}
	b := make([]byte, 0, size+len(rid)+len(name)+64)
	b = appendText(append(b, `{"_rid":`...), rid)
	b = append(appendText(append(b, ','), name), ":["...)
	for i, text := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, text...)
	}
	b = strconv.AppendInt(append(b, `],"_count":`...), int64(len(list)), 10)
	return append(b, '}')
}
