package servicebus

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Rights are what a key or a token allows.
type Rights uint8

// The claims of Service Bus. One who may manage may do the others too, as AllRights says.
const (
	Listen Rights = 1 << iota
	Send
	Manage

	AllRights = Listen | Send | Manage
)

// String is the right as refusals name it.
func (r Rights) String() string {
	switch r {
	case Listen:
		return "Listen"
	case Send:
		return "Send"
	case Manage:
		return "Manage"
	}
	return fmt.Sprintf("Rights(%d)", uint8(r))
}

// named is the right that a refusal names where either of two would do.
func (r Rights) named() Rights {
	if r == Send|Listen {
		return Listen
	}
	return r
}

// errClaim is wrapped by the refusal of what no token of the client allows.
var errClaim = errors.New("unauthorized access")

// claimError is the refusal of an operation that needs a right, in the service's words.
type claimError struct {
	need     Rights
	resource string
}

func (e *claimError) Error() string {
	return fmt.Sprintf("Unauthorized access. '%v' claim(s) are required to perform this operation. Resource: '%s'.", e.need, e.resource)
}

func (e *claimError) Unwrap() error { return errClaim }

// Key is a shared access key and what tokens signed with it allow.
type Key struct {
	Value  string
	Rights Rights
}

// grant is what a token that was accepted allows, and until when.
type grant struct {
	until  time.Time
	rights Rights
}

// allows reports whether the grant stands and includes at least one of the rights.
func (g grant) allows(any Rights, now time.Time) bool { return g.until.After(now) && g.rights&any != 0 }

const sasPrefix = "SharedAccessSignature "

// checkToken checks a token of either kind for an audience such as amqp://host/entity. Its errors are badTokens.
func (s *Server) checkToken(token, audience string) (grant, error) {
	if strings.HasPrefix(token, sasPrefix) {
		return checkSAS(token, audience, s.keys, s.hub.Now())
	}
	return s.checkJWT(token, audience)
}

func (s *Server) checkJWT(token, audience string) (grant, error) {
	if s.jwt == nil {
		return grant{}, badTokenf("InvalidToken: JSON web tokens are not accepted here: use a connection string with a shared access key")
	}
	until, err := s.jwt(token, audience)
	if err != nil {
		return grant{}, badTokenf("InvalidToken: %v", err)
	}
	if now := s.hub.Now(); !until.After(now) {
		return grant{}, expiredToken(until)
	}
	return grant{until: until, rights: AllRights}, nil
}

func expiredToken(at time.Time) error {
	return badTokenf("ExpiredToken: The token is expired. Expiration time: %s", at.UTC().Format(time.RFC3339))
}
