package cosmos

import (
	"cmp"
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxSkew is how far a request's date may be from now.
const maxSkew = 15 * time.Minute

// unauthorized is the service's sentence for a signature that does not fit.
const unauthorized = "The input authorization token can't serve the request. The wrong key is being used or the expected payload is not built as per the protocol."

// authorize checks who sent a request. A client's date and a test token's life
// are held against this machine's clock and not against the hub's: a clock jump
// makes documents and leases older, it does not put every client in the wrong.
// Options.TokenCheck has a clock of its own.
func (s *Server) authorize(r *http.Request, t target) *failure {
	if s.hub.Off("cosmos.auth") {
		return nil
	}
	header := headerOf(r, "Authorization")
	if header == "" {
		return refuse(http.StatusUnauthorized, "Required Header authorization is missing. Ensure a valid Authorization token is passed.")
	}
	// The signed form is percent-encoded, the token form is not.
	if strings.Contains(header, "%3D") || strings.Contains(header, "%3d") {
		decoded, err := url.QueryUnescape(header)
		if err != nil {
			return refuse(http.StatusUnauthorized, "Authorization header is not well percent-encoded.")
		}
		header = decoded
	}
	var kind, version, sig string
	for part := range strings.SplitSeq(header, "&") {
		switch name, text, _ := strings.Cut(part, "="); name {
		case "type":
			kind = text
		case "ver":
			version = text
		case "sig":
			sig = text
		}
	}
	if version != "1.0" || sig == "" {
		return refuse(http.StatusUnauthorized, "Authorization header doesn't confirm to the required format: want type, ver=1.0 and sig.")
	}
	switch kind {
	case "master":
		return s.authorizeKey(r, t, sig)
	case "aad":
		return s.authorizeToken(r, sig)
	case "resource":
		return notImplemented("resource tokens")
	}
	return refuse(http.StatusUnauthorized, "Authorization type %q is neither master nor aad.", kind)
}

func (s *Server) authorizeKey(r *http.Request, t target, sig string) *failure {
	date := headerOf(r, "X-Ms-Date")
	if date == "" {
		return refuse(http.StatusUnauthorized, "Required header x-ms-date is missing.")
	}
	at, err := http.ParseTime(date)
	if err != nil {
		return refuse(http.StatusUnauthorized, "Header x-ms-date %q is not an RFC 1123 date.", date)
	}
	if s.signer == nil {
		return refuse(http.StatusUnauthorized, "The account's own key is not base64: start the emulator with one that is.")
	}
	if !s.signer.signed(sig, r.Method, t, date) {
		return refuse(http.StatusUnauthorized, unauthorized)
	}
	if skew := time.Since(at).Abs(); skew > maxSkew && !s.hub.Off("cosmos.date-skew") {
		return refuse(http.StatusForbidden, "The authorization token is not valid at the current time. Please create another token and retry (token start time: %s, current time: %s).", date, time.Now().UTC().Format(http.TimeFormat))
	}
	return nil
}

// authorizeToken takes the tokens that the emulators' test credentials make: a
// JWT in its time whose third part is the account's key instead of a signature.
// All others are for Options.TokenCheck to say.
func (s *Server) authorizeToken(r *http.Request, token string) *failure {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return refuse(http.StatusUnauthorized, "The bearer token has %d parts, want the 3 of a JWT.", len(parts))
	}
	want := base64.RawURLEncoding.EncodeToString([]byte(s.options.Key))
	ofTests := hmac.Equal([]byte(strings.TrimRight(parts[2], "=")), []byte(want)) || s.hub.Off("cosmos.token-signature")
	if !ofTests && s.options.TokenCheck != nil {
		return s.checkToken(r, token)
	}
	var claims struct {
		Expires   int64 `json:"exp"`
		NotBefore int64 `json:"nbf"`
	}
	for i, into := range []any{new(map[string]any), &claims} {
		text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[i], "="))
		if err != nil || json.Unmarshal(text, into) != nil {
			return refuse(http.StatusUnauthorized, "Part %d of the bearer token is not base64url JSON.", i+1)
		}
	}
	now := time.Now()
	if now.After(time.Unix(claims.Expires, 0)) && !s.hub.Off("cosmos.token-expiry") {
		return refuse(http.StatusUnauthorized, "The bearer token has expired.")
	}
	if now.Add(maxSkew).Before(time.Unix(claims.NotBefore, 0)) {
		return refuse(http.StatusUnauthorized, "The bearer token is not valid yet.")
	}
	if !ofTests {
		return refuse(http.StatusUnauthorized, unauthorized)
	}
	return nil
}

// checkToken asks whether a token is good for this account, by any of the names
// that its clients may know it by.
func (s *Server) checkToken(r *http.Request, token string) *failure {
	var mistakes error
	for _, audience := range s.audiences(r) {
		_, err := s.options.TokenCheck(token, audience)
		if err == nil {
			return nil
		}
		mistakes = cmp.Or(mistakes, err) // that of the name by which the client came
	}
	return refuse(http.StatusUnauthorized, "The bearer token is not accepted: %s.", mistakes)
}

// anyAccount is the audience of tokens that are good for every account.
const anyAccount = "https://cosmos.azure.com"

// audiences are what a token for this account may be for: its host as the client
// has reached it or as the account document names it, without the port, which
// clients leave out. The names of this machine are one, since a client that came to
// one of them may have been sent to another.
func (s *Server) audiences(r *http.Request) []string {
	var hosts []string
	for _, address := range []string{"//" + r.Host, s.options.Endpoint} {
		if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
			hosts = append(hosts, u.Hostname())
		}
	}
	if slices.ContainsFunc(hosts, loopback) {
		hosts = append(hosts, "localhost", "127.0.0.1", "::1")
	}
	var all []string
	for _, host := range hosts {
		all = append(all, "https://"+host, "http://"+host)
	}
	return append(all, anyAccount)
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
