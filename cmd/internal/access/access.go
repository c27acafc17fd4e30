// Package access stands in front of the orchestrator's API and says who asks.
//
//	no issuer   an open API on loopback: everybody is anonymous and may do everything
//	an issuer   a bearer token in the header Authorization, or nothing but /livez and /readyz
//
// Which role a request takes is package orchestrator's to say (orchestrator.Needs);
// who has it is a claim in the token, and this package's to find out.
//
//	A1  A token is taken only if a key of the issuer signed it, by an asymmetric
//	    algorithm, for our audience, and within its time, give or take a minute.
//	A2  A key that the issuer no longer publishes is not believed for longer than a
//	    day, one hour as a rule. A new one is looked for when a token comes that no
//	    key fits, at most once in ten seconds, however many such tokens come.
//	A3  While nothing is known of the issuer, a token is neither taken nor refused:
//	    503 with Retry-After, and /readyz too. A crash of the issuer does not end
//	    what runs, and the process starts without it.
//	A4  No token, and nothing read from one that was refused, is in a log or in an
//	    answer. A token goes no further than this package.
//	A5  A web page cannot reach an open API by a name of its own that it has made
//	    point to loopback: the request's Host must be a loopback name or address.
//	A6  A browser signs in by the authorization code flow with PKCE, if a client is
//	    configured. What it then sends is the issuer's access token, in a cookie that no
//	    script reads and no other site's form takes along, and the rules are the same.
package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"oneeffect/internal/orchestrator"
)

// Options are what a Guard is told.
type Options struct {
	Settings
	Address   net.Addr          // where the API is offered
	Transport http.RoundTripper // the way to the issuer
	Log       *slog.Logger
}

// Guard is the middleware.
type Guard struct {
	o          Options
	onLoopback bool
	keys       *keys // nil: an open API
}

// New makes a guard. It looks at the address that is listened at, since a name such
// as localhost may have led somewhere else.
func New(o Options) (*Guard, error) {
	address := o.Address.String()
	if err := o.Check(address); err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(address) // Check has tried it
	g := &Guard{o: o, onLoopback: loopback(host)}
	if o.Required() {
		g.keys = newKeys(o.Issuer, o.Transport, o.Log)
	}
	return g, nil
}

// Run keeps the issuer's keys until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	if g.keys != nil {
		g.keys.keep(ctx)
	}
	return nil
}

// Handler is next behind the guard.
func (g *Guard) Handler(next http.Handler) http.Handler {
	if g.keys == nil {
		return g.open(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.flow(w, r) {
			return
		}
		who, err := g.admit(r)
		if err != nil && g.o.Client != "" && browses(r) && !errors.Is(err, errNoKeys) {
			if _, lacks := errors.AsType[*missing](err); !lacks {
				w.Header().Set("Cache-Control", "no-store")
				http.Redirect(w, r, SignIn+"?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
				return
			}
		}
		if err != nil {
			g.refuse(w, r, err)
			return
		}
		admitted := r.WithContext(orchestrator.WithPrincipal(r.Context(), who))
		admitted.Header = r.Header.Clone()
		admitted.Header.Del("Authorization")
		admitted.Header.Del("Cookie")
		next.ServeHTTP(w, admitted)
	})
}

// admit says as whom a request may go on.
func (g *Guard) admit(r *http.Request) (orchestrator.Principal, error) {
	need := orchestrator.Needs(r)
	switch {
	case need == "" && r.URL.Path == "/readyz" && !g.keys.known():
		return orchestrator.Principal{}, errNoKeys
	case need == "":
		return orchestrator.Principal{}, nil
	case need == orchestrator.Read && g.onLoopback && r.URL.Path == "/openapi.json":
		return orchestrator.Principal{Name: orchestrator.Anonymous, Roles: []orchestrator.Role{need}}, nil
	}
	who, err := g.authenticate(r)
	if err == nil && !who.May(need) {
		err = &missing{need}
	}
	return who, err
}

// open refuses requests whose Host is no loopback name. A page of evil.example, once
// it has that name point to 127.0.0.1, is of the same origin as this API to a
// browser, but it cannot make the browser call it by another name.
func (g *Guard) open(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopbackHost(r.Host) {
			w.Header().Set("Cache-Control", "no-store")
			g.log(r, orchestrator.Misdirected, "the host is no loopback name")
			orchestrator.WriteProblem(w, orchestrator.Misdirected, "this API is offered to this machine alone: call it as localhost, 127.0.0.1 or [::1]")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopbackHost reports whether a Host header, port or none, names loopback.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return loopback(strings.ToLower(name))
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host, ok = strings.CutSuffix(inner, "]")
		if !ok {
			return false
		}
	}
	return loopback(strings.ToLower(host))
}

// missing is the refusal of somebody who is known and may not.
type missing struct{ role orchestrator.Role }

func (m *missing) Error() string {
	return fmt.Sprintf("this takes the role %s, and the token does not give it", m.role)
}

// realm is what every challenge begins with.
const realm = `Bearer realm="oneeffect"`

// refuse answers by the cause. Its words are ours throughout: none is from the token.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	problem, h := orchestrator.Unauthenticated, w.Header()
	h.Set("Cache-Control", "no-store")
	lacks, isMissing := errors.AsType[*missing](err)
	switch {
	case errors.Is(err, errNoKeys):
		problem = orchestrator.Unavailable
		h.Set("Retry-After", strconv.Itoa(int(pause/time.Second)))
	case isMissing:
		problem = orchestrator.NotPermitted
		h.Set("WWW-Authenticate", realm+`, error="insufficient_scope", scope="`+string(lacks.role)+`"`)
	case errors.Is(err, errNoToken):
		h.Set("WWW-Authenticate", realm)
	case errors.Is(err, errMalformed):
		h.Set("WWW-Authenticate", realm+`, error="invalid_request"`)
	default:
		h.Set("WWW-Authenticate", realm+`, error="invalid_token"`)
	}
	g.log(r, problem, err.Error())
	orchestrator.WriteProblem(w, problem, err.Error())
}

// log says that a request was refused. The query is left out: whoever sends a token
// there, where it does not belong, would find it in the log.
func (g *Guard) log(r *http.Request, p orchestrator.Problem, reason string) {
	g.o.Log.LogAttrs(r.Context(), slog.LevelInfo, "request refused", slog.String("method", r.Method),
		slog.String("path", r.URL.Path), slog.Int("status", p.Status()), slog.String("reason", reason))
}
