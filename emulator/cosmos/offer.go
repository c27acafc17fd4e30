package cosmos

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// offer is the throughput of a database or container.
type offer struct {
	serial uint32
	rid    string
	owner  string // rid
	etag   string
	body   *object
}

func (o *offer) self() string { return "offers/" + o.rid + "/" }

const (
	leastThroughput  = 400
	mostThroughput   = 1_000_000
	leastAutoscale   = 1000
	throughputHeader = "X-Ms-Offer-Throughput"
	autoscaleHeader  = "X-Ms-Cosmos-Offer-Autopilot-Settings"
)

// throughput reads the headers of a creation, nil if there are none. The result
// is the content of an offer.
func (c *call) throughput() (*object, *failure) {
	text, autoscale := c.header(throughputHeader), c.header(autoscaleHeader)
	switch {
	case text != "" && autoscale != "":
		return nil, badRequest("%s and %s cannot both be given.", throughputHeader, autoscaleHeader)
	case text != "":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, badRequest("%s %q is not a number.", throughputHeader, text)
		}
		content := manual(n)
		return content, validThroughput(content)
	case autoscale != "":
		settings, err := parseObject([]byte(autoscale))
		if err != nil {
			return nil, badRequest("%s is not a JSON object: %s.", autoscaleHeader, err)
		}
		content := &object{}
		content.set("offerAutopilotSettings", settings)
		return content, validThroughput(content)
	}
	return nil, nil
}

func manual(n int64) *object {
	content := &object{}
	content.set("offerThroughput", integerOf(n))
	return content
}

// validThroughput checks the content of an offer.
func validThroughput(content *object) *failure {
	if v, ok := content.get("offerAutopilotSettings"); ok && v != nil {
		settings, _ := v.(*object)
		if settings == nil {
			return badRequest("offerAutopilotSettings is %s, want an object.", kindName(v))
		}
		most, _ := settings.get("maxThroughput")
		n, ok := wholeNumber(most)
		if !ok || n < leastAutoscale || n > mostThroughput || n%1000 != 0 {
			return badRequest("The maxThroughput %s of autoscale must be a multiple of 1000 from %d to %d.", textOf(most), leastAutoscale, mostThroughput)
		}
		return nil
	}
	v, _ := content.get("offerThroughput")
	n, ok := wholeNumber(v)
	if !ok || n < leastThroughput || n > mostThroughput || n%100 != 0 {
		return badRequest("The offer throughput %s must be a multiple of 100 from %d to %d.", textOf(v), leastThroughput, mostThroughput)
	}
	return nil
}

// addOffer gives a resource its throughput. The caller holds the lock.
func (s *store) addOffer(content *object, owner, link string, now int64) {
	o := &offer{serial: s.nextSerial(), owner: owner}
	// Offers are addressed by their rid in lower case, so it has no upper case that
	// could make two of them one.
	o.rid = "o" + strconv.FormatUint(uint64(o.serial), 36)
	body := &object{}
	body.set("id", o.rid)
	body.set("offerVersion", "V2")
	body.set("offerType", "Invalid")
	body.set("resource", link)
	body.set("offerResourceId", owner)
	body.set("content", content)
	etag := s.nextETag(now)
	s.putOffer(o, resource(body, o.rid, o.self(), etag, now), etag)
}

func (s *store) hasOffer(owner string) bool {
	for _, o := range s.offers {
		if o.owner == owner {
			return true
		}
	}
	return false
}

// serveOffers serves /offers and /offers/{rid}.
func (s *Server) serveOffers(c *call) reply {
	if !c.target.single {
		if !isQuery(c.request) && c.request.Method != http.MethodGet {
			return s.record(c, reply{failure: notAllowed(c)})
		}
		return s.listed(c, "Offers", s.offerList)
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	o, ok := s.store.offers[strings.ToLower(c.target.offer)]
	if !ok {
		return s.record(c, reply{failure: notFound()})
	}
	switch c.request.Method {
	case http.MethodGet:
		rep := c.found(o.body, o.etag)
		rep.extra = offerHeaders
		return s.record(c, rep)
	case http.MethodPut:
		return s.record(c, s.replaceOffer(c, o))
	}
	return s.record(c, reply{failure: notAllowed(c)})
}

var offerHeaders = map[string]string{
	"x-ms-offer-replace-pending": "false",
	"x-ms-cosmos-min-throughput": strconv.Itoa(leastThroughput),
}

func (s *Server) replaceOffer(c *call, o *offer) reply {
	body, err := parseObject(c.body)
	if err != nil {
		return reply{failure: badRequest("The request body is not a JSON object: %s.", err)}
	}
	if f := c.precondition(o.etag); f != nil {
		return reply{failure: f}
	}
	v, _ := body.get("content")
	content, ok := v.(*object)
	if !ok {
		return reply{failure: badRequest("The content of the offer is %s, want an object.", kindName(v))}
	}
	if owner := body.text("offerResourceId"); owner != o.owner {
		return reply{failure: badRequest("The offer belongs to %q, not to %q.", o.owner, owner)}
	}
	if f := validThroughput(content); f != nil {
		return reply{failure: f}
	}
	now := s.hub.Now().Unix()
	etag := s.store.nextETag(now)
	s.store.putOffer(o, resource(o.body.with("content", content), o.rid, o.self(), etag, now), etag)
	return reply{status: http.StatusOK, body: appendValue(nil, o.body), etag: o.etag, extra: offerHeaders}
}

// offerList gives all offers in the order they were made. The caller holds the lock.
func (s *Server) offerList(*call) (string, []*object, *failure) {
	var list []*object
	for _, o := range slices.SortedFunc(maps.Values(s.store.offers), func(a, b *offer) int { return cmp.Compare(a.serial, b.serial) }) {
		list = append(list, o.body)
	}
	return "", list, nil
}
