package cosmos

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// account is the document every client asks for first. Its endpoints are where
// the client goes from then on, so they are what it has reached us by.
func (s *Server) account(r *http.Request) []byte {
	endpoint := s.options.Endpoint
	if endpoint == "" {
		scheme := "http"
		if r.TLS != nil || r.URL.Scheme == "https" {
			scheme = "https"
		}
		endpoint = scheme + "://" + r.Host + "/"
	}
	location := &object{}
	location.set("name", "South Central US")
	location.set("databaseAccountEndpoint", endpoint)
	policy := &object{}
	policy.set("defaultConsistencyLevel", s.options.Consistency)
	replicas := &object{}
	replicas.set("asyncReplication", false)
	replicas.set("minReplicaSetSize", integerOf(1))
	replicas.set("maxReplicasetSize", integerOf(4))
	reads := &object{}
	reads.set("primaryReadCoefficient", integerOf(1))
	reads.set("secondaryReadCoefficient", integerOf(1))

	o := &object{}
	o.set("_self", "")
	o.set("id", "emulator")
	o.set("_rid", "emulator.documents.azure.com")
	o.set("media", "//media/")
	o.set("addresses", "//addresses/")
	o.set("_dbs", "//dbs/")
	o.set("writableLocations", []any{location})
	o.set("readableLocations", []any{location})
	o.set("enableMultipleWriteLocations", false)
	o.set("userReplicationPolicy", replicas)
	o.set("userConsistencyPolicy", policy)
	o.set("systemReplicationPolicy", replicas)
	o.set("readPolicy", reads)
	o.set("queryEngineConfiguration", `{"maxSqlQueryInputLength":262144,"maxJoinsPerSqlQuery":10,"sqlAllowTop":true,"enableSpatialIndexing":false}`)
	return appendValue(nil, o)
}

// resource adds the system properties that databases, containers and offers have.
func resource(body *object, rid, self, etag string, ts int64) *object {
	o := &object{}
	for _, m := range body.members {
		if !strings.HasPrefix(m.name, "_") {
			o.members = append(o.members, m)
		}
	}
	o.set("_rid", rid)
	o.set("_self", self)
	o.set("_etag", etag)
	o.set("_ts", integerOf(ts))
	return o
}

// precondition checks the conditional headers of a request for such a resource.
func (c *call) precondition(etag string) *failure {
	if want := c.header("If-Match"); want != "" && want != "*" && want != etag {
		return refuse(http.StatusPreconditionFailed, "One of the specified pre-condition is not met.")
	}
	return nil
}

// found is the reply to a read of such a resource.
func (c *call) found(body *object, etag string) reply {
	if f := c.precondition(etag); f != nil {
		return reply{failure: f}
	}
	if none := c.header("If-None-Match"); none != "" && (none == "*" || none == etag) {
		return reply{status: http.StatusNotModified, etag: etag}
	}
	return reply{status: http.StatusOK, body: appendValue(nil, body), etag: etag}
}

// serveDatabases serves /dbs and /dbs/{id}.
func (s *Server) serveDatabases(c *call) reply {
	if !c.target.single && (isQuery(c.request) || c.request.Method == http.MethodGet) {
		return s.listed(c, "Databases", s.databaseList)
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if !c.target.single {
		if c.request.Method != http.MethodPost {
			return s.record(c, reply{failure: notAllowed(c)})
		}
		return s.record(c, s.createDatabase(c))
	}
	d, ok := s.store.databases[c.target.database]
	if !ok {
		return s.record(c, reply{failure: notFound()})
	}
	switch c.request.Method {
	case http.MethodGet:
		return s.record(c, c.found(d.body, d.etag))
	case http.MethodDelete:
		if f := c.precondition(d.etag); f != nil {
			return s.record(c, reply{failure: f})
		}
		s.store.dropDatabase(d)
		return s.record(c, reply{status: http.StatusNoContent})
	}
	return s.record(c, reply{failure: notAllowed(c)})
}

func (s *Server) createDatabase(c *call) reply {
	body, err := parseObject(c.body)
	if err != nil {
		return reply{failure: badRequest("The request body is not a JSON object: %s.", err)}
	}
	id, f := validName(body)
	if f != nil {
		return reply{failure: f}
	}
	if _, exists := s.store.databases[id]; exists {
		return reply{failure: refuse(http.StatusConflict, "Resource with specified id or name already exists: database %q.", id)}
	}
	throughput, f := c.throughput()
	if f != nil {
		return reply{failure: f}
	}
	now := s.hub.Now().Unix()
	d := &database{id: id, serial: s.store.nextSerial(), etag: s.store.nextETag(now), containers: map[string]*container{}}
	d.rid = ridOf(databaseBytes(d.serial))
	d.body = resource(body, d.rid, "dbs/"+d.rid+"/", d.etag, now)
	d.body.set("_colls", "colls/")
	d.body.set("_users", "users/")
	s.store.putDatabase(d)
	if throughput != nil {
		s.store.addOffer(throughput, d.rid, "dbs/"+d.rid+"/", now)
	}
	return reply{status: http.StatusCreated, body: appendValue(nil, d.body), etag: d.etag}
}

// databaseList gives the databases in the order they were made. The caller
// holds the lock.
func (s *Server) databaseList(*call) (string, []*object, *failure) {
	all := slices.SortedFunc(maps.Values(s.store.databases), func(a, b *database) int {
		return cmp.Compare(a.serial, b.serial)
	})
	var list []*object
	for _, d := range all {
		list = append(list, d.body)
	}
	return "", list, nil
}
