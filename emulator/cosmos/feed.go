package cosmos

import (
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// serveFeed serves the change feed in its latest-version mode: each item once,
// at its newest version, in the order of the commits; what was deleted or has
// expired is not in it. The continuation is an etag, the lsn of the last commit
// that was delivered.
func (s *Server) serveFeed(c *call) reply {
	f := c.feedRefusal()
	size, f2 := c.pageSize()
	if f == nil {
		f = f2
	}
	after, since, f3 := c.feedStart()
	if f == nil {
		f = f3
	}
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	k, f := s.store.find(c.target)
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	key, f := k.settings.key.parse(c.header("X-Ms-Documentdb-Partitionkey"))
	if ranged := c.header("X-Ms-Documentdb-Partitionkeyrangeid"); f == nil && ranged != "" && ranged != onlyRange {
		f = goneRange(ranged)
	}
	if f == nil {
		k, f = s.readable(k, c)
	}
	var between *effectiveRange
	if f == nil {
		between, f = c.effectiveRange(k.settings.key)
	}
	if f != nil {
		return s.record(c, reply{failure: f, session: k.sessionToken()})
	}
	if c.header("If-None-Match") == "*" {
		after = k.lsn // from now on
	}
	changed := between.only(k.settings.key, k.changes(key, s.clock("cosmos.ttl-feed"), after, since))
	if s.hub.Off("cosmos.feed-order") {
		changed = slices.Values(slices.SortedFunc(changed, byAge))
	}
	list, units, last := feedPage(changed, size)
	rep := reply{status: http.StatusOK, session: k.sessionToken(), etag: feedETag(last)}
	if len(list) == 0 {
		rep.status = http.StatusNotModified
		rep.etag = feedETag(max(after, k.lsn))
		return s.record(c, rep)
	}
	rep.body = feedText(k.rid, "Documents", list)
	rep.charge = queryCharge(units)
	return s.record(c, rep)
}

func (c *call) feedRefusal() *failure {
	switch {
	case c.request.Method != http.MethodGet:
		return notAllowed(c)
	case !strings.EqualFold(c.header("A-Im"), "Incremental Feed"):
		return notImplemented("the change feed mode " + strconv.Quote(c.header("A-Im")))
	case c.header("X-Ms-Cosmos-Changefeed-Wire-Format-Version") != "":
		return notImplemented("the change feed's wire format version " + c.header("X-Ms-Cosmos-Changefeed-Wire-Format-Version"))
	}
	return nil
}

// feedStart reads where the feed is to go on.
func (c *call) feedStart() (lsn uint64, since int64, f *failure) {
	if text := c.header("If-None-Match"); text != "" && text != "*" {
		n, ok := parseLSN(strings.Trim(text, `"`))
		if !ok {
			return 0, 0, badRequest("If-None-Match %q is not a continuation of this feed.", text)
		}
		return n, 0, nil
	}
	text := c.header("If-Modified-Since")
	if text == "" {
		return 0, 0, nil
	}
	at, err := time.Parse(time.RFC1123, text) // any zone: the Go SDK writes UTC for GMT
	if err != nil {
		return 0, 0, badRequest("If-Modified-Since %q is not an RFC 1123 date.", text)
	}
	return 0, at.Unix(), nil
}

// changes gives the live items that changed after a commit and since a time, in
// the order they changed. The caller holds the lock.
func (k *container) changes(key partitionKey, now clock, after uint64, since int64) iter.Seq[*document] {
	all := k.changed.from(&document{lsn: after + 1})
	if key != nil {
		all = k.changesIn(key.canonical())
	}
	return func(yield func(*document) bool) {
		for d := range all {
			if d.lsn <= after || d.ts < since || k.settings.expired(d, now) {
				continue
			}
			if !yield(d) {
				return
			}
		}
	}
}

func (k *container) changesIn(partition string) iter.Seq[*document] {
	items := k.partitions[partition]
	if items == nil {
		return func(func(*document) bool) {}
	}
	return slices.Values(slices.SortedFunc(items.from(&document{}), byChange))
}

// feedPage takes the first changes, and with the last of them all that were
// committed with it: a transaction is not torn between two pages.
func feedPage(changed iter.Seq[*document], size int) (list [][]byte, units float64, last uint64) {
	bytes := 0
	for d := range changed {
		if d.lsn != last && (len(list) >= size || len(list) > 0 && bytes+len(d.text) > maxPage) {
			break
		}
		list = append(list, d.withLSN())
		bytes += len(d.text)
		units += readUnits * bySize(len(d.text))
		last = d.lsn
	}
	return list, units, last
}

// withLSN is the item's text with the commit that made it at the end, as the feed
// shows it.
func (d *document) withLSN() []byte {
	b := append(slices.Clip(d.text[:len(d.text)-1]), `,"_lsn":`...)
	return append(strconv.AppendUint(b, d.lsn, 10), '}')
}

func feedETag(lsn uint64) string { return `"` + strconv.FormatUint(lsn, 10) + `"` }
