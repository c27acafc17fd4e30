package servicebus

import (
	"net/http"
	"strings"

	"oneeffect/emulator/servicebus/atom"
)

// The headers in which a client shows that it may send to where messages are forwarded.
const (
	forwardToken           = "ServiceBusSupplementaryAuthorization"
	forwardDeadLetterToken = "ServiceBusDlqSupplementaryAuthorization"
)

// authorize checks the request's token and reports whether it allows to manage.
func (q *adminRequest) authorize() (bool, error) {
	token := strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer ")
	if token == "" {
		return false, refuse(http.StatusUnauthorized, "MissingToken: The authorization header was not found.")
	}
	// A signature may be made for the whole address, its query included, or for the resource alone.
	audience := q.base() + q.URL.EscapedPath()
	g, err := q.server.checkToken(token, audience)
	if err != nil {
		if g, err = q.server.checkToken(token, q.address()); err != nil {
			return false, tokenRefused(err)
		}
	}
	return g.allows(Manage, q.server.hub.Now()), nil
}

func tokenRefused(err error) error {
	return refuse(http.StatusUnauthorized, "%s", strings.TrimPrefix(err.Error(), "unauthorized: "))
}

// forwarding checks the tokens that came for the entities that messages are forwarded to. They need not come: who may
// manage the namespace may send to all of it.
func (q *adminRequest) forwarding(to, deadLettersTo *string) error {
	for header, target := range map[string]*string{forwardToken: to, forwardDeadLetterToken: deadLettersTo} {
		token := strings.TrimPrefix(q.Header.Get(header), "Bearer ")
		if token == "" || target == nil {
			continue
		}
		if _, err := q.server.checkToken(token, *target); err != nil {
			return tokenRefused(err)
		}
	}
	return nil
}

// operations are what the service calls the methods on subscriptions and rules.
var operations = map[string]string{http.MethodGet: "Get", http.MethodPut: "CreateOrUpdate", http.MethodDelete: "Delete"}

// unauthorized answers who may not manage. A queue or topic that does not exist is said not to, even so.
func (q *adminRequest) unauthorized() (answer, error) {
	if q.to.nested {
		kind, one := "Subscription", q.to.subscription != ""
		if q.to.rules {
			kind, one = "Rule", q.to.rule != ""
		}
		operation := operations[q.Method] + kind
		if q.Method == http.MethodGet && !one {
			operation = "Enumerate" + kind + "s"
		}
		return answer{}, refuse(http.StatusUnauthorized, "401 SubCode=40100: Unauthorized : Unauthorized access for '%s' operation on endpoint 'sb://%s%s'.",
			operation, q.server.name, q.URL.Path)
	}
	switch q.Method {
	case http.MethodPut:
		return answer{}, refuse(http.StatusUnauthorized, "Authorization failed for specified action: Manage,EntityWrite.")
	case http.MethodDelete:
		return answer{}, refuse(http.StatusUnauthorized, "Authorization failed for specified action: Manage,EntityDelete.")
	}
	if q.to.entity != "" {
		if _, err := q.server.namespace.Info(q.to.entity); err != nil {
			return q.noEntity(), nil
		}
	}
	return answer{}, refuse(http.StatusUnauthorized, "Manage,EntityRead claims required for this operation.")
}

// noEntity is what a client gets that asks for a queue or topic that does not exist: an empty list.
func (q *adminRequest) noEntity() answer {
	return answer{status: http.StatusOK, document: atom.Feed{ID: q.address(), Title: "Publicly Listed Services", Updated: q.server.hub.Now()}}
}
