package servicebus

import (
	"context"
	"sync"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/servicebus/broker"
)

// audience knows who has a link to which entity, and ends these links when the entity is updated or deleted. Each
// entity with links has one goroutine, which waits for that.
type audience struct {
	server *Server

	mu      sync.Mutex
	groups  map[broker.Entity]*group // those that can be joined
	every   map[*group]struct{}      // these, and those whose links are being ended
	members map[*amqp.Link]*group
}

// group is the links to one entity, as it was when the first of them came.
type group struct {
	entity  broker.Entity
	changed <-chan struct{} // closed when the entity is not that any more
	links   map[*amqp.Link]*connection
	empty   chan struct{} // closed when the last has left
	ended   chan struct{} // closed when nothing is left to do
}

func newAudience(s *Server) *audience {
	return &audience{server: s, groups: make(map[broker.Entity]*group), every: make(map[*group]struct{}), members: make(map[*amqp.Link]*group)}
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
		g = &group{
			entity: e, changed: e.Changed(), links: make(map[*amqp.Link]*connection),
			empty: make(chan struct{}), ended: make(chan struct{}),
		}
		a.groups[e] = g
		a.every[g] = struct{}{}
		go func() {
			defer a.server.work.Done()
			a.wait(g)
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

// settle waits until the links to what has changed are ended, or ctx is. Whoever makes a change and then has its answer
// finds these links ended: a receiver that asks for messages afterwards does not ask on a link whose end is on its way.
func (a *audience) settle(ctx context.Context) {
	var ending []*group
	a.mu.Lock()
	for g := range a.every {
		select {
		case <-g.changed:
			ending = append(ending, g)
		default:
		}
	}
	a.mu.Unlock()
	for _, g := range ending {
		select {
		case <-g.ended:
		case <-ctx.Done():
			return
		}
	}
}

// wait ends the links of a group when its entity has changed. Who attaches afterwards is in another group.
func (a *audience) wait(g *group) {
	defer a.forget(g)
	select {
	case <-g.empty:
		return
	case <-g.changed:
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

// forget tells those who settle that the links of a group are ended.
func (a *audience) forget(g *group) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.every, g)
	close(g.ended)
}

// detachChanged ends a link whose entity has changed.
func (c *connection) detachChanged(l *amqp.Link) {
	if c.server.hub.Off("servicebus.change-detaches") {
		return
	}
	c.detach(l, entityChanged(l))
}

// entityChanged is the error of a link to an entity that is not what it was, in the service's words.
func entityChanged(l *amqp.Link) *amqp.Error {
	code, what := "publisher", "sender"
	if l.Outgoing() {
		code, what = "consumer", "receiver"
	}
	return forced(l, code, "Message "+what+" was closed because entity has been deleted, updated or unexpectedly reloaded.")
}

// forced is the error of a link that the service ends by itself.
func forced(l *amqp.Link, code, details string) *amqp.Error {
	return amqp.Errorf(amqp.ErrCondDetachForced, "The link '%s' is force detached. Code: %s. Details: %s", l.Peer.Name, code, details)
}
