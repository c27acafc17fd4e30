package cosmos_test

import (
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
	"oneeffect/emulator/identity"
)

func TestATokenIsTakenIfItIsForThisAccount(t *testing.T) { // V5
	synctest.Test(t, func(t *testing.T) {
		hub := control.New()
		issuer := identity.New(hub.Now)
		w := newWorldOn(t, hub, cosmos.Options{Endpoint: "https://shop.documents.test:443/", TokenCheck: issuer.Check})
		w.container("claims", "/id")
		ask := func(token string) answer {
			return w.send(request{method: "GET", path: docs + "/1", unsigned: true, headers: with(keyOne, "Authorization", "type=aad&ver=1.0&sig="+token)})
		}
		for audience, want := range map[string]int{
			"https://cosmos.test":          404, // the host that the request came to: there is no such item
			"https://cosmos.test/":         404,
			"http://cosmos.test":           404,
			"https://shop.documents.test":  404, // the host in the account document
			"https://cosmos.azure.com":     404,
			"https://cosmos.test:8081":     401,
			"https://other.test":           401,
			"https://localhost":            401, // the account is not on this machine
			"https://servicebus.azure.net": 401,
		} {
			token, _ := issuer.Token(audience)
			if got := ask(token); got.status != want || want == 401 && (got.code != "Unauthorized" || !strings.Contains(got.body, "InvalidAudience")) {
				t.Errorf("for %s: %d %s, want %d", audience, got.status, got.body, want)
			}
		}
		good, _ := issuer.Token("https://cosmos.test")
		foreign, _ := identity.New(hub.Now).Token("https://cosmos.test")
		parts := strings.Split(good, ".")
		other, _ := issuer.Token("https://other.test")
		for name, test := range map[string]struct{ token, says string }{
			"another issuer's":    {foreign, "InvalidSignature"},
			"another's payload":   {parts[0] + "." + strings.Split(other, ".")[1] + "." + parts[2], "InvalidSignature"},
			"a signature of ours": {parts[0] + "." + parts[1] + "." + rand.Text(), "InvalidSignature"},
			"two parts":           {parts[0] + "." + parts[1], "2 parts"},
		} {
			if got := ask(test.token); got.status != http.StatusUnauthorized || !strings.Contains(got.body, test.says) {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
		}
		time.Sleep(identity.Lifetime)
		if got := ask(good); got.status != http.StatusUnauthorized || !strings.Contains(got.body, "ExpiredToken") {
			t.Errorf("expired: %d %s", got.status, got.body)
		}
		again, _ := issuer.Token("https://cosmos.test")
		hub.Jump(identity.Lifetime) // these live by the emulator's clock
		if got := ask(again); got.status != http.StatusUnauthorized {
			t.Errorf("expired by a jump: %d %s", got.status, got.body)
		}
	})
}
