package cosmos

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"oneeffect/emulator/control"
)

// replica is a copy of a container that is behind it, as a rule of control says:
//
//	commits ──▶ container ──▶ behind: commit, commit, … ──when due──▶ view
//	                │                                                  │
//	   reads with a newer session token, strong reads       all other reads
//
// There is one only while its container has a lag, so that nothing is copied and
// nothing is remembered otherwise. It changes under the store's lock.
type replica struct {
	lag    *control.Lag
	view   *container
	behind []commit // what the view has not seen, oldest first
}

// commit is what one commit has changed.
type commit struct {
	lsn     uint64
	at      time.Time // of the hub's clock
	changes []changed
}

// changed is what has become of an item, nil if it was deleted.
type changed struct {
	partition, id string
	now           *document
}

// mostBehind bounds what is remembered for a replica. One that would fall further
// behind is brought so far.
const mostBehind = 1 << 16

// lagOf gives the lag of a container, and lets go of a replica that was made for
// another one. The caller holds the lock, here and below.
func (s *store) lagOf(k *container) *control.Lag {
	lag := s.hub.LagOf(k.entity)
	if k.replica != nil && k.replica.lag != lag {
		k.replica = nil
	}
	return lag
}

// fork begins the replica of a container that has a lag, before its first commit
// since then.
func (s *store) fork(k *container) {
	lag := s.lagOf(k)
	if lag == nil || k.replica != nil {
		return
	}
	view := s.newContainer(k.id, k.serial, k.database)
	view.kept = nil // what the replica forgets is not forgotten
	view.lsn = k.lsn
	for d := range k.inOrder.from(&document{}) {
		view.place(d)
	}
	k.replica = &replica{lag: lag, view: view}
}

// follow remembers a commit until it is due.
func (r *replica) follow(c commit) {
	r.behind = append(r.behind, c)
	r.catchUp(c.at)
}

// catchUp brings the view to where it should be now.
func (r *replica) catchUp(now time.Time) {
	most := mostBehind
	if r.lag.Commits > 0 {
		most = min(most, r.lag.Commits)
	}
	for len(r.behind) > 0 {
		next := r.behind[0]
		due := r.lag.Duration > 0 && now.Sub(next.at) >= time.Duration(r.lag.Duration)
		if len(r.behind) <= most && !due {
			return
		}
		for _, c := range next.changes {
			old := r.view.live(c.partition, c.id, clock{})
			if old != nil && (c.now == nil || c.now.ordinal != old.ordinal) {
				r.view.forget(old)
			}
			if c.now != nil {
				r.view.place(c.now)
			}
		}
		r.view.lsn = next.lsn
		r.behind[0] = commit{} // or its documents live as long as the list
		r.behind = r.behind[1:]
	}
}

// readable gives what a read is served from: the container, or a replica that is
// behind it. A read whose client has seen more than the replica, or that asks for
// strong consistency, is never served from the past; one whose client has seen more
// than there is, is refused.
func (s *Server) readable(k *container, c *call) (*container, *failure) {
	var seen uint64
	if token := c.header("X-Ms-Session-Token"); token != "" {
		var ok bool
		if seen, ok = parseSessionToken(token); !ok {
			return k, badRequest("The session token %q is not of the form <range>:-1#<lsn>.", token)
		}
	}
	if seen > k.lsn && !s.hub.Off("cosmos.session-reached") {
		return k, &failure{http.StatusNotFound, readSessionNotReached, "The read session is not available for the input session token."}
	}
	if s.store.lagOf(k) == nil || k.replica == nil || s.strong(c) {
		return k, nil
	}
	k.replica.catchUp(s.hub.Now())
	view := k.replica.view
	if seen > view.lsn && !s.hub.Off("cosmos.session-read") {
		return k, nil
	}
	view.settings, view.body, view.etag = k.settings, k.body, k.etag
	return view, nil
}

// parseSessionToken gives the greatest lsn of a list of tokens, one per range.
func parseSessionToken(token string) (uint64, bool) {
	var greatest uint64
	for one := range strings.SplitSeq(token, ",") {
		_, vector, ok := strings.Cut(one, ":")
		if !ok {
			return 0, false
		}
		parts := strings.Split(vector, "#")
		if len(parts) < 2 {
			return 0, false
		}
		lsn, ok := parseLSN(parts[1])
		if !ok {
			return 0, false
		}
		greatest = max(greatest, lsn)
	}
	return greatest, true
}

// parseLSN reads how far somebody has come.
func parseLSN(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}

// strong reports whether a read has to see every write that was acknowledged.
func (s *Server) strong(c *call) bool {
	return s.consistency(c) == "Strong" && !s.hub.Off("cosmos.strong-read")
}
