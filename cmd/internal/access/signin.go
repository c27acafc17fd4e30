package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"oneeffect/internal/orchestrator"

	"golang.org/x/oauth2"
)

// The paths of a browser's sign-in, which are no API's.
const (
	SignIn   = "/sign-in"
	SignedIn = "/signed-in" // where the issuer sends a browser back to
	SignOut  = "/sign-out"
)

// The cookies. A browser takes one of this prefix only from this host, over TLS (or
// from its own machine), and for all of its paths.
const (
	tokenCookie = "__Host-oneeffect"
	flowCookie  = "__Host-oneeffect-flow"
)

const (
	flowLife     = 10 * time.Minute // of one sign-in
	exchangeTime = 10 * time.Second
	maxCookie    = 3800 // bytes of a token that a browser keeps
)

// signIn is the authorization code flow with PKCE (A6). Its outcome is the issuer's
// access token for this API, in a cookie that no script can read: a browser's requests
// are then held to the same rules as anybody's.
func (g *Guard) signIn(w http.ResponseWriter, r *http.Request) {
	config, ok := g.client()
	if !ok {
		g.refuse(w, r, errNoKeys)
		return
	}
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	to := base64.RawURLEncoding.EncodeToString([]byte(local(r.URL.Query().Get("to"))))
	setCookie(w, flowCookie, state+"."+verifier+"."+to, flowLife)
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier)), http.StatusSeeOther)
}

// signedIn takes what the issuer sends a browser back with.
func (g *Guard) signedIn(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	setCookie(w, flowCookie, "", -1)
	w.Header().Set("Cache-Control", "no-store")
	verifier, to, err := begun(r, query.Get("state"))
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	if query.Get("code") == "" {
		g.refuse(w, r, errDenied)
		return
	}
	config, ok := g.client()
	if !ok {
		g.refuse(w, r, errNoKeys)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), oauth2.HTTPClient, g.keys.client), exchangeTime)
	defer cancel()
	token, err := config.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		g.refuse(w, r, errExchange) // its own words may quote the answer
		return
	}
	_, until, err := g.believe(r.Context(), token.AccessToken)
	switch {
	case err != nil:
		g.refuse(w, r, err)
		return
	case len(token.AccessToken) > maxCookie:
		g.refuse(w, r, errTooLarge)
		return
	}
	setCookie(w, tokenCookie, token.AccessToken, time.Until(until))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// begun is what the browser has kept of the sign-in that a state belongs to.
func begun(r *http.Request, state string) (verifier, to string, err error) {
	kept, err := r.Cookie(flowCookie)
	if err != nil {
		return "", "", errNoFlow
	}
	parts := strings.Split(kept.Value, ".")
	if len(parts) != 3 || parts[0] == "" || subtle.ConstantTimeCompare([]byte(parts[0]), []byte(state)) != 1 {
		return "", "", errNoFlow
	}
	path, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return "", "", errNoFlow
	}
	return parts[1], local(string(path)), nil
}

// signOut forgets the token. It goes by POST, and not from other sites: nobody is
// signed out by a picture.
func (g *Guard) signOut(w http.ResponseWriter, r *http.Request) {
	setCookie(w, tokenCookie, "", -1)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(`<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Signed out · oneeffect</title><p>You are signed out here. <a href="/">Sign in again</a></p></html>` + "\n"))
}

// Why a sign-in fails.
var (
	errNoFlow   = errors.New("this browser has begun no such sign-in, or too long ago: begin at /")
	errDenied   = errors.New("the issuer has not signed you in; its own page has said why")
	errExchange = errors.New("the issuer did not give a token for the code that it has sent: begin at /, and if that does not help see the flags -oidc-client, -oidc-scope and -page-url")
)

// client is this page as the issuer knows it, once the issuer has been asked.
func (g *Guard) client() (*oauth2.Config, bool) {
	g.keys.mu.Lock()
	endpoint := g.keys.endpoint
	g.keys.mu.Unlock()
	if g.o.Client == "" || !strings.HasPrefix(endpoint.AuthURL, "https://") || !strings.HasPrefix(endpoint.TokenURL, "https://") {
		return nil, false
	}
	return &oauth2.Config{
		ClientID: g.o.Client, ClientSecret: g.o.Secret, Endpoint: endpoint,
		RedirectURL: strings.TrimSuffix(g.o.PageURL, "/") + SignedIn, Scopes: strings.Fields(g.o.Scope),
	}, true
}

func setCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	seconds := int(life / time.Second)
	if seconds <= 0 {
		seconds = -1
	}
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// local is a path of this site, or the front page: nobody is sent elsewhere.
func local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n") {
		return "/"
	}
	return path
}

// browses reports whether a browser opens a page, which is then signed in instead of
// refused.
func browses(r *http.Request) bool {
	return r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/v1/") && strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/html")
}

// flow answers to the paths of a sign-in; done is whether the request was one of them.
func (g *Guard) flow(w http.ResponseWriter, r *http.Request) (done bool) {
	switch {
	case g.o.Client == "":
		return false
	case r.URL.Path == SignIn && r.Method == http.MethodGet:
		g.signIn(w, r)
	case r.URL.Path == SignedIn && r.Method == http.MethodGet:
		g.signedIn(w, r)
	case r.URL.Path == SignOut && r.Method == http.MethodPost:
		orchestrator.OwnOrigin(http.HandlerFunc(g.signOut)).ServeHTTP(w, r)
	default:
		return false
	}
	return true
}
