package projector

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// The headers of a webhook. A sender signs each attempt anew, with the time of
// that attempt; the delivery is its own name for the attempt.
const (
	HeaderTimestamp = "Webhook-Timestamp" // seconds since 1970
	HeaderSignature = "Webhook-Signature" // v1=<hex>, several separated by blanks
	HeaderDelivery  = "Webhook-Delivery"
)

// window is how far a signed time may be from now, to either side.
const window = 5 * time.Minute

// maxSignatures bounds what one request makes us compare.
const maxSignatures = 4

// Sign is the signature of a body at a time: HMAC-SHA256 over the decimal seconds,
// a full stop, and the body as it is sent.
func Sign(secret []byte, at time.Time, body []byte) string {
	return "v1=" + hex.EncodeToString(sum(secret, strconv.FormatInt(at.Unix(), 10), body))
}

func sum(secret []byte, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac.Sum(nil)
}

// nobody's secret is what a source that does not exist is compared with, so that
// it takes as long as one that does.
var nobody = [][]byte{make([]byte, sha256.Size)}

// signed says whether one of the secrets made one of the signatures, at a time
// within the window. Neither how many there are nor how much of them fits shows in
// the time that it takes.
func signed(secrets [][]byte, timestamp, signatures string, body []byte, now time.Time) bool {
	known := len(secrets) > 0
	if !known {
		secrets = nobody
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != timestamp {
		return false
	}
	if at := time.Unix(seconds, 0); at.Before(now.Add(-window)) || at.After(now.Add(window)) {
		return false
	}
	fits := false
	for i, signature := range strings.Fields(signatures) {
		if i == maxSignatures {
			break
		}
		text, ok := strings.CutPrefix(signature, "v1=")
		given, err := hex.DecodeString(text)
		if !ok || err != nil {
			continue
		}
		for _, secret := range secrets {
			fits = hmac.Equal(given, sum(secret, timestamp, body)) || fits
		}
	}
	return fits && known
}
