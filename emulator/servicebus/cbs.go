package servicebus

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
)

// cbs is the $cbs node: claims-based security, where a client puts its tokens.
type cbs struct {
	connection *connection
	*attachment
}

var _ incoming = cbs{}

// attachCBS attaches either link of the pair. A connection may have one $cbs sender; it is free again when its link or
// session ends, since clients end the session without detaching.
func (c *connection) attachCBS(l *amqp.Link) {
	if l.Outgoing() {
		c.attachReplier(l, managementAttachment(l, "", 0), nil, cbsNames)
		return
	}
	c.mu.Lock()
	taken := c.cbs != nil
	if !taken {
		c.cbs = l
	}
	c.mu.Unlock()
	if taken {
		c.refuse(l, amqp.Errorf(amqp.ErrCondNotAllowed, "Only one $cbs sender link is allowed per connection."))
		return
	}
	n := cbs{c, managementAttachment(l, "", 0)}
	l.Data = n
	c.log("accept link", c.accept(l, n.attachment, nil, amqp.Acceptance{Credit: senderCredit}))
}

func (n cbs) transfer(d *amqp.Delivery) {
	c := n.connection
	r, err := parseRequest(d)
	if err != nil {
		c.log("settle request", d.Settle(amqp.Rejected{Error: amqp.Errorf(amqp.ErrCondDecodeError, "%s", err)}))
		return
	}
	c.log("settle request", d.Settle(amqp.Accepted{}))
	_, path, _ := strings.Cut(resourcePath(r.text("name")), "/")
	c.request(r, cbsNames, plan{op: control.Op{Operation: "put-token", Entity: path}, run: func() reply { return c.putToken(r, path) }})
}

// putToken takes a token for a path. An entity that does not exist is answered 404 here and only here: this is where
// clients learn of it.
func (c *connection) putToken(r *request, path string) reply {
	if operation := r.text("operation"); operation != "put-token" {
		return reply{status: http.StatusNotImplemented, description: fmt.Sprintf("operation %q of $cbs is not supported by this emulator", operation)}
	}
	token, _ := r.body.(string)
	var given grant
	var err error
	switch kind := r.text("type"); kind {
	case "servicebus.windows.net:sastoken":
		given, err = checkSAS(token, r.text("name"), c.server.keys, c.server.hub.Now())
	case "jwt":
		given, err = c.server.checkJWT(token, r.text("name"))
	default:
		err = badTokenf("InvalidToken: token type %q is not known", kind)
	}
	if err != nil && c.server.hub.Off("servicebus.auth") {
		given, err = grant{until: c.server.hub.Now().Add(time.Hour), rights: AllRights}, nil
	}
	if err != nil {
		return reply{status: http.StatusUnauthorized, description: err.Error()}
	}
	entity, _ := cutSuffixFold(path, managementSuffix)
	if entity != "" {
		if _, err := c.server.namespace.Find(entity); err != nil && !c.server.hub.Off("servicebus.put-token-not-found") {
			return reply{status: http.StatusNotFound, description: c.server.notFound(entity).Description}
		}
	}
	c.mu.Lock()
	c.tokens[path] = given
	c.mu.Unlock()
	c.wakeWatch()
	return reply{status: http.StatusAccepted, description: "Accepted"}
}
