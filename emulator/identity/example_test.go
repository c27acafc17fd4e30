package identity_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"oneeffect/emulator/identity"
)

// A service that takes tokens asks the issuer about each: one for the store opens no
// queue. Clients ask for theirs at the issuer's endpoint, or in process.
func Example() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	issuer := identity.New(func() time.Time { return now })

	token, expires := issuer.Token("https://cosmos.azure.com")
	fmt.Println("good until", expires.Format(time.RFC3339))
	_, err := issuer.Check(token, "https://servicebus.azure.net")
	fmt.Println(err)

	now = expires
	_, err = issuer.Check(token, "https://cosmos.azure.com")
	fmt.Println(err)

	r := httptest.NewRequest(http.MethodGet, "/msi?api-version=2019-08-01&resource=https://cosmos.azure.com", nil)
	r.Header.Set("X-Identity-Header", "anything")
	w := httptest.NewRecorder()
	issuer.ServeHTTP(w, r)
	fmt.Println(w.Code)
	// Output:
	// good until 2026-03-02T12:00:00Z
	// the token is not accepted: InvalidAudience: the token is for "https://cosmos.azure.com", not for "https://servicebus.azure.net"
	// the token is not accepted: ExpiredToken: the token is expired since 2026-03-02T12:00:00Z
	// 200
}
