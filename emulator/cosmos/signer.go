package cosmos

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strings"
	"sync"
)

// signer checks the signatures of requests under one key. What the key alone decides
// is computed once, and what a request leaves is there for the next.
type signer struct {
	key   []byte
	spare sync.Pool // of *signing
}

// signing is what one signature is computed in.
type signing struct {
	mac             hash.Hash
	text, sum, sent []byte
}

// newSigner takes an account's key, and gives nil if that is not base64.
func newSigner(key string) *signer {
	decoded, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		return nil
	}
	return &signer{key: decoded}
}

// signed reports whether a signature in base64 is that of a request.
func (s *signer) signed(sig, method string, t target, date string) bool {
	w, _ := s.spare.Get().(*signing)
	if w == nil {
		w = &signing{mac: hmac.New(sha256.New, s.key)}
	}
	defer s.spare.Put(w)
	var err error
	if w.sent, err = base64.StdEncoding.AppendDecode(w.sent[:0], []byte(sig)); err != nil {
		return false
	}
	w.sign(method, t, date)
	return hmac.Equal(w.sent, w.sum)
}

// sign computes what a request is signed with: everything in lower case but the
// link, which names resources.
func (w *signing) sign(method string, t target, date string) {
	w.text = w.text[:0]
	for _, line := range [...]string{strings.ToLower(method), strings.ToLower(t.resourceType), t.link, strings.ToLower(date), ""} {
		w.text = append(append(w.text, line...), '\n')
	}
	w.mac.Reset()
	w.mac.Write(w.text)
	w.sum = w.mac.Sum(w.sum[:0])
}
