package claim_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func TestAClaimIsOneDocument(t *testing.T) {
	c := held()
	c.W = "91bd"
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"82f3","status":"IN_PROGRESS","run":1,"fence":1,"owner":"worker-1/5f3a/91","w":"91bd","leaseSeconds":300,` +
		`"taskType":"customer.create","keyed":true,"fingerprint":"sha256:asked","callStarted":false,"firstCallAt":"2026-03-01T11:00:00Z",` +
		`"starts":1,"answered":0,"released":false,"attempts":[{"fence":1,"owner":"worker-1/5f3a/91","at":"2026-03-01T11:00:00Z","end":""}],"ttl":2592000,"v":1}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestAClaimIsReadAsItWasWrittenWithWhatALaterVersionAdds(t *testing.T) {
	for _, change := range []func(*claim.Claim){completed, failed, cancelled, released} {
		want := held(change, until(asked))
		want.Unknown = jsontext.Value(`{"later":{"charge":{"resultRef":"/c/1"}},"x":1.50}`)
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got claim.Claim
		if err := message.Decode(text, &got); err != nil || !reflect.DeepEqual(got, *want) {
			t.Errorf("got  %+v, %v\nwant %+v", got, err, *want)
		}
	}
}

// The document as the store may hold it, written by somebody else: nulls for
// what is not set.
func TestAClaimIsReadWithNulls(t *testing.T) {
	var got claim.Claim
	const text = `{"id":"82f3","status":"IN_PROGRESS","run":1,"fence":1,"owner":"o","w":"w","leaseSeconds":300,"taskType":"a","keyed":true,"fingerprint":"f",` +
		`"callStarted":false,"firstCallAt":"2026-03-01T11:00:00Z","starts":1,"answered":0,"notBefore":null,"released":false,"result":null,"failure":null,"attempts":[],"ttl":2592000,"v":1}`
	if err := message.Decode([]byte(text), &got); err != nil || !got.NotBefore.IsZero() || got.Result != nil || got.Failure != nil || got.Unknown != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFingerprintIsOverTaskTypeAndCanonicalPayload(t *testing.T) { // C7
	want := digest("customer.create\x00" + `{"a":1,"b":[2,"x"]}`)
	for _, payload := range []string{`{"a":1,"b":[2,"x"]}`, ` { "b" : [ 2.0, "\u0078" ], "a" : 1e0 } `} {
		got, err := claim.Fingerprint("customer.create", jsontext.Value(payload))
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", payload, got, err, want)
		}
	}
}

func TestDifferentRequestsHaveDifferentFingerprints(t *testing.T) { // C7
	seen := map[string]string{}
	for _, taskType := range []string{"a", "ab", "A"} {
		for _, payload := range []string{`null`, `{}`, `[]`, `""`, `0`, `false`, `{"a":1}`, `{"a":"1"}`, `{"A":1}`, `{"a":null}`, `[1,2]`, `[2,1]`, `9007199254740992`, `9007199254740991`, `"9007199254740993"`} {
			f, err := claim.Fingerprint(taskType, jsontext.Value(payload))
			if err != nil {
				t.Fatal(err)
			}
			if other, taken := seen[f]; taken {
				t.Errorf("%s %s and %s share a fingerprint", taskType, payload, other)
			}
			seen[f] = taskType + " " + payload
		}
	}
}

func TestAPayloadWithoutACanonicalFormIsPoison(t *testing.T) { // C7
	for _, payload := range []string{``, `{"a":1,"a":1}`, `9007199254740993`, `1e400`, `{} {}`, "\"\xff\""} {
		if f, err := claim.Fingerprint("a", jsontext.Value(payload)); !errors.Is(err, message.ErrPoison) || f != "" || !strings.Contains(err.Error(), "payload: ") {
			t.Errorf("%q: %q, %v, want poison", payload, f, err)
		}
	}
}

func digest(canonical string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(canonical)))
}

func TestTheDigestOfAResultIsOverItsCanonicalForm(t *testing.T) { // C2
	for _, test := range []struct{ name, ref, value, want string }{
		{"a reference alone", "/customers/7", "", digest(`{"ref":"/customers/7"}`)},
		{"nothing at all", "", "", digest(`{"ref":""}`)},
		{"a value", "/customers/7", `{"id":7,"name":"Ada"}`, digest(`{"ref":"/customers/7","value":{"id":7,"name":"Ada"}}`)},
		{"the same value in another spelling", "/customers/7", ` {"name":"\u0041da", "id":7.0}`, digest(`{"ref":"/customers/7","value":{"id":7,"name":"Ada"}}`)},
		{"null is a value", "", `null`, digest(`{"ref":"","value":null}`)},
		{"a reference with all that is written otherwise", "/a\"b\\c\n<\u2028é", `0`, digest("{\"ref\":\"/a\\\"b\\\\c\\n<\u2028é\",\"value\":0}")},
	} {
		t.Run(test.name, func(t *testing.T) {
			var value jsontext.Value
			if test.value != "" {
				value = jsontext.Value(test.value)
			}
			got, err := claim.NewResult(test.ref, value, "")
			if err != nil || got.Digest != test.want || got.Ref != test.ref || string(got.Value) != test.value {
				t.Errorf("%+v, %v, want digest %s", got, err, test.want)
			}
		})
	}
}

// Of a value that is too large for the claim, and of one that its caller has found too
// large to hand over, the digest is kept, and is part of the result's.
func TestAValueThatIsTooLargeIsKeptAsItsDigest(t *testing.T) { // C2
	text := func(size int) string { return `"` + strings.Repeat("x", size-2) + `"` }
	most, more := text(claim.MaxValue), text(claim.MaxValue+1)
	for _, test := range []struct{ name, value, omitted, wantValue, wantOmitted, want string }{
		{"as large as is kept", most, "", most, "", digest(`{"ref":"/c/1","value":` + most + `}`)},
		{"a byte more", more, "", "", digest(more), digest(`{"omitted":"` + digest(more) + `","ref":"/c/1"}`)},
		{"the same in another spelling", " " + more, "", "", digest(more), digest(`{"omitted":"` + digest(more) + `","ref":"/c/1"}`)},
		{"left out by its caller", "", "sha256:ab", "", "sha256:ab", digest(`{"omitted":"sha256:ab","ref":"/c/1"}`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			var value jsontext.Value
			if test.value != "" {
				value = jsontext.Value(test.value)
			}
			got, err := claim.NewResult("/c/1", value, test.omitted)
			if err != nil || got.Digest != test.want || string(got.Value) != test.wantValue || got.Omitted != test.wantOmitted {
				t.Errorf("digest %s of %d bytes, omitted %q, %v, want digest %s of %d bytes, omitted %q",
					got.Digest, len(got.Value), got.Omitted, err, test.want, len(test.wantValue), test.wantOmitted)
			}
		})
	}
}

func TestAResultWithoutACanonicalFormIsRefused(t *testing.T) {
	for _, test := range []struct{ ref, value string }{{"\xff", ""}, {"", `{`}, {"", `{"a":1,"a":2}`}, {"", `9007199254740993`}} {
		var value jsontext.Value
		if test.value != "" {
			value = jsontext.Value(test.value)
		}
		if got, err := claim.NewResult(test.ref, value, ""); err == nil || !strings.HasPrefix(err.Error(), "digest the result: ") || !reflect.DeepEqual(got, claim.Result{}) {
			t.Errorf("%q %s: %+v, %v, want it refused", test.ref, test.value, got, err)
		}
	}
}

func TestNoncesAreNotGivenTwice(t *testing.T) { // C9
	shape := regexp.MustCompile(`^[0-9a-f]{16}$`)
	seen := map[string]bool{}
	for range 10_000 {
		n := claim.Nonce()
		if seen[n] || !shape.MatchString(n) {
			t.Fatalf("nonce %q, seen before: %t", n, seen[n])
		}
		seen[n] = true
	}
}

// 32 attempts and everything else is far from the 2 MB of one item (HORIZON H27).
func TestALongLivedClaimIsSmall(t *testing.T) {
	c := held()
	for range 200 {
		next, v, _ := claim.Take(c, time.Hour, asking(), strings.Repeat("w", 128), claim.Terms{Lease: 300 * time.Second, MaxAttempts: 1000})
		if v.Kind != claim.Granted {
			t.Fatal(v.Kind)
		}
		c = &next
	}
	if text, err := json.Marshal(c); err != nil || len(text) > 16<<10 {
		t.Errorf("%d bytes, %v, want at most 16 KiB", len(text), err)
	}
}
