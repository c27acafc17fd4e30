package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"oneeffect/internal/orchestrator"

	"github.com/coreos/go-oidc/v3/oidc"
)

// skew is what the issuer's clock and ours may differ by.
const skew = time.Minute

// maxToken bounds a token before anything of it is read.
const maxToken = 8 << 10

// maxSubject is the longest subject by OpenID Connect.
const maxSubject = 255

// algorithms are those whose verifying key cannot sign. "none" is not among them,
// and no HMAC, for which a published key would do as the secret.
func algorithms() []string {
	return []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512}
}

// Why a token is refused, in words that say nothing of it.
var (
	errNoToken   = errors.New("sign in: send a bearer token in the header Authorization; one anywhere else is not looked at")
	errMalformed = errors.New("the header Authorization is not one line of Bearer, a space and a token")
	errTooLarge  = fmt.Errorf("the token has more than %d bytes: ask the issuer for one with fewer groups in it", maxToken)
	errNoKeys    = errors.New("the issuer of tokens cannot be asked for its keys at present, so nobody can be signed in: try again")
	errNotSigned = errors.New("the token is no JWT that a key of the issuer signed by an algorithm that is taken, RS256 or ES256 for example")
	errIssuer    = errors.New("the token is of another issuer than the one that is trusted here")
	errAudience  = errors.New("the token is for another audience: ask the issuer for one for this API")
	errExpired   = errors.New("the token has expired: ask the issuer for a new one")
	errNotYet    = errors.New("the token is not valid yet: the clock of its issuer or of this server is wrong")
	errSubject   = errors.New("the token has no usable subject: it must have a claim sub of at most 255 visible ASCII characters")
	errRoles     = errors.New("the token's roles are neither a list of strings nor a string")
	errInvalid   = errors.New("the token is not valid")
)

// authenticate says who asks, by their token.
func (g *Guard) authenticate(r *http.Request) (orchestrator.Principal, error) {
	headers := r.Header["Authorization"]
	if kept, err := r.Cookie(tokenCookie); err == nil && len(headers) == 0 && g.o.Client != "" {
		headers = []string{"Bearer " + kept.Value}
	}
	raw, err := bearer(headers)
	if err != nil {
		return orchestrator.Principal{}, err
	}
	who, _, err := g.believe(r.Context(), raw)
	return who, err
}

// believe says whose a token is, and until when it is good.
func (g *Guard) believe(ctx context.Context, raw string) (orchestrator.Principal, time.Time, error) {
	nobody := orchestrator.Principal{}
	seen := &witness{keys: g.keys}
	token, err := oidc.NewVerifier(g.o.Issuer, seen, &oidc.Config{
		ClientID: g.o.Audience, SupportedSigningAlgs: algorithms(),
		Now: func() time.Time { return time.Now().Add(-skew) }, // of the expiry; the rest is in timely
	}).Verify(ctx, raw)
	if err != nil {
		return nobody, time.Time{}, seen.explain(err, g.o.Settings)
	}
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return nobody, time.Time{}, errInvalid
	}
	if err := timely(claims); err != nil {
		return nobody, time.Time{}, err
	}
	if !usable(token.Subject) {
		return nobody, time.Time{}, errSubject
	}
	roles, err := rolesOf(claims[g.o.RolesClaim])
	if err != nil {
		return nobody, time.Time{}, err
	}
	return orchestrator.Principal{Name: token.Subject, Roles: roles}, token.Expiry, nil
}

// bearer is the token in a request's Authorization headers.
func bearer(headers []string) (string, error) {
	if len(headers) == 0 {
		return "", errNoToken
	}
	scheme, token, ok := strings.Cut(headers[0], " ")
	token = strings.TrimLeft(token, " ")
	switch {
	case len(headers) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") || token == "":
		return "", errMalformed
	case len(token) > maxToken:
		return "", errTooLarge
	case strings.ContainsFunc(token, func(c rune) bool { // no compact JWT has any other character
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' && c != '.'
	}):
		return "", errMalformed
	}
	return token, nil
}

// witness checks one token's signature and remembers how that went, since the
// verifier's errors are text, and text that quotes the token.
type witness struct {
	keys   *keys
	signed []byte // claims whose signature is good
	err    error
}

// VerifySignature implements oidc.KeySet.
func (s *witness) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	s.signed, s.err = s.keys.verify(ctx, jwt)
	return s.signed, s.err
}

// explain finds the words for a refusal. It decides nothing: the verifier has.
func (s *witness) explain(refused error, want Settings) error {
	var claims struct {
		Issuer   string          `json:"iss"`
		Audience json.RawMessage `json:"aud"`
	}
	_, expired := errors.AsType[*oidc.TokenExpiredError](refused)
	switch {
	case errors.Is(s.err, errNoKeys):
		return errNoKeys
	case s.signed == nil:
		return errNotSigned
	case json.Unmarshal(s.signed, &claims) != nil:
		return errInvalid
	case claims.Issuer != want.Issuer:
		return errIssuer
	case !slices.Contains(stringsOf(claims.Audience), want.Audience):
		return errAudience
	case expired:
		return errExpired
	}
	return errInvalid
}

// timely holds the beginning of a token's time to our own bound: the verifier's
// allows five minutes.
func timely(claims map[string]json.RawMessage) error {
	latest := float64(time.Now().Add(skew).Unix())
	for _, name := range []string{"nbf", "iat"} {
		text, ok := claims[name]
		if !ok {
			continue
		}
		var at float64
		if err := json.Unmarshal(text, &at); err != nil {
			return errInvalid
		}
		if at > latest {
			return errNotYet
		}
	}
	return nil
}

// usable reports whether a subject can be somebody's name: it is part of digests
// and stands in histories.
func usable(subject string) bool {
	return subject != "" && len(subject) <= maxSubject && !strings.ContainsFunc(subject, func(c rune) bool { return c < ' ' || c > '~' })
}

// rolesOf are the roles in a claim, those that are not ours left out. No claim is no
// role: who has none may be known to the issuer, and to nobody here.
func rolesOf(claim json.RawMessage) ([]orchestrator.Role, error) {
	if claim == nil {
		return nil, nil
	}
	named := stringsOf(claim)
	if named == nil {
		return nil, errRoles
	}
	var roles []orchestrator.Role
	for _, name := range named {
		switch role := orchestrator.Role(name); role {
		case orchestrator.Read, orchestrator.Submit, orchestrator.Operate:
			roles = append(roles, role)
		}
	}
	return roles, nil
}

// stringsOf is a claim that is a list of strings, or one string of words; nil if it
// is neither.
func stringsOf(claim json.RawMessage) []string {
	list := []string{}
	if json.Unmarshal(claim, &list) == nil {
		return list
	}
	var words string
	if json.Unmarshal(claim, &words) != nil {
		return nil
	}
	return strings.Fields(words)
}
