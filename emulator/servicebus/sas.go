package servicebus

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// badToken is a reason not to take a token, in words that begin like the service's.
type badToken string

func (b badToken) Error() string { return string(b) }

func badTokenf(format string, args ...any) error { return badToken(fmt.Sprintf(format, args...)) }

// checkSAS checks a shared access signature for an audience and returns when it ends and what its key allows.
//
//	SharedAccessSignature sr=<resource>&sig=<HMAC-SHA256 over sr, newline, se>&se=<unix seconds>&skn=<key name>
//
// The signature covers sr as it is written, so it is taken apart by hand.
func checkSAS(token, audience string, keys map[string]Key, now time.Time) (grant, error) {
	text, ok := strings.CutPrefix(token, sasPrefix)
	if !ok {
		return grant{}, badTokenf("InvalidSignature: the token does not begin with SharedAccessSignature")
	}
	fields := make(map[string]string, 4)
	for part := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(part, "=")
		fields[name] = value
	}
	resource, err1 := url.QueryUnescape(fields["sr"])
	signature, err2 := url.QueryUnescape(fields["sig"])
	keyName, err3 := url.QueryUnescape(fields["skn"])
	expiry, err4 := strconv.ParseInt(fields["se"], 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil || resource == "" || signature == "" {
		return grant{}, badTokenf("MalformedToken: sr, sig, se and skn are needed: %v", err)
	}
	key, ok := keys[keyName]
	if !ok {
		return grant{}, badTokenf("InvalidSignature: there is no key named %q", keyName)
	}
	mac := hmac.New(sha256.New, []byte(key.Value))
	mac.Write([]byte(fields["sr"] + "\n" + fields["se"]))
	given, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || !hmac.Equal(given, mac.Sum(nil)) {
		return grant{}, badTokenf("InvalidSignature: The token has an invalid signature")
	}
	ends := time.Unix(expiry, 0).UTC()
	if !ends.After(now) {
		return grant{}, expiredToken(ends)
	}
	if !covers(resourcePath(resource), resourcePath(audience)) {
		return grant{}, badTokenf("InvalidAudience: a token for %q does not cover %q", resource, audience)
	}
	return grant{until: ends, rights: key.Rights}, nil
}

// resourcePath brings the forms in which a resource is written to one: host/path, in lower case.
func resourcePath(resource string) string {
	if _, rest, ok := strings.Cut(resource, "://"); ok {
		resource = rest
	}
	return strings.ToLower(strings.TrimRight(resource, "/"))
}

// covers reports whether a token for a resource is good for a path: the resource itself, or what lies below.
func covers(resource, path string) bool {
	rest, ok := strings.CutPrefix(path, resource)
	return ok && (rest == "" || rest[0] == '/')
}
