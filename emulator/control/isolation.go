package control

// isolation is one client's channel, closed while the client is isolated.
type isolation struct {
	c        chan struct{}
	isolated bool
}

// Isolate lets nothing of a client through any more, until Rejoin: its death as
// seen from outside. In a synctest bubble this is the only way to kill a client,
// since cancelling it would run the clean-up code that a killed process never runs.
//
// An AMQP dialect cuts the client's connections and accepts, then closes, new
// ones. An HTTP dialect neither applies nor answers: it waits until the request's
// context ends, and aborts. Before and After do their part by themselves: they
// answer Silence, and what they hold for the client counts as having lost its peer.
func (h *Hub) Isolate(client string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.isolationOf(client)
	if !i.isolated {
		i.isolated = true
		close(i.c)
	}
}

// Rejoin ends a client's isolation.
func (h *Hub) Rejoin(client string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := h.isolationOf(client); i.isolated {
		h.isolation[client] = &isolation{c: make(chan struct{})}
	}
}

// Isolated reports whether a client is isolated.
func (h *Hub) Isolated(client string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, ok := h.isolation[client]
	return ok && i.isolated
}

// IsolatedC is closed once the client is isolated. Ask again after a Rejoin.
func (h *Hub) IsolatedC(client string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isolationOf(client).c
}

// isolationOf finds or makes a client's entry. The caller holds h.mu. Entries
// are kept: there are as many as there are client names, a few.
func (h *Hub) isolationOf(client string) *isolation {
	i, ok := h.isolation[client]
	if !ok {
		i = &isolation{c: make(chan struct{})}
		h.isolation[client] = i
	}
	return i
}
