package cosmos_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/cosmos"
	"oneeffect/emulator/inprocess"
)

// request is one raw HTTP request, signed here from the service's description
// and not with code of the emulator.
type request struct {
	method, path string // path is escaped
	headers      map[string]string
	body         string
	unsigned     bool
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
	code   string // of a refusal
}

func (w *world) send(r request) answer {
	w.t.Helper()
	return w.sendBy(w.server.Transport(), r)
}

func (w *world) sendBy(transport http.RoundTripper, r request) answer {
	w.t.Helper()
	return must2(w.ask(transport, r))(w.t)
}

// ask is sendBy for goroutines of a test, which must not end it.
func (w *world) ask(transport http.RoundTripper, r request) (answer, error) {
	req, err := http.NewRequestWithContext(w.t.Context(), r.method, "http://cosmos.test:8081"+r.path, strings.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	req.Header.Set("x-ms-date", date)
	req.Header.Set("x-ms-version", "2020-11-05")
	if !r.unsigned {
		req.Header.Set("Authorization", sign(w.t, r.method, r.path, date))
	}
	for name, text := range r.headers {
		req.Header.Set(name, text)
	}
	response, err := transport.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	var refusal struct{ Code string }
	_ = json.Unmarshal(body, &refusal) // what is no refusal has no code
	return answer{response.StatusCode, response.Header, string(body), refusal.Code}, err
}

func sign(t *testing.T, method, path, date string) string {
	t.Helper()
	segments := strings.Split(strings.Trim(path, "/"), "/")
	kind := segments[len(segments)-1]
	link := segments
	if len(segments)%2 == 0 {
		kind = segments[len(segments)-2]
	} else {
		link = segments[:len(segments)-1]
	}
	decoded := must2(url.PathUnescape(strings.Join(link, "/")))(t)
	key := must2(base64.StdEncoding.DecodeString(cosmos.EmulatorKey))(t)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s\n\n", strings.ToLower(method), kind, decoded, strings.ToLower(date))
	return url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

const docs = "/dbs/oneeffect/colls/claims/docs"

var keyOne = map[string]string{"x-ms-documentdb-partitionkey": `["1"]`}

// with adds headers to others.
func with(headers map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, headers)
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func TestARefusalNamesItsCause(t *testing.T) {
	w := newWorld(t)
	w.container("claims", "/id")
	if got := w.send(request{method: "POST", path: docs, headers: keyOne, body: `{"id":"1"}`}); got.status != http.StatusCreated {
		t.Fatalf("%+v", got)
	}
	big := strings.Repeat("x", 2<<20)
	for name, test := range map[string]struct {
		request request
		status  int
		code    string
		says    string
	}{
		"no database":               {request{method: "GET", path: "/dbs/none/colls/claims/docs/1", headers: keyOne}, 404, "NotFound", `no database "none"`},
		"no container":              {request{method: "GET", path: "/dbs/oneeffect/colls/none/docs/1", headers: keyOne}, 404, "NotFound", `no container "none"`},
		"no item":                   {request{method: "GET", path: docs + "/2", headers: with(nil, "x-ms-documentdb-partitionkey", `["2"]`)}, 404, "NotFound", "does not exist"},
		"an id twice":               {request{method: "POST", path: docs, headers: keyOne, body: `{"id":"1"}`}, 409, "Conflict", "already exists"},
		"a stale etag":              {request{method: "PUT", path: docs + "/1", headers: with(keyOne, "If-Match", `"x"`), body: `{"id":"1"}`}, 412, "PreconditionFailed", "pre-condition"},
		"an item that is too large": {request{method: "PUT", path: docs + "/1", headers: keyOne, body: `{"id":"1","p":"` + big + `"}`}, 413, "RequestEntityTooLarge", "too large"},
		"a body that is not JSON":   {request{method: "POST", path: docs, headers: keyOne, body: `{"id":"1"`}, 400, "BadRequest", "JSON"},
		"a body that is an array":   {request{method: "POST", path: docs, headers: keyOne, body: `[]`}, 400, "BadRequest", "an array, want an object"},
		"a member twice":            {request{method: "POST", path: docs, headers: keyOne, body: `{"id":"1","a":1,"a":2}`}, 400, "BadRequest", "duplicate"},
		"something behind the body": {request{method: "POST", path: docs, headers: keyOne, body: `{"id":"1"} {}`}, 400, "BadRequest", "behind"},
		"a number beyond doubles":   {request{method: "POST", path: docs, headers: keyOne, body: `{"id":"1","n":1e999}`}, 400, "BadRequest", "double"},
		"nesting without end":       {request{method: "POST", path: docs, headers: keyOne, body: `{"id":"1","a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`}, 400, "BadRequest", "nested"},
		"no id":                     {request{method: "POST", path: docs, headers: keyOne, body: `{"a":1}`}, 400, "BadRequest", "id"},
		"an id that is a number":    {request{method: "POST", path: docs, headers: keyOne, body: `{"id":1}`}, 400, "BadRequest", "id"},
		"an id that is too long":    {request{method: "POST", path: docs, headers: keyOne, body: `{"id":"` + strings.Repeat("i", 1024) + `"}`}, 400, "BadRequest", "1023"},
		"another id in the body":    {request{method: "PUT", path: docs + "/1", headers: keyOne, body: `{"id":"2"}`}, 400, "BadRequest", "cannot change"},
		"another key in the body":   {request{method: "POST", path: docs, headers: keyOne, body: `{"id":"2"}`}, 400, "BadRequest", "PartitionKey extracted from document"},
		"no key":                    {request{method: "GET", path: docs + "/1"}, 400, "BadRequest", "PartitionKey value must be supplied"},
		"a key of two parts":        {request{method: "GET", path: docs + "/1", headers: with(nil, "x-ms-documentdb-partitionkey", `["1","2"]`)}, 400, "BadRequest", "Partition key"},
		"a key that is no array":    {request{method: "GET", path: docs + "/1", headers: with(nil, "x-ms-documentdb-partitionkey", `"1"`)}, 400, "BadRequest", "JSON array"},
		"a method that is not one":  {request{method: "POST", path: docs + "/1", headers: keyOne, body: `{}`}, 405, "MethodNotAllowed", "POST"},
		"a trigger":                 {request{method: "POST", path: docs, headers: with(keyOne, "x-ms-documentdb-pre-trigger-include", "t"), body: `{"id":"1"}`}, 400, "BadRequest", "does not implement triggers"},
		"a stored procedure":        {request{method: "POST", path: "/dbs/oneeffect/colls/claims/sprocs/s", headers: keyOne}, 400, "BadRequest", "does not implement stored procedures"},
		"a path to nowhere":         {request{method: "GET", path: "/dbs/oneeffect/what/else"}, 400, "BadRequest", `"what"`},
		"a batch that is no batch":  {request{method: "POST", path: docs, headers: with(keyOne, "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True"), body: `[]`}, 400, "BadRequest", "no operations"},
		"a batch that goes on after an error": {request{method: "POST", path: docs, headers: with(keyOne, "x-ms-cosmos-is-batch-request", "True",
			"x-ms-cosmos-batch-atomic", "True", "x-ms-cosmos-batch-continue-on-error", "True"),
			body: `[{"operationType":"Read","id":"1"}]`}, 400, "BadRequest", "cannot continue after an error"},
		"an operation that is not one": {request{method: "POST", path: docs, headers: with(keyOne, "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True"),
			body: `[{"operationType":"Execute","id":"1"}]`}, 400, "BadRequest", `"Execute" is unknown`},
		"a session ahead of us": {request{method: "GET", path: docs + "/1", headers: with(keyOne, "x-ms-session-token", "0:-1#999")}, 404, "NotFound", "read session"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.send(test.request)
			if got.status != test.status || got.code != test.code || !strings.Contains(got.body, strings.Trim(jsonText(test.says), `"`)) {
				t.Errorf("got %d %s, want %d %s with %q", got.status, got.body, test.status, test.code, test.says)
			}
		})
	}
}

func jsonText(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

func TestSubstatusesTellRefusalsApart(t *testing.T) {
	w := newWorld(t)
	w.container("claims", "/id")
	w.send(request{method: "POST", path: docs, headers: keyOne, body: `{"id":"1"}`})
	query := map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-query-enablecrosspartition": "true"}
	for want, r := range map[string]request{
		"1001": {method: "POST", path: docs, headers: keyOne, body: `{"id":"2"}`},
		"1002": {method: "GET", path: docs + "/1", headers: with(keyOne, "x-ms-session-token", "0:-1#999")},
		"1004": {method: "POST", path: docs, headers: query, body: `{"query":"select * from c order by c.id"}`},
		"1110": {method: "PATCH", path: docs + "/1", headers: keyOne, body: `{"condition":"from c where c.x = 1","operations":[{"op":"set","path":"/x","value":1}]}`},
	} {
		if got := w.send(r); got.header.Get("x-ms-substatus") != want {
			t.Errorf("%s %s: substatus %q, want %s: %s", r.method, r.path, got.header.Get("x-ms-substatus"), want, got.body)
		}
	}
	if got := w.send(request{method: "POST", path: docs, headers: with(query, "x-ms-documentdb-partitionkeyrangeid", "7"), body: `{"query":"select * from c"}`}); got.status != 410 || got.header.Get("x-ms-substatus") != "1002" {
		t.Errorf("unknown range: %+v", got)
	}
}

func TestAMissingContainerIsToldFromAMissingItem(t *testing.T) {
	w := newWorld(t)
	w.container("claims", "/id")
	for path, want := range map[string]string{
		docs + "/1": "",
		strings.Replace(docs, "/claims/", "/other/", 1) + "/1":    "1003",
		strings.Replace(docs, "/dbs/", "/dbs/other-", 1) + "/1":   "1003",
		strings.Split(docs, "/colls/")[0] + "-other/colls":        "1003",
		strings.Split(docs, "/colls/")[0] + "-other/colls/claims": "1003",
		strings.Split(docs, "/colls/")[0] + "-other":              "",
	} {
		got := w.send(request{method: "GET", path: path, headers: keyOne})
		if got.status != 404 || got.header.Get("x-ms-substatus") != want {
			t.Errorf("GET %s: %d with substatus %q, want 404 with %q: %s", path, got.status, got.header.Get("x-ms-substatus"), want, got.body)
		}
	}
}

func TestEveryResponseHasWhatClientsRead(t *testing.T) {
	w := newWorld(t)
	w.container("claims", "/id")
	for _, test := range []struct {
		request request
		status  int
	}{
		{request{method: "POST", path: docs, headers: with(keyOne, "x-ms-activity-id", "abc"), body: `{"id":"1"}`}, 201},
		{request{method: "POST", path: docs, headers: with(keyOne, "x-ms-activity-id", "abc"), body: `{"id":"1"}`}, 409},
		{request{method: "PUT", path: docs + "/1", headers: with(keyOne, "x-ms-activity-id", "abc", "If-Match", `"x"`), body: `{"id":"1"}`}, 412},
		{request{method: "GET", path: docs + "/2", headers: with(keyOne, "x-ms-activity-id", "abc")}, 404},
	} {
		got := w.send(test.request)
		h := got.header
		if got.status != test.status || h.Get("x-ms-activity-id") != "abc" || h.Get("x-ms-request-charge") == "" || !strings.HasPrefix(h.Get("x-ms-session-token"), "0:-1#") || h.Get("Date") == "" {
			t.Errorf("%d, want %d: %v", got.status, test.status, h)
		}
	}
	got := w.send(request{method: "GET", path: "/"})
	var account struct {
		WritableLocations []struct{ DatabaseAccountEndpoint string }
	}
	if err := json.Unmarshal([]byte(got.body), &account); err != nil || account.WritableLocations[0].DatabaseAccountEndpoint != "http://cosmos.test:8081/" {
		t.Errorf("account: %s", got.body)
	}
}

func TestARequestMustBeSigned(t *testing.T) { // V5
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.container("claims", "/id")
		date := time.Now().UTC().Format(http.TimeFormat)
		good := sign(t, "GET", docs+"/1", date)
		for name, test := range map[string]struct {
			authorization string
			date          string
			want          int
		}{
			"as it should be":       {good, date, 404},
			"not at all":            {"", date, 401},
			"another method's":      {sign(t, "PUT", docs+"/1", date), date, 401},
			"another item's":        {sign(t, "GET", docs+"/2", date), date, 401},
			"another date's":        {good, time.Now().Add(time.Second).UTC().Format(http.TimeFormat), 401},
			"no date":               {good, "", 401},
			"not base64":            {url.QueryEscape("type=master&ver=1.0&sig=%%%"), date, 401},
			"an unknown type":       {url.QueryEscape("type=magic&ver=1.0&sig=x"), date, 401},
			"no form":               {"Bearer x", date, 401},
			"a token of no shape":   {"type=aad&ver=1.0&sig=x.y", date, 401},
			"a token with no sense": {"type=aad&ver=1.0&sig=x.y.z", date, 401},
		} {
			got := w.send(request{method: "GET", path: docs + "/1", unsigned: true, headers: with(keyOne, "Authorization", test.authorization, "x-ms-date", test.date)})
			if got.status != test.want {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
			if test.want == 401 && got.code != "Unauthorized" {
				t.Errorf("%s: code %q", name, got.code)
			}
		}
		time.Sleep(16 * time.Minute)
		if got := w.send(request{method: "GET", path: docs + "/1", unsigned: true, headers: with(keyOne, "Authorization", good, "x-ms-date", date)}); got.status != 403 {
			t.Errorf("an old signature: %d %s", got.status, got.body)
		}
		w.hub.Jump(24 * time.Hour) // a jump of the store's clock puts no client in the wrong
		if got := w.send(request{method: "GET", path: docs + "/1", headers: keyOne}); got.status != 404 {
			t.Errorf("after a jump: %d %s", got.status, got.body)
		}
	})
}

func TestATokenIsTakenForItsTime(t *testing.T) { // V5
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.container("claims", "/id")
		token := func(key string, expires time.Duration) string {
			part := base64.RawURLEncoding.EncodeToString
			claims := fmt.Sprintf(`{"appid":"localhost","exp":%d,"nbf":%d}`, time.Now().Add(expires).Unix(), time.Now().Unix())
			return "type=aad&ver=1.0&sig=" + part([]byte(`{"typ":"JWT","alg":"RS256"}`)) + "." + part([]byte(claims)) + "." + part([]byte(key))
		}
		for name, test := range map[string]struct {
			token string
			want  int
		}{
			"in its time":  {token(cosmos.EmulatorKey, time.Hour), 404},
			"expired":      {token(cosmos.EmulatorKey, -time.Hour), 401},
			"another's":    {token("d3Jvbmc=", time.Hour), 401},
			"not signed":   {token("", time.Hour), 401},
			"not a token":  {"type=aad&ver=1.0&sig=a", 401},
			"not of today": {strings.Replace(token(cosmos.EmulatorKey, time.Hour), "1.0", "2.0", 1), 401},
		} {
			if got := w.send(request{method: "GET", path: docs + "/1", unsigned: true, headers: with(keyOne, "Authorization", test.token)}); got.status != test.want {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
		}
	})
}

func TestIdsThatTheRoutingGatewayDoesNotFindAgain(t *testing.T) {
	for id, want := range map[string]int{
		"plain": 200, "with blanks": 200, " leading": 200, "é鱀": 200, "a+b=c,@(x)": 200, "what?": 200,
		"trailing ": 401, "a/b": 401, `a\b`: 401, "a#b": 401, "a%20b": 401, "tab\there": 400, "line\nfeed": 400,
	} {
		for _, compute := range []bool{false, true} {
			w := newWorldWith(t, cosmos.Options{ComputeGateway: compute})
			w.container("claims", "/id")
			key := with(nil, "x-ms-documentdb-partitionkey", "["+jsonText(id)+"]")
			if got := w.send(request{method: "POST", path: docs, headers: key, body: `{"id":` + jsonText(id) + `}`}); got.status != 201 {
				t.Errorf("create %q: %d %s", id, got.status, got.body)
			}
			got := w.send(request{method: "GET", path: docs + "/" + url.PathEscape(id), headers: key})
			if compute && got.status != 200 || !compute && got.status != want {
				t.Errorf("read %q (compute gateway %v): %d %s", id, compute, got.status, got.body)
			}
		}
	}
}

func TestBothGatewaysAreOneAccount(t *testing.T) {
	w := newWorldWith(t, cosmos.Options{Endpoint: "https://account.test/"})
	w.container("claims", "/id")
	compute := inprocess.Transport(w.server.ComputeGateway())
	defer compute.Close()
	key := map[string]string{"x-ms-documentdb-partitionkey": `["a/b"]`}
	w.send(request{method: "POST", path: docs, headers: key, body: `{"id":"a/b"}`})
	read := request{method: "GET", path: docs + "/a%2Fb", headers: key}
	if first, second := w.send(read), w.sendBy(compute, read); first.status != 401 || second.status != 200 {
		t.Errorf("read a/b: %d and %d, want 401 behind the older gateway and 200 behind the newer", first.status, second.status)
	}
	account := request{method: "GET", path: "/"}
	if got := w.send(account); !strings.Contains(got.body, `"https://account.test/"`) {
		t.Errorf("the account document is %s", got.body)
	}
	if got := w.sendBy(compute, account); !strings.Contains(got.body, `"http://cosmos.test:8081/"`) {
		t.Errorf("the account document behind the newer gateway is %s", got.body)
	}
}

func TestOneIdMayStandInManyPartitions(t *testing.T) {
	w := newWorld(t)
	w.container("mixed", "/k")
	path := "/dbs/oneeffect/colls/mixed/docs"
	keys := map[string]string{ // header → member of the item
		`["a"]`: `,"k":"a"`, `[1]`: `,"k":1.0`, `[true]`: `,"k":true`, `[null]`: `,"k":null`, `[{}]`: ``, `["\U0001f600\x01"]`: `,"k":"😀\u0001"`,
	}
	for header, member := range keys {
		r := request{method: "POST", path: path, headers: with(nil, "x-ms-documentdb-partitionkey", header), body: `{"id":"1"` + member + `}`}
		if got := w.send(r); got.status != 201 {
			t.Errorf("%s: %d %s", header, got.status, got.body)
		}
		if got := w.send(r); got.status != 409 {
			t.Errorf("%s again: %d", header, got.status)
		}
	}
	for header := range keys {
		if got := w.send(request{method: "DELETE", path: path + "/1", headers: with(nil, "x-ms-documentdb-partitionkey", header)}); got.status != 204 {
			t.Errorf("delete %s: %d %s", header, got.status, got.body)
		}
	}
	if got := w.send(request{method: "POST", path: path, body: `{"id":"1","k":[1]}`}); got.status != 400 {
		t.Errorf("a key that is an array: %d", got.status)
	}
	if got := w.send(request{method: "POST", path: path, body: `{"id":"1","k":"from the item"}`}); got.status != 201 {
		t.Errorf("without a header: %d %s", got.status, got.body)
	}
}
