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
}

// Register defines the flags.
func (s *Settings) Register(flags *flag.FlagSet) {
	flags.StringVar(&s.Issuer, "oidc-issuer", "", "URL of the OpenID Connect issuer whose bearer tokens are taken, for example https://login.microsoftonline.com/TENANT/v2.0; needed off loopback, and with it tokens are required on loopback too")
	flags.StringVar(&s.Audience, "oidc-audience", "", "audience that a token must be for: in Entra ID the application's client id")
	flags.StringVar(&s.RolesClaim, "oidc-roles-claim", "roles", "claim of the token that lists the caller's roles: read, submit, operate")
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
	return errors.Join(errs...)
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
