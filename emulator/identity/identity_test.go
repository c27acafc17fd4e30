package identity_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"oneeffect/emulator/identity"
)

const bus = "https://servicebus.azure.net/"

func TestATokenIsGoodForItsAudienceUntilItExpires(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)
	issuer := identity.New(func() time.Time { return now })
	token, expires := issuer.Token(bus)
	if want := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC); !expires.Equal(want) {
		t.Errorf("expires at %v, want %v", expires, want)
	}
	for _, audience := range []string{bus, "https://servicebus.azure.net", "https://ServiceBus.azure.net//"} {
		if until, err := issuer.Check(token, audience); err != nil || !until.Equal(expires) {
			t.Errorf("for %s: %v, %v", audience, until, err)
		}
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil || claims["aud"] != bus || claims["exp"] != float64(expires.Unix()) {
		t.Errorf("it says %s, %v", payload, err)
	}
	now = expires.Add(-time.Nanosecond)
	if _, err := issuer.Check(token, bus); err != nil {
		t.Errorf("a moment before it expires: %v", err)
	}
	now = expires
	if _, err := issuer.Check(token, bus); !errors.Is(err, identity.ErrToken) || !strings.Contains(err.Error(), "ExpiredToken") {
		t.Errorf("when it expires: %v", err)
	}
}

func TestATokenThatWasNotIssuedLikeThisIsRefused(t *testing.T) {
	issuer := identity.New(time.Now)
	token, _ := issuer.Token(bus)
	other, _ := identity.New(time.Now).Token(bus)
	parts := strings.Split(token, ".")
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"` + bus + `","exp":99999999999}`))
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	for name, test := range map[string]struct{ token, audience, says string }{
		"nothing":             {"", bus, "MalformedToken"},
		"two parts":           {parts[0] + "." + parts[1], bus, "MalformedToken"},
		"four parts":          {token + ".x", bus, "MalformedToken"},
		"another issuer":      {other, bus, "InvalidSignature"},
		"another payload":     {parts[0] + "." + forged + "." + parts[2], bus, "InvalidSignature"},
		"no signature":        {unsigned + "." + forged + ".", bus, "InvalidSignature"},
		"a changed signature": {token[:len(token)-2] + "xx", bus, "InvalidSignature"},
		"another audience":    {token, "https://cosmos.azure.com", `InvalidAudience: the token is for "` + bus},
		"no audience":         {token, "", "InvalidAudience"},
	} {
		_, err := issuer.Check(test.token, test.audience)
		if !errors.Is(err, identity.ErrToken) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %s", name, err, test.says)
		}
	}
}

func TestTheEndpointSaysWhatIsWrong(t *testing.T) {
	issuer := identity.New(time.Now)
	for name, test := range map[string]struct {
		method, target, secret string
		status                 int
		says                   string
	}{
		"another path":   {"GET", "/token?api-version=2019-08-01&resource=x", "s", 404, "/msi"},
		"another method": {"POST", "/msi?api-version=2019-08-01&resource=x", "s", 405, "GET"},
		"no secret":      {"GET", "/msi?api-version=2019-08-01&resource=x", "", 401, "IDENTITY_HEADER"},
		"no version":     {"GET", "/msi?resource=x", "s", 400, "2019-08-01"},
		"an old version": {"GET", "/msi?api-version=2017-09-01&resource=x", "s", 400, "2019-08-01"},
		"no resource":    {"GET", "/msi?api-version=2019-08-01", "s", 400, "resource"},
		"all there":      {"GET", "/MSI/?api-version=2019-08-01&resource=x", "s", 200, `"token_type":"Bearer"`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), test.method, test.target, nil)
		r.Header.Set("X-IDENTITY-HEADER", test.secret)
		w := httptest.NewRecorder()
		issuer.ServeHTTP(w, r)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s: %d %s, want %d and %s", name, w.Code, w.Body, test.status, test.says)
		}
	}
}

func TestTheRealCredentialGetsATokenThatIsAccepted(t *testing.T) {
	issuer := identity.New(time.Now)
	server := httptest.NewServer(issuer)
	defer server.Close()
	t.Setenv("IDENTITY_ENDPOINT", server.URL+"/msi")
	t.Setenv("IDENTITY_HEADER", "x")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	options := &azidentity.ManagedIdentityCredentialOptions{ID: azidentity.ClientID(rand.Text())} // or the library takes another run's token
	options.Transport = &http.Client{Transport: transport}
	credential, err := azidentity.NewManagedIdentityCredential(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{bus + "/.default"}})
	if err != nil {
		t.Fatal(err)
	}
	until, err := issuer.Check(got.Token, bus)
	if err != nil || !until.Equal(got.ExpiresOn) {
		t.Errorf("good until %v, %v; the credential believes %v", until, err, got.ExpiresOn)
	}
}
