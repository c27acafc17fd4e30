package access

import (
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// inBubble runs a test in virtual time, with an issuer that is there from the start.
func inBubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := setUp(t, &issuer{url: "https://issuer.example"}, nil, offLoopback)
		defer b.run()()
		synctest.Wait()
		test(t, b)
	})
}

func TestANewKeyIsFoundWhenATokenComesThatNoKeyFits(t *testing.T) { // A2
	inBubble(t, func(t *testing.T, b *bench) {
		second := ecKey(t, "ec-2")
		token := second.token(t, b.url, nil)
		if w := b.bring(token); w.Code != http.StatusUnauthorized {
			t.Fatalf("before it is published: %d", w.Code)
		}
		b.set(func() { b.published = []any{b.rsa.public(), second.public()} })
		time.Sleep(pause)
		var asking sync.WaitGroup
		for range 32 {
			asking.Go(func() {
				if w := b.bring(token); w.Code != http.StatusOK {
					t.Errorf("after rotation: %d %s", w.Code, w.Body)
				}
			})
		}
		asking.Wait()
		if b.reads() != 2 {
			t.Errorf("the keys were read %d times, want 2: at the start and for 32 tokens of a new key", b.reads())
		}
		if w := b.bring(b.ec.token(t, b.url, nil)); w.Code != http.StatusUnauthorized {
			t.Errorf("the key that is no longer published: %d", w.Code)
		}
		if w := b.bring(b.rsa.token(t, b.url, nil)); w.Code != http.StatusOK {
			t.Errorf("the key that stays: %d", w.Code)
		}
	})
}

func TestForgedTokensHaveTheKeysReadOnceInAPause(t *testing.T) { // A2
	inBubble(t, func(t *testing.T, b *bench) {
		forged, before := ecKey(t, "ec-1").token(t, b.url, nil), b.reads()
		for range 600 { // a minute of them
			time.Sleep(100 * time.Millisecond)
			if w := b.bring(forged); w.Code != http.StatusUnauthorized {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		if got := b.reads() - before; got < 5 || got > 6 {
			t.Errorf("600 forged tokens in a minute had the keys read %d times, want once in ten seconds", got)
		}
	})
}

func TestAKeyThatIsWithdrawnIsBelievedForAnHour(t *testing.T) { // A2
	inBubble(t, func(t *testing.T, b *bench) {
		b.set(func() { b.published = []any{b.rsa.public()} })
		time.Sleep(every - time.Second)
		if w := b.bring(b.ec.token(t, b.url, nil)); w.Code != http.StatusOK {
			t.Errorf("within the hour: %d", w.Code)
		}
		time.Sleep(2 * time.Second)
		if w := b.bring(b.ec.token(t, b.url, nil)); w.Code != http.StatusUnauthorized {
			t.Errorf("after it: %d", w.Code)
		}
	})
}

func TestWhileTheIssuerIsAwayItsKeysAreBelievedForADay(t *testing.T) { // A2 A3
	inBubble(t, func(t *testing.T, b *bench) {
		unknown := ecKey(t, "ec-2")
		b.set(func() { b.answer = http.StatusBadGateway })
		time.Sleep(pause)
		if w := b.bring(b.rsa.token(t, b.url, nil)); w.Code != http.StatusOK {
			t.Errorf("a key that is known: %d", w.Code)
		}
		for range 2 { // by a reading that fails, and by the memory of it
			w := b.bring(unknown.token(t, b.url, nil))
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "10" {
				t.Errorf("a key that may be new: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
			}
			b.problemOf(w)
		}
		time.Sleep(23 * time.Hour)
		if w := b.bring(b.rsa.token(t, b.url, nil)); w.Code != http.StatusOK {
			t.Errorf("after 23 hours: %d", w.Code)
		}
		before := b.reads()
		time.Sleep(time.Hour)
		for _, w := range []int{b.bring(b.rsa.token(t, b.url, nil)).Code, b.ask(http.MethodGet, "/readyz").Code} {
			if w != http.StatusServiceUnavailable {
				t.Errorf("after a day: %d", w)
			}
		}
		if b.reads() != before {
			t.Errorf("the keys were asked for although discovery failed")
		}
		b.set(func() { b.answer = 0 })
		time.Sleep(lastRetry)
		synctest.Wait()
		if w := b.bring(b.rsa.token(t, b.url, nil)); w.Code != http.StatusOK {
			t.Errorf("with the issuer back: %d", w.Code)
		}
		for _, want := range []string{"believed for a day", "answered 502 Bad Gateway", "the issuer's keys were read"} {
			if !strings.Contains(b.log.String(), want) {
				t.Errorf("the log has nothing of %q", want)
			}
		}
	})
}

func TestTheProcessStartsWithoutTheIssuer(t *testing.T) { // A3
	synctest.Test(t, func(t *testing.T) {
		b := setUp(t, &issuer{url: "https://issuer.example"}, nil, offLoopback)
		token := b.rsa.token(t, b.url, map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()})
		expect := func(when string, token, open, ready, none int) {
			t.Helper()
			w := b.bring(b.rsa.token(t, b.url, nil))
			got := [4]int{w.Code, b.ask(http.MethodGet, "/livez").Code, b.ask(http.MethodGet, "/readyz").Code, b.ask(http.MethodGet, "/").Code}
			if want := [4]int{token, open, ready, none}; got != want {
				t.Errorf("%s: with a token, /livez, /readyz, without a token: %v, want %v", when, got, want)
			}
			if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", when)
			}
		}
		expect("before it runs", 503, 200, 503, 401)
		hold := make(chan struct{})
		b.set(func() { b.hold = hold }) // it takes the request and never answers
		stop := b.run()
		synctest.Wait()
		expect("while it is asked", 503, 200, 503, 401)
		time.Sleep(readTimeout + firstRetry/2)
		b.set(func() { b.hold, b.answer = nil, http.StatusServiceUnavailable })
		expect("after its silence", 503, 200, 503, 401)
		time.Sleep(10 * time.Minute)
		b.mu.Lock()
		if b.discovery < 10 || b.discovery > 20 {
			t.Errorf("it was asked %d times in ten minutes", b.discovery)
		}
		b.answer = 0
		b.mu.Unlock()
		time.Sleep(lastRetry)
		synctest.Wait()
		expect("when it is there", 200, 200, 200, 401)
		stop()
		expect("when nobody reads any more", 200, 200, 200, 401)
		time.Sleep(pause)
		if w := b.bring(ecKey(t, "ec-2").token(t, b.url, nil)); w.Code != http.StatusServiceUnavailable {
			t.Errorf("an unknown key when nobody reads any more: %d", w.Code)
		}
		if log := b.log.String(); !strings.Contains(log, "nobody can sign in") || !strings.Contains(log, "deadline exceeded") {
			t.Errorf("the log does not say that nobody can sign in, or why: %s", log)
		}
		b.quiet(token, b.bring(token))
	})
}

func TestWhoWaitsForKeysIsBoundedInNumberAndTime(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.set(func() { b.hold = make(chan struct{}) })
		time.Sleep(pause)
		forged, began := ecKey(t, "ec-1").token(t, b.url, nil), time.Now()
		var asking sync.WaitGroup
		for range maxWaiting {
			asking.Go(func() {
				if w := b.bring(forged); w.Code != http.StatusServiceUnavailable {
					t.Errorf("%d, want 503", w.Code)
				}
			})
		}
		synctest.Wait()
		if w := b.bring(forged); w.Code != http.StatusServiceUnavailable || time.Since(began) > 0 {
			t.Errorf("one more: %d after %v, want 503 at once", w.Code, time.Since(began))
		}
		if w := b.bring(b.rsa.token(t, b.url, nil)); w.Code != http.StatusOK || time.Since(began) > 0 {
			t.Errorf("a known key meanwhile: %d after %v", w.Code, time.Since(began))
		}
		asking.Wait()
		if took := time.Since(began); took > readTimeout {
			t.Errorf("they waited %v, want at most %v", took, readTimeout)
		}
	})
}

func TestAnIssuerThatIsNotWhatItShouldBeIsNotBelieved(t *testing.T) { // A1
	secret := map[string]any{"kty": "oct", "k": base64.RawURLEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef")), "kid": "rsa-1", "alg": "HS256"}
	for name, test := range map[string]struct {
		change func(b *bench)
		cause  string
	}{
		"another name":        {func(b *bench) { b.claimed = "https://evil.example" }, "did not match the issuer"},
		"keys over http":      {func(b *bench) { b.keysAt = "http://issuer.example/keys" }, "no https URL"},
		"sends elsewhere":     {func(b *bench) { b.answer = http.StatusFound }, "302"},
		"secrets only":        {func(b *bench) { b.published = []any{secret} }, "no public RSA or EC key"},
		"no keys":             {func(b *bench) { b.published = nil }, "no public RSA or EC key"},
		"nonsense for keys":   {func(b *bench) { b.published = []any{"x", 1, map[string]any{"kty": "XYZ"}} }, "no public RSA or EC key"},
		"too many keys":       {func(b *bench) { b.published = make([]any, maxKeys+1) }, "publishes 65 keys"},
		"an endless document": {func(b *bench) { b.published = []any{strings.Repeat("x", maxDocument)} }, "too large"},
		"keys for secrecy": {func(b *bench) {
			public := b.rsa.public()
			public.Use = "enc"
			b.published = []any{public}
		}, "no public RSA or EC key"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setUp(t, &issuer{url: "https://issuer.example"}, nil, offLoopback)
				b.set(func() { test.change(b) })
				defer b.run()()
				synctest.Wait()
				if w := b.bring(b.rsa.token(t, b.url, nil)); w.Code != http.StatusServiceUnavailable {
					t.Errorf("%d, want 503", w.Code)
				}
				if log := b.log.String(); !strings.Contains(log, test.cause) {
					t.Errorf("the log has nothing of %q: %.600s", test.cause, log)
				}
			})
		})
	}
	t.Run("a private key, a secret and a curve nobody knows beside a good key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setUp(t, &issuer{url: "https://issuer.example"}, nil, offLoopback)
			b.set(func() {
				b.published = []any{secret, map[string]any{"kty": "OKP", "crv": "X448", "x": "AA"}, map[string]any{"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}, b.ec.public()}
			})
			defer b.run()()
			synctest.Wait()
			if w := b.bring(b.ec.token(t, b.url, nil)); w.Code != http.StatusOK {
				t.Errorf("%d %s; %s", w.Code, w.Body, b.log)
			}
		})
	})
}
