package access

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// signing is a guard that browsers sign in to.
func signing(t *testing.T) *bench {
	t.Helper()
	b := served(t)
	b.guard.o.Client, b.guard.o.Scope, b.guard.o.PageURL, b.guard.o.Secret = "page", "api://oneeffect/.default", "https://tasks.example/", "secret"
	return b
}

// browse is a browser's request, with the cookies that it has.
func (b *bench) browse(method, path string, jar map[string]*http.Cookie, header ...string) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequestWithContext(b.t.Context(), method, path, nil)
	r.Header.Set("Accept", "text/html")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	for _, c := range jar {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	b.guard.Handler(who).ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || !strings.HasPrefix(c.Name, "__Host-") {
			b.t.Errorf("a cookie that others can use: %s", c.Name)
		}
		if delete(jar, c.Name); c.MaxAge > 0 {
			jar[c.Name] = c
		}
	}
	return w
}

// begin opens a page, and is where the issuer is asked to sign somebody in.
func (b *bench) begin(path string, jar map[string]*http.Cookie) url.Values {
	b.t.Helper()
	w := b.browse(http.MethodGet, path, jar)
	if w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), SignIn+"?to=") {
		b.t.Fatalf("%s: %d to %q", path, w.Code, w.Header().Get("Location"))
	}
	w = b.browse(http.MethodGet, w.Header().Get("Location"), jar)
	at, err := url.Parse(w.Header().Get("Location"))
	if err != nil || w.Code != http.StatusSeeOther || !strings.HasPrefix(at.String(), b.url+"/authorize") {
		b.t.Fatalf("%d to %q (%v)", w.Code, at, err)
	}
	return at.Query()
}

func TestABrowserSignsInWithACodeAndAVerifier(t *testing.T) { // A6
	b, jar := signing(t), map[string]*http.Cookie{}
	asked := b.begin("/executions/82f3?x=1", jar)
	for name, want := range map[string]string{"client_id": "page", "response_type": "code", "redirect_uri": "https://tasks.example/signed-in", "scope": "api://oneeffect/.default", "code_challenge_method": "S256", "tenant": "t"} {
		if asked.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, asked.Get(name), want)
		}
	}
	token := b.ec.token(t, b.url, nil)
	b.set(func() {
		b.token = func(form url.Values) (int, any) {
			digest := sha256.Sum256([]byte(form.Get("code_verifier")))
			if form.Get("code") != "c0de" || base64.RawURLEncoding.EncodeToString(digest[:]) != asked.Get("code_challenge") || form.Get("redirect_uri") != "https://tasks.example/signed-in" {
				return http.StatusBadRequest, nil
			}
			return http.StatusOK, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 3600}
		}
	})
	w := b.browse(http.MethodGet, SignedIn+"?code=c0de&state="+asked.Get("state"), jar)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/executions/82f3?x=1" || len(jar) != 1 {
		t.Fatalf("%d to %q with %d cookies: %s", w.Code, w.Header().Get("Location"), len(jar), w.Body)
	}
	if life := time.Duration(jar[tokenCookie].MaxAge) * time.Second; life > time.Hour || life < 58*time.Minute {
		t.Errorf("kept for %v, and the token is good for an hour", life)
	}
	if w := b.browse(http.MethodGet, "/", jar); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"name":"ada"`) {
		t.Errorf("signed in: %d %s", w.Code, w.Body)
	}
	b.quiet(token, b.browse(http.MethodGet, "/", jar))
	// The same code and state once more: the browser has forgotten what they belong to.
	if w := b.browse(http.MethodGet, SignedIn+"?code=c0de&state="+asked.Get("state"), jar); w.Code != http.StatusUnauthorized {
		t.Errorf("again: %d", w.Code)
	}
	if w := b.browse(http.MethodPost, SignOut, jar, "Origin", "https://evil.example"); w.Code != http.StatusForbidden || len(jar) != 1 {
		t.Errorf("signed out by another site: %d", w.Code)
	}
	if w := b.browse(http.MethodPost, SignOut, jar, "Sec-Fetch-Site", "same-origin"); w.Code != http.StatusOK || len(jar) != 0 {
		t.Errorf("signed out: %d, %d cookies", w.Code, len(jar))
	}
}

func TestASignInThatIsNotThisBrowsersOwnIsRefused(t *testing.T) { // A6
	b := signing(t)
	for name, test := range map[string]struct {
		token func(form url.Values) (int, any)
		query func(state string) string
		jar   bool
	}{
		"another state":            {nil, func(string) string { return "code=c&state=other" }, true},
		"no state":                 {nil, func(string) string { return "code=c" }, true},
		"another browser":          {nil, func(state string) string { return "code=c&state=" + state }, false},
		"denied":                   {nil, func(state string) string { return "error=access_denied&state=" + state }, true},
		"the code is not taken":    {func(url.Values) (int, any) { return http.StatusBadRequest, nil }, func(state string) string { return "code=c&state=" + state }, true},
		"a token for another API":  {b.gives(map[string]any{"aud": "other"}), func(state string) string { return "code=c&state=" + state }, true},
		"a token that has expired": {b.gives(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), func(state string) string { return "code=c&state=" + state }, true},
		"no token": {func(url.Values) (int, any) {
			return http.StatusOK, map[string]any{"access_token": "x", "token_type": "Bearer"}
		}, func(state string) string { return "code=c&state=" + state }, true},
		"a token too long for a browser": {b.gives(map[string]any{"filler": strings.Repeat("x", 3500)}), func(state string) string { return "code=c&state=" + state }, true},
	} {
		jar := map[string]*http.Cookie{}
		asked := b.begin("/", jar)
		b.set(func() { b.token = test.token })
		if !test.jar {
			jar = map[string]*http.Cookie{}
		}
		w := b.browse(http.MethodGet, SignedIn+"?"+test.query(asked.Get("state")), jar)
		if w.Code != http.StatusUnauthorized || len(jar) != 0 || b.problemOf(w) == "" {
			t.Errorf("%s: %d, %d cookies: %s", name, w.Code, len(jar), w.Body)
		}
	}
}

func (b *bench) gives(change map[string]any) func(url.Values) (int, any) {
	token := b.ec.token(b.t, b.url, change)
	return func(url.Values) (int, any) {
		return http.StatusOK, map[string]any{"access_token": token, "token_type": "Bearer"}
	}
}

func TestACookieIsHeldToTheRulesOfAToken(t *testing.T) { // A1 A6
	b := signing(t)
	kept := func(token string) map[string]*http.Cookie {
		return map[string]*http.Cookie{tokenCookie: {Name: tokenCookie, Value: token}}
	}
	reader := b.ec.token(t, b.url, map[string]any{"roles": []string{"read"}})
	for name, test := range map[string]struct {
		method, path, token string
		header              []string
		want                int
	}{
		"reads":                             {http.MethodGet, "/", reader, nil, http.StatusOK},
		"may not cancel":                    {http.MethodPost, "/executions/82f3/cancel", reader, nil, http.StatusForbidden},
		"may not, and is not sent in rings": {http.MethodGet, "/", b.ec.token(t, b.url, map[string]any{"roles": []string{"submit"}}), nil, http.StatusForbidden},
		"an expired one is renewed":         {http.MethodGet, "/", b.ec.token(t, b.url, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), nil, http.StatusSeeOther},
		"the header goes first":             {http.MethodGet, "/", reader, []string{"Authorization", "Bearer x.y.z"}, http.StatusSeeOther},
		"a program is told, not led":        {http.MethodGet, "/", "", []string{"Accept", "application/json"}, http.StatusUnauthorized},
		"the API too":                       {http.MethodGet, "/v1/executions", "", nil, http.StatusUnauthorized},
		"live too":                          {http.MethodGet, "/live", "", []string{"Accept", "text/event-stream"}, http.StatusUnauthorized},
	} {
		if w := b.browse(test.method, test.path, kept(test.token), test.header...); w.Code != test.want {
			t.Errorf("%s: %d, want %d", name, w.Code, test.want)
		}
	}
	for _, to := range []string{"//evil.example", "https://evil.example", "/\\evil.example", "x"} {
		if got := local(to); got != "/" {
			t.Errorf("%q leads to %q", to, got)
		}
	}
	b.guard.o.Client = ""
	if w := b.browse(http.MethodGet, "/", kept(reader)); w.Code != http.StatusUnauthorized {
		t.Errorf("nobody signs in here: %d", w.Code)
	}
}

func TestWhatBrowsersSignInByIsHeldTogether(t *testing.T) {
	good := Settings{Issuer: "https://i.example", Audience: "a", RolesClaim: "roles", Client: "c", Scope: "s", PageURL: "https://tasks.example"}
	for name, test := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"as it should be": {func(*Settings) {}, ""},
		"on this machine": {func(s *Settings) { s.PageURL = "http://localhost:8080/" }, ""},
		"not over TLS":    {func(s *Settings) { s.PageURL = "http://tasks.example" }, "-page-url"},
		"with a path":     {func(s *Settings) { s.PageURL = "https://tasks.example/page" }, "-page-url"},
		"no page":         {func(s *Settings) { s.PageURL = "" }, "-page-url"},
		"no scope":        {func(s *Settings) { s.Scope = "" }, "-oidc-scope"},
		"nobody is asked": {func(s *Settings) { s.Issuer, s.Audience = "", "" }, "-oidc-issuer"},
	} {
		s := good
		test.change(&s)
		err := s.Check("127.0.0.1:8080")
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
