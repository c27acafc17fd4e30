package cosmos

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"testing"
)

// A signer that is used again computes what a new one does, and refuses what is
// signed with another key, for another request, or not in base64.
func TestASignerRemembersNothingOfTheRequestBefore(t *testing.T) {
	signer := newSigner(EmulatorKey)
	key, err := base64.StdEncoding.DecodeString(EmulatorKey)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(key []byte, text string) string {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		return base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	for i := range 20 {
		to := target{resourceType: "docs", link: fmt.Sprint("dbs/D/colls/", i)}
		text := fmt.Sprintf("get\ndocs\ndbs/D/colls/%d\nmon, 30 nov 2026 22:00:00 gmt\n\n", i)
		const date = "Mon, 30 Nov 2026 22:00:00 GMT"
		for sig, want := range map[string]bool{
			sign(key, text):          true,
			sign(key[1:], text):      false,
			sign(key, "x"+text):      false,
			"?":                      false,
			"":                       false,
			sign(key, text)[:20]:     false,
			sign(key, text) + "AAAA": false,
		} {
			if got := signer.signed(sig, "GET", to, date); got != want {
				t.Errorf("request %d: %q is taken: %v, want %v", i, sig, got, want)
			}
		}
	}
	if newSigner("?") != nil {
		t.Error("a key that is not base64 is taken")
	}
}

// Of a text as much is clean as no byte of it has to be escaped or is beyond ASCII.
func TestCleanStopsAtTheFirstByteThatJSONEscapes(t *testing.T) {
	for c := range 256 {
		for length := range 20 {
			for at := range length {
				text := make([]byte, length)
				for i := range text {
					text[i] = "az ~0\x7f"[i%6]
				}
				text[at] = byte(c)
				want := length
				if c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
					want = at
				}
				if got := clean(string(text)); got != want {
					t.Fatalf("clean(%q) is %d, want %d", text, got, want)
				}
			}
		}
	}
}

// An etag has always one form, however large its numbers are.
func TestNumbersOfAnETagHaveZerosInFront(t *testing.T) {
	for n, want := range map[uint64]string{0: "0000", 1: "0001", 0x10: "0010", 0xfff: "0fff", 0xffff: "ffff", 0x12345: "12345"} {
		if got := string(appendHex(nil, n, 4)); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
