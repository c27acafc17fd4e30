// Package identity stands in for the managed identity of a cloud host: clients ask
// it for tokens, and the emulated services ask it whether a token is good.
//
//	client ──GET /msi?resource=R──▶ Issuer ──token for R──▶ client ──token──▶ service
//	                                  ▲                                          │
//	                                  └────────────────Check(token, R)───────────┘
//
// Tokens are JSON web tokens, header.payload.signature, signed with HMAC-SHA256
// and a key that only this process has.
package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// TokenCheck says whether a token is good for an audience, and until when. What is
// wrong with it is in the error, in the words that services use.
type TokenCheck func(token, audience string) (expires time.Time, err error)

// ErrToken is wrapped by every reason not to take a token.
var ErrToken = errors.New("the token is not accepted")

// Lifetime is how long a token is good.
const Lifetime = 24 * time.Hour

const (
	issuer = "https://sts.emulator.invalid/"
	// principal is who every token is for: there is one identity, which may do everything.
	principal = "00000000-0000-0000-0000-000000000001"
)

// header is that of every token, encoded. The signature covers it, so nobody else
// has a say in how a token is checked.
var header = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))

// Issuer issues tokens and checks them.
type Issuer struct {
	key []byte
	now func() time.Time
}

// New makes an issuer with a key of its own. Its clock is that of the services.
func New(now func() time.Time) *Issuer {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return &Issuer{key: key, now: now}
}

// claims is the payload of a token.
type claims struct {
	Audience  string `json:"aud"`
	Issuer    string `json:"iss"`
	Object    string `json:"oid"`
	Subject   string `json:"sub"`
	IssuedAt  int64  `json:"iat"`
	NotBefore int64  `json:"nbf"`
	Expires   int64  `json:"exp"`
}

// Token issues a token for an audience.
func (i *Issuer) Token(audience string) (token string, expires time.Time) {
	now := i.now()
	expires = now.Add(Lifetime).UTC().Truncate(time.Second)
	payload, _ := json.Marshal(claims{ // of strings and numbers, which always works
		Audience: audience, Issuer: issuer, Object: principal, Subject: principal,
		IssuedAt: now.Unix(), NotBefore: now.Unix(), Expires: expires.Unix(),
	})
	signed := header + "." + base64.RawURLEncoding.EncodeToString(payload)
	return signed + "." + i.sign(signed), expires
}

func (i *Issuer) sign(text string) string {
	mac := hmac.New(sha256.New, i.key)
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Check is a TokenCheck.
func (i *Issuer) Check(token, audience string) (expires time.Time, err error) {
	end := strings.LastIndexByte(token, '.')
	if end < 0 || strings.Count(token, ".") != 2 {
		return time.Time{}, fmt.Errorf("%w: MalformedToken: want header.payload.signature", ErrToken)
	}
	signed, signature := token[:end], token[end+1:]
	if !hmac.Equal([]byte(signature), []byte(i.sign(signed))) {
		return time.Time{}, fmt.Errorf("%w: InvalidSignature: this emulator has not issued the token; ask its -msi address for one", ErrToken)
	}
	var c claims
	_, encoded, _ := strings.Cut(signed, ".")
	payload, err := base64.RawURLEncoding.DecodeString(encoded)
	if err == nil {
		err = json.Unmarshal(payload, &c)
	}
	if err != nil { // our own signature is on it
		return time.Time{}, fmt.Errorf("%w: MalformedToken: %w", ErrToken, err)
	}
	expires = time.Unix(c.Expires, 0).UTC()
	if !expires.After(i.now()) {
		return time.Time{}, fmt.Errorf("%w: ExpiredToken: the token is expired since %s", ErrToken, expires.Format(time.RFC3339))
	}
	if !sameAudience(c.Audience, audience) {
		return time.Time{}, fmt.Errorf("%w: InvalidAudience: the token is for %q, not for %q", ErrToken, c.Audience, audience)
	}
	return expires, nil
}

var _ TokenCheck = (*Issuer)(nil).Check

// sameAudience compares resources the way clients write them: with a slash at the end or without.
func sameAudience(a, b string) bool {
	return strings.EqualFold(strings.TrimRight(a, "/"), strings.TrimRight(b, "/"))
}
