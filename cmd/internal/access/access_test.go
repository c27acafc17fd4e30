package access

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"oneeffect/internal/orchestrator"

	"github.com/go-jose/go-jose/v4"
)

func TestAGoodTokenSaysWhoAsksAndGoesNoFurther(t *testing.T) { // A1 A4
	b := served(t)
	for name, test := range map[string]struct {
		by     key
		change map[string]any
	}{
		"RSA":                       {b.rsa, nil},
		"EC":                        {b.ec, nil},
		"without a kid":             {key{"", jose.ES256, b.ec.private}, nil},
		"RSA with PSS":              {key{"rsa-1", jose.PS256, b.rsa.private}, nil},
		"one of several audiences":  {b.rsa, map[string]any{"aud": []string{"other", audience}}},
		"roles as words":            {b.rsa, map[string]any{"roles": "operate read submit"}},
		"roles that are not ours":   {b.rsa, map[string]any{"roles": []string{"admin", "read", "submit", "operate", "Read"}}},
		"expired within the skew":   {b.rsa, map[string]any{"exp": time.Now().Add(-30 * time.Second).Unix()}},
		"from a clock that is fast": {b.rsa, map[string]any{"nbf": time.Now().Add(30 * time.Second).Unix(), "iat": time.Now().Add(30 * time.Second).Unix()}},
	} {
		token := test.by.token(t, b.url, test.change)
		w := b.bring(token)
		var got struct {
			Name, Authorization string
			Roles               []orchestrator.Role
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
			continue
		}
		if got.Name != "ada" || len(got.Roles) != 3 || got.Authorization != "" {
			t.Errorf("%s: came through as %+v", name, got)
		}
		b.quiet(token, w)
	}
}

func TestATokenThatIsNotGoodIsRefusedAndSaysNothing(t *testing.T) { // A1 A4
	b := served(t)
	foreign, now := key{id: "rsa-1", alg: jose.RS256}, time.Now()
	var err error
	if foreign.private, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(b.rsa.private.Public())
	if err != nil {
		t.Fatal(err)
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	good := b.rsa.token(t, b.url, nil)
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	other := base64.RawURLEncoding.EncodeToString(claims(t, b.url, map[string]any{"sub": "bob"}))
	for name, test := range map[string]struct{ token, detail string }{
		"expired":                  {b.rsa.token(t, b.url, map[string]any{"exp": now.Add(-2 * time.Minute).Unix()}), "has expired"},
		"without an end":           {b.rsa.token(t, b.url, map[string]any{"exp": nil}), "has expired"},
		"not yet valid":            {b.rsa.token(t, b.url, map[string]any{"nbf": now.Add(2 * time.Minute).Unix()}), "not valid yet"},
		"not valid for long":       {b.rsa.token(t, b.url, map[string]any{"nbf": now.Add(time.Hour).Unix()}), "not valid"},
		"issued in the future":     {b.rsa.token(t, b.url, map[string]any{"iat": now.Add(2 * time.Minute).Unix()}), "not valid yet"},
		"of another issuer":        {b.rsa.token(t, "https://evil.example", nil), "another issuer"},
		"of no issuer":             {b.rsa.token(t, b.url, map[string]any{"iss": nil}), "another issuer"},
		"of an issuer with slash":  {b.rsa.token(t, b.url+"/", nil), "another issuer"},
		"for another audience":     {b.rsa.token(t, b.url, map[string]any{"aud": "https://graph.microsoft.com"}), "another audience"},
		"for no audience":          {b.rsa.token(t, b.url, map[string]any{"aud": nil}), "another audience"},
		"for part of the audience": {b.rsa.token(t, b.url, map[string]any{"aud": "api"}), "another audience"},
		"unsigned":                 {unsigned + "." + payload + ".", "that a key of the issuer signed"},
		"unsigned, with signature": {unsigned + "." + payload + "." + signature, "that a key of the issuer signed"},
		"signature taken away":     {head + "." + payload + ".", "that a key of the issuer signed"},
		"claims exchanged":         {head + "." + other + "." + signature, "that a key of the issuer signed"},
		"HS256 with the public key": {
			signed(t, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: secret, KeyID: "rsa-1"}}, b.url, nil), "that a key of the issuer signed"},
		"a foreign key, known kid": {foreign.token(t, b.url, nil), "that a key of the issuer signed"},
		"unknown kid":              {ecKey(t, "ec-2").token(t, b.url, nil), "that a key of the issuer signed"},
		"no JWT":                   {"c2VjcmV0LXNlY3JldC1zZWNyZXQ", "that a key of the issuer signed"},
		"five parts":               {good + "." + payload + "." + payload, "that a key of the issuer signed"},
		"nobody's":                 {b.rsa.token(t, b.url, map[string]any{"sub": nil}), "no usable subject"},
		"of an endless name":       {b.rsa.token(t, b.url, map[string]any{"sub": strings.Repeat("a", 256)}), "no usable subject"},
		"of a name with NUL":       {b.rsa.token(t, b.url, map[string]any{"sub": "ada\x00key"}), "no usable subject"},
		"roles of another type":    {b.rsa.token(t, b.url, map[string]any{"roles": map[string]any{"read": true}}), "neither a list of strings"},
		"a time that is none":      {b.rsa.token(t, b.url, map[string]any{"nbf": "soon"}), "not valid"},
	} {
		w := b.bring(test.token)
		if detail := b.problemOf(w); w.Code != http.StatusUnauthorized || !strings.Contains(detail, test.detail) {
			t.Errorf("%s: %d %q, want 401 about %q", name, w.Code, detail, test.detail)
		}
		if got := w.Header().Get("WWW-Authenticate"); got != `Bearer realm="oneeffect", error="invalid_token"` {
			t.Errorf("%s: WWW-Authenticate %q", name, got)
		}
		b.quiet(test.token, w)
	}
	if got := strings.Count(b.log.String(), `"msg":"request refused"`); got != 25 {
		t.Errorf("%d refusals are in the log, 25 were", got)
	}
}

func TestATokenStandsInTheAuthorizationHeaderAloneOrNowhere(t *testing.T) {
	b := served(t)
	token := b.rsa.token(t, b.url, nil)
	huge := strings.Repeat(token, 1+maxToken/len(token))
	for name, test := range map[string]struct {
		path      string
		headers   []string
		challenge string
	}{
		"none":                  {"/v1/executions", nil, ""},
		"in the query":          {"/v1/executions?access_token=" + token, nil, ""},
		"in the query, twice":   {"/v1/executions?token=" + token + "&Authorization=Bearer%20" + token, nil, ""},
		"empty header":          {"/v1/executions", []string{""}, "invalid_request"},
		"no scheme":             {"/v1/executions", []string{token}, "invalid_request"},
		"no token":              {"/v1/executions", []string{"Bearer "}, "invalid_request"},
		"scheme alone":          {"/v1/executions", []string{"Bearer"}, "invalid_request"},
		"another scheme":        {"/v1/executions", []string{"Basic " + token}, "invalid_request"},
		"two tokens":            {"/v1/executions", []string{"Bearer " + token + " " + token}, "invalid_request"},
		"two headers":           {"/v1/executions", []string{"Bearer " + token, "Bearer " + token}, "invalid_request"},
		"a comma behind it":     {"/v1/executions", []string{"Bearer " + token + ","}, "invalid_request"},
		"JSON instead":          {"/v1/executions", []string{`Bearer {"payload":"` + token + `"}`}, "invalid_request"},
		"a huge one":            {"/v1/executions", []string{"Bearer " + huge}, "invalid_token"},
		"a huge one of nothing": {"/v1/executions", []string{"Bearer " + strings.Repeat(".", maxToken+1)}, "invalid_token"},
		"full of dots":          {"/v1/executions", []string{"Bearer " + strings.Repeat(".", maxToken)}, "invalid_token"},
	} {
		want := `Bearer realm="oneeffect"`
		if test.challenge != "" {
			want += `, error="` + test.challenge + `"`
		}
		w := b.ask(http.MethodGet, test.path, test.headers...)
		if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") != want {
			t.Errorf("%s: %d, WWW-Authenticate %q, want 401 and %q", name, w.Code, w.Header().Get("WWW-Authenticate"), want)
		}
		b.problemOf(w)
		b.quiet(token, w)
	}
	for _, header := range []string{"bearer " + token, "BEARER  " + token} {
		if w := b.ask(http.MethodGet, "/v1/executions", header); w.Code != http.StatusOK {
			t.Errorf("%.8s: %d %s", header, w.Code, w.Body)
		}
	}
}

func TestARoleIsNeededAndNoneImpliesAnother(t *testing.T) {
	b := served(t)
	routes := map[orchestrator.Role][2]string{
		orchestrator.Read:    {http.MethodGet, "/v1/executions/82f3"},
		orchestrator.Submit:  {http.MethodPost, "/v1/executions"},
		orchestrator.Operate: {http.MethodPost, "/v1/executions/82f3/replay"},
	}
	for has := range routes {
		token := b.ec.token(t, b.url, map[string]any{"roles": []string{string(has)}})
		for needs, route := range routes {
			w := b.ask(route[0], route[1], "Bearer "+token)
			if has == needs {
				if w.Code != http.StatusOK {
					t.Errorf("%s with %s: %d %s", route, has, w.Code, w.Body)
				}
				continue
			}
			want := `Bearer realm="oneeffect", error="insufficient_scope", scope="` + string(needs) + `"`
			if w.Code != http.StatusForbidden || w.Header().Get("WWW-Authenticate") != want || !strings.Contains(b.problemOf(w), "the role "+string(needs)) {
				t.Errorf("%s with %s: %d, %q", route, has, w.Code, w.Header().Get("WWW-Authenticate"))
			}
			b.quiet(token, w)
		}
	}
	for name, roles := range map[string]any{"no claim": nil, "no role": []string{}, "roles of others": []string{"admin", "READ"}, "no word": ""} {
		if w := b.bring(b.ec.token(t, b.url, map[string]any{"roles": roles})); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d, want 403", name, w.Code)
		}
	}
}

func TestTheClaimOfTheRolesCanHaveAnotherName(t *testing.T) {
	b := served(t)
	b.guard.o.RolesClaim = "scp"
	if w := b.bring(b.rsa.token(t, b.url, map[string]any{"roles": nil, "scp": "read submit"})); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := b.bring(b.rsa.token(t, b.url, nil)); w.Code != http.StatusForbidden {
		t.Errorf("roles under the name that is not asked for: %d", w.Code)
	}
}

func TestManyTokensAtOnceAreToldApart(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		forged := ecKey(t, "ec-1")
		before := b.reads()
		var asking sync.WaitGroup
		for n := range 64 {
			asking.Go(func() {
				name := fmt.Sprintf("caller-%d", n)
				good := b.ec.token(t, b.url, map[string]any{"sub": name})
				if w := b.bring(good); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"`+name+`"`) {
					t.Errorf("%s: %d %s", name, w.Code, w.Body)
				}
				if w := b.bring(forged.token(t, b.url, map[string]any{"sub": name})); w.Code != http.StatusUnauthorized {
					t.Errorf("a forged token of %s: %d", name, w.Code)
				}
			})
		}
		asking.Wait()
		if got := b.reads() - before; got > 0 {
			t.Errorf("64 forged tokens had the keys read %d times, at the moment at which they were read", got)
		}
	})
}

func TestOnlyWhatStartsAndStopsTheProcessIsOpen(t *testing.T) {
	b := served(t)
	for path, want := range map[string]int{
		"/livez": 200, "/readyz": 200, "/": 401, "/openapi.json": 401, "/v1/executions": 401, "/livez/": 401, "//livez": 401, "/nowhere": 401,
	} {
		if w := b.ask(http.MethodGet, path); w.Code != want {
			t.Errorf("GET %s: %d, want %d", path, w.Code, want)
		}
	}
	if w := b.ask(http.MethodGet, "/livez"); !strings.Contains(w.Body.String(), `"name":"","roles":null`) {
		t.Errorf("who asks for /livez came through as %s", w.Body)
	}
}

func TestOnLoopbackTheDescriptionIsOpenAlsoWhereTokensAreRequired(t *testing.T) {
	i := &issuer{url: "https://issuer.example"}
	b := setUp(t, i, nil, &net.TCPAddr{IP: net.IPv6loopback, Port: 8080})
	for request, want := range map[[2]string]int{
		{http.MethodGet, "/openapi.json"}: 200, {http.MethodPost, "/openapi.json"}: 401, {http.MethodGet, "/v1/executions"}: 401,
	} {
		if w := b.ask(request[0], request[1]); w.Code != want {
			t.Errorf("%v: %d, want %d", request, w.Code, want)
		}
	}
}

func TestAnOpenAPIIsCalledByLoopbackNamesOnly(t *testing.T) { // A5
	log := &syncBuffer{}
	guard, err := New(Options{Address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Run(t.Context()); err != nil {
		t.Error(err)
	}
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "LocalHost:8080": 200, "127.0.0.1:8080": 200, "127.0.0.1": 200, "127.1.2.3:1": 200,
		"[::1]:8080": 200, "[::1]": 200, "[::ffff:127.0.0.1]:8080": 200,
		"": 421, "evil.example": 421, "evil.example:8080": 421, "127.0.0.1.evil.example:8080": 421, "localhost.evil.example": 421,
		"127.0.0.1:8080:8080": 421, "0.0.0.0:8080": 421, "10.0.0.4:8080": 421, "[::1": 421, "::1]": 421, "[::]:8080": 421, "[]": 421, "[": 421, ":8080": 421,
		"127.1:8080": 421, "2130706433:8080": 421, "localhost.:8080": 421,
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/executions", nil)
		r.Host = host
		w := httptest.NewRecorder()
		guard.Handler(who).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
		if want == 200 && !strings.Contains(w.Body.String(), `"name":"anonymous"`) {
			t.Errorf("Host %q came through as %s", host, w.Body)
		}
		if want != 200 {
			(&bench{t: t}).problemOf(w)
		}
	}
	if !strings.Contains(log.String(), "no loopback name") {
		t.Errorf("nothing of it is in the log: %s", log)
	}
}

// BenchmarkAToken is what signing in adds to a request.
func BenchmarkAToken(b *testing.B) {
	for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.ES256} {
		b.Run(string(alg), func(b *testing.B) {
			pair := rsaKey(b, "1")
			if alg == jose.ES256 {
				pair = ecKey(b, "1")
			}
			bench := setUp(b, &issuer{url: "https://issuer.example"}, nil, offLoopback)
			set := keySet{}
			set.add("1", pair.private.Public())
			set.add("", pair.private.Public())
			bench.guard.keys.publish(b.Context(), set, nil, time.Now(), every)
			r := httptest.NewRequest(http.MethodGet, "/v1/executions", nil)
			r.Header.Set("Authorization", "Bearer "+pair.token(b, bench.url, nil))
			handler := bench.guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				if handler.ServeHTTP(w, r); w.Code != http.StatusNoContent {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
}
