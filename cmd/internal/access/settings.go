package access

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"net/url"
)

// Settings say who may call. Their zero is an open API, which Check allows on
// loopback only.
type Settings struct {
	Issuer     string // whose tokens are believed; empty: no tokens
	Audience   string // whom they must be for
	RolesClaim string

	Client  string // this page's id at the issuer; empty: browsers do not sign in
	Secret  string // its secret, if it has one
	Scope   string // what a browser's token is asked for
	PageURL string // where browsers find the page
}

// SecretVariable is the environment's name of the client's secret.
const SecretVariable = "OIDC_CLIENT_SECRET"

// Register defines the flags.
func (s *Settings) Register(flags *flag.FlagSet) {
	flags.StringVar(&s.Issuer, "oidc-issuer", "", "URL of the OpenID Connect issuer whose bearer tokens are taken, for example https://login.microsoftonline.com/TENANT/v2.0; needed off loopback, and with it tokens are required on loopback too")
	flags.StringVar(&s.Audience, "oidc-audience", "", "audience that a token must be for: in Entra ID the application's client id")
	flags.StringVar(&s.RolesClaim, "oidc-roles-claim", "roles", "claim of the token that lists the caller's roles: read, submit, operate")
	flags.StringVar(&s.Client, "oidc-client", "", "this application's client id at the issuer, by which browsers sign in to the page; takes -oidc-scope and -page-url, and "+SecretVariable+" in the environment if it has a secret")
	flags.StringVar(&s.Scope, "oidc-scope", "", "scopes that a browser's token is asked for, for example api://CLIENT/.default")
	flags.StringVar(&s.PageURL, "page-url", "", "where browsers find the page, for example https://tasks.example.com; the issuer must know its path /signed-in as a redirect URI")
}

// Required reports whether callers must bring a token.
func (s *Settings) Required() bool { return s.Issuer != "" || s.Audience != "" }

// Check holds the settings against the address that the API is offered at.
func (s *Settings) Check(listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("-listen %q: give host:port, for example 127.0.0.1:8080", listen)
	}
	if !s.Required() {
		if !loopback(host) {
			return fmt.Errorf("-listen %q is not a loopback address, and the API is not offered to a network without sign-in: give -oidc-issuer and -oidc-audience, or listen on 127.0.0.1", listen)
		}
		if s.Client != "" {
			return errors.New("-oidc-client without -oidc-issuer and -oidc-audience: say where browsers sign in, and what for")
		}
		return nil
	}
	var errs []error
	if err := checkIssuer(s.Issuer); err != nil {
		errs = append(errs, err)
	}
	if s.Audience == "" {
		errs = append(errs, errors.New("-oidc-issuer without -oidc-audience: a token that its issuer made for another API would be taken; give the audience too"))
	}
	if s.RolesClaim == "" {
		errs = append(errs, errors.New("-oidc-roles-claim is empty: nobody would have a role; name the claim, for example roles"))
	}
	return errors.Join(append(errs, s.checkClient())...)
}

// checkClient holds together what browsers sign in by.
func (s *Settings) checkClient() error {
	if s.Client == "" {
		return nil
	}
	at, err := url.Parse(s.PageURL)
	if err != nil || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" || at.Path != "" && at.Path != "/" ||
		at.Scheme != "https" && (at.Scheme != "http" || !loopback(at.Hostname())) {
		return errors.New("-oidc-client takes -page-url: give the https URL that browsers find the page at, without a path; http on loopback alone")
	}
	if s.Scope == "" {
		return errors.New("-oidc-client without -oidc-scope: a token for another API would come back; give the scope of this one, for example api://CLIENT/.default")
	}
	return nil
}

func checkIssuer(issuer string) error {
	if issuer == "" {
		return errors.New("-oidc-audience without -oidc-issuer: say whose tokens are taken")
	}
	at, err := url.Parse(issuer)
	if err != nil || at.Scheme != "https" || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		// It is not quoted: a password may be in it.
		return errors.New("-oidc-issuer is no https URL without user, query and fragment: give it exactly as the claim iss has it")
	}
	return nil
}

// loopback reports whether a host, without port, is this machine's own loopback by
// its name or address.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
