package orchestrator

import (
	"context"
	"slices"
)

// Role is what a caller may do. None implies another: who operates and reads has
// both.
type Role string

// The roles. What stands open to everybody, such as /livez, needs none.
const (
	Read    Role = "read"    // see executions and dead letters
	Submit  Role = "submit"  // create executions
	Operate Role = "operate" // cancel, replay and resolve them
)

// Principal is who asks. Its name is part of an Idempotency-Key's digest and stands
// in the history of what its bearer did, so it must be the same tomorrow: a subject
// and not a session.
type Principal struct {
	Name  string
	Roles []Role
}

// Anonymous is everybody, where nobody is asked who they are: on this machine's own
// loopback. It may do everything.
const Anonymous = "anonymous"

type principalKey struct{}

// WithPrincipal says who asks. What stands in front of the API calls it, once it
// knows.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalOf is who asks; nobody having said, Anonymous.
func PrincipalOf(ctx context.Context) Principal {
	if p, ok := ctx.Value(principalKey{}).(Principal); ok {
		return p
	}
	return Principal{Name: Anonymous, Roles: []Role{Read, Submit, Operate}}
}

// May reports whether the principal has a role.
func (p Principal) May(r Role) bool { return slices.Contains(p.Roles, r) }
