package downstream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"golang.org/x/net/http/httpguts"
)

// Auth is how a call proves who is calling: not at all, with a fixed bearer token
// from a variable, or with a token of Entra ID for a scope.
type Auth struct {
	Env   string // the variable's name, or
	Scope string // the scope, or neither
}

// parseAuth reads "none", "env:NAME" or "entra:SCOPE". A variable must be set
// already now: a worker without its secret must not start.
func parseAuth(text string, getenv func(string) string) (Auth, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch {
	case text == "" || text == "none":
		return Auth{}, nil
	case kind == "env" && rest != "":
		if getenv(rest) == "" {
			return Auth{}, fmt.Errorf("auth: the variable %s is not set", rest)
		}
		return Auth{Env: rest}, nil
	case kind == "entra" && rest != "":
		return Auth{Scope: rest}, nil
	}
	return Auth{}, errors.New("auth must be none, env:NAME or entra:SCOPE") // what it is may be the secret itself
}

// bearer returns the Authorization header of a call, "" if there is none.
type bearer func(ctx context.Context) (string, error)

// bearer prepares what the declaration asks for.
func (a Auth) bearer(getenv func(string) string, credential azcore.TokenCredential) (bearer, error) {
	switch {
	case a.Env != "":
		secret := ""
		if getenv != nil {
			secret = getenv(a.Env)
		}
		if secret == "" || !httpguts.ValidHeaderFieldValue(secret) {
			return nil, fmt.Errorf("auth env:%s: the variable is not set, or not usable in a header", a.Env)
		}
		return func(context.Context) (string, error) { return "Bearer " + secret, nil }, nil
	case a.Scope != "":
		if credential == nil {
			return nil, errors.New("auth entra: no credential is configured")
		}
		return func(ctx context.Context) (string, error) {
			token, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{a.Scope}})
			if err != nil {
				return "", fmt.Errorf("get a token for %s: %w", a.Scope, err)
			}
			return "Bearer " + token.Token, nil
		}, nil
	}
	return func(context.Context) (string, error) { return "", nil }, nil
}
