package servicebus

import (
	"sync"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/servicebus/broker"
)

// audience knows who has a link to which entity, and ends these links when the entity is updated or deleted. Each
// entity with links has one goroutine, which waits for that.
type audience struct {
	server *Server

	mu      sync.Mutex
	groups  map[broker.Entity]*group
	members map[*amqp.Link]*group
}

// group is the links to one entity.
type group struct {
	entity broker.Entity
	links  map[*amqp.Link]*connection
	empty  chan struct{} // closed when the last has left
}

func newAudience(s *Server) *audience {
	return &audience{server: s, groups: make(map[broker.Entity]*group), members: make(map[*amqp.Link]*group)}
}

// join enters a link. It is left by itself when the entity changes.
func (a *audience) join(c *connection, l *amqp.Link, e broker.Entity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.groups[e]
	if g == nil {
		if a.server.enter() != nil {
			return // the server is closing, and every connection with it
		}
		g = &group{entity: e, links: make(map[*amqp.Link]*connection), empty: make(chan struct{})}
		a.groups[e] = g
		changed := e.Changed()
		go func() {
			defer a.server.work.Done()
			a.wait(g, changed)
		}()
	}
	g.links[l] = c
	a.members[l] = g
}

// leave takes a link out.
func (a *audience) leave(l *amqp.Link) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.members[l]
	if g == nil {
		return
	}
	delete(a.members, l)
	delete(g.links, l)
	if len(g.links) == 0 {
		delete(a.groups, g.entity)
		close(g.empty)
	}
}

// wait ends the links of a group when its entity has changed. Who attaches afterwards is in another group.
func (a *audience) wait(g *group, changed <-chan struct{}) {
	select {
	case <-g.empty:
		return
	case <-changed:
	}
	a.mu.Lock()
	if a.groups[g.entity] == g {
		delete(a.groups, g.entity)
	}
	links := g.links
	for l := range links {
		delete(a.members, l)
	}
	g.links = nil
	a.mu.Unlock()
	for l, c := range links {
		c.detachChanged(l)
	}
}

// detachChanged ends a link whose entity has changed, in the service's words.
func (c *connection) detachChanged(l *amqp.Link) {
	if c.server.hub.Off("servicebus.change-detaches") {
		return
	}
	code, what := "publisher", "sender"
	if l.Outgoing() {
		code, what = "consumer", "receiver"
	}
	c.detach(l, forced(l, code, "Message "+what+" was closed because entity has been deleted, updated or unexpectedly reloaded."))
}

// forced is the error of a link that the service ends by itself.
func forced(l *amqp.Link, code, details string) *amqp.Error {
	return amqp.Errorf(amqp.ErrCondDetachForced, "The link '%s' is force detached. Code: %s. Details: %s", l.Peer.Name, code, details)
}
