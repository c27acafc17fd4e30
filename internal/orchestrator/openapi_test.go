package orchestrator_test

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// media is what a body of the document is like.
type media map[string]struct {
	Schema map[string]any `json:"schema"`
}

// described is what the tests read of the document.
type described struct {
	Paths    map[string]map[string]operation `json:"paths"`
	compiler *jsonschema.Compiler
	mu       sync.Mutex // the compiler is not for several at once
	seen     map[string]bool
}

// operation is one method of one path.
type operation struct {
	Parameters  []parameter `json:"parameters"`
	RequestBody struct {
		Content media `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content media `json:"content"`
	} `json:"responses"`
}

type parameter struct {
	Name string `json:"name"`
	In   string `json:"in"`
}

// saw takes down that a test was answered so.
func (d *described) saw(path, method string, status int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[strings.ToUpper(strings.Replace(method, http.MethodHead, http.MethodGet, 1))+" "+path+" "+strconv.Itoa(status)] = true
}

// unseen are the answers of the document that no test was given.
func (d *described) unseen() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path, methods := range d.Paths {
		for method, o := range methods {
			for status := range o.Responses {
				name := strings.ToUpper(method) + " " + path
				if number, _ := strconv.Atoi(status); !d.seen[name+" "+status] && !ofTheGuard(name, number) {
					all = append(all, name+" "+status)
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// TestMain holds the tests of the package together to the document: every answer that
// it describes is given in some test, but for those of whoever stands in front, which
// cmd/orchestrator's tests are given.
func TestMain(m *testing.M) {
	status := m.Run()
	if whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" && flag.Lookup("test.fuzz").Value.String() == "" &&
		flag.Lookup("test.list").Value.String() == ""; status == 0 && whole {
		d, err := document()
		unseen := d.unseen()
		if err != nil || len(unseen) > 0 {
			fmt.Printf("FAIL: no test is answered as openapi.json describes (%v):\n%s\n", err, strings.Join(unseen, "\n"))
			status = 1
		}
	}
	os.Exit(status)
}

// ofTheGuard are answers that only whoever stands in front of the API gives.
func ofTheGuard(path string, status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusMisdirectedRequest:
		return true
	case http.StatusForbidden: // a POST from another origin is refused here
		return !strings.HasPrefix(path, "POST ")
	case http.StatusServiceUnavailable:
		return path == "GET /" || path == "GET /openapi.json"
	}
	return false
}

// What goes wrong alike for every operation is answered alike, and as described.
func TestWhatMayGoWrongEverywhereIsDescribedEverywhere(t *testing.T) {
	d, err := document()
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit()
		b.failed(message.DownstreamRejected)
		defer b.follow()()
		bodies := map[string]string{
			"/v1/executions": `{"type":"t"}`, "/v1/executions/{id}/cancel": `{"reason":"x"}`, "/v1/executions/{id}/replay": `{"reason":"x"}`,
			"/v1/executions/{id}/resolve": `{"reason":"x","resultRef":"y"}`,
		}
		want := func(status int, method, path, body string, header ...string) {
			t.Helper()
			if w := b.ask(method, strings.Replace(path, "{id}", "82f3", 1), body, header...); w.Code != status {
				t.Errorf("%s %s with %q: %d %s, want %d", method, path, header, w.Code, w.Body, status)
			}
		}
		for path, methods := range d.Paths {
			body, posts := bodies[path]
			if _, gets := methods["get"]; gets {
				want(http.StatusBadRequest, http.MethodGet, path+"?nonsense=1", "")
				want(http.StatusNotAcceptable, http.MethodGet, path, "", "Accept", "application/xml")
			}
			if !posts {
				continue
			}
			want(http.StatusNotAcceptable, http.MethodPost, path, body, "Accept", "application/xml", "If-Match", "*")
			want(http.StatusUnsupportedMediaType, http.MethodPost, path, body, "Content-Type", "text/plain", "If-Match", "*")
			want(http.StatusRequestEntityTooLarge, http.MethodPost, path, strings.Repeat(" ", 1<<20+1), "If-Match", "*")
			want(http.StatusForbidden, http.MethodPost, path, body, "Origin", "http://evil.example", "If-Match", "*")
			b.slowly(path)
			if strings.Contains(path, "{id}") {
				want(http.StatusPreconditionFailed, http.MethodPost, path, body, "If-Match", `"another"`)
			}
		}
		older := b.page("/v1/executions").Next
		for status, answered := range map[int]int{http.StatusInternalServerError: http.StatusForbidden, http.StatusServiceUnavailable: http.StatusTooManyRequests} {
			if _, err := b.hub.Arm(control.Rule{Name: "away", Match: control.Match{Service: "cosmos"}, Do: "answer", Status: answered}); err != nil {
				t.Fatal(err)
			}
			for path, methods := range d.Paths {
				for method, o := range methods {
					if _, described := o.Responses[strconv.Itoa(status)]; !described || path == "/v1/dead-letters" || ofTheGuard(strings.ToUpper(method)+" "+path, status) {
						continue
					}
					at := path
					if path == "/v1/executions" && method == "get" {
						at = older // the newest are in the index, whatever the store says
					}
					want(status, strings.ToUpper(method), at, bodies[path], "If-Match", "*")
				}
			}
			if err := b.hub.Disarm("away"); err != nil {
				t.Fatal(err)
			}
		}
		for status, fails := range map[int]error{http.StatusInternalServerError: message.ErrRefused, http.StatusServiceUnavailable: message.ErrTransient} {
			b.dead.fails = fails
			want(status, http.MethodGet, "/v1/dead-letters", "")
		}
		b.dead.fails = nil
	})
}

// slowly sends a body whose connection has passed its deadline.
func (b *bench) slowly(path string) {
	b.t.Helper()
	r := httptest.NewRequest(http.MethodPost, strings.Replace(path, "{id}", "82f3", 1), slow{})
	r.Header.Set("If-Match", "*")
	w := httptest.NewRecorder()
	b.API().ServeHTTP(w, r)
	describes(b.t, r, "", w)
	if w.Code != http.StatusRequestTimeout {
		b.t.Errorf("%s, slowly: %d %s", path, w.Code, w.Body)
	}
}

var document = sync.OnceValues(func() (*described, error) {
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		return nil, err
	}
	d := &described{compiler: jsonschema.NewCompiler(), seen: map[string]bool{}}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, err
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return d, d.compiler.AddResource("openapi.json", whole)
})

// valid holds a body to what the document says of it.
func (d *described) valid(schema map[string]any, body []byte) error {
	name, ok := schema["$ref"].(string)
	if !ok {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.compiler.Compile("openapi.json" + name)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return s.Validate(value)
}

var idInPath = regexp.MustCompile(`^/v1/executions/[^/]+`)

// describes holds a request and its answer to the document.
func describes(t *testing.T, r *http.Request, sent string, w *httptest.ResponseRecorder) {
	t.Helper()
	d, err := document()
	if err != nil {
		t.Error(err) // not fatal: a test may ask in another goroutine
		return
	}
	path, ok := d.Paths[idInPath.ReplaceAllString(r.URL.Path, "/v1/executions/{id}")]
	if !ok {
		if w.Code != http.StatusNotFound && w.Code != http.StatusForbidden {
			t.Errorf("%s %s: answered %d, and is not described", r.Method, r.URL.Path, w.Code)
		}
		return
	}
	method, ok := path[strings.ToLower(strings.Replace(r.Method, http.MethodHead, http.MethodGet, 1))]
	if !ok {
		if w.Code != http.StatusMethodNotAllowed && w.Code != http.StatusForbidden {
			t.Errorf("%s %s: answered %d, and is not described", r.Method, r.URL.Path, w.Code)
		}
		return
	}
	answer, ok := method.Responses[strconv.Itoa(w.Code)]
	d.saw(idInPath.ReplaceAllString(r.URL.Path, "/v1/executions/{id}"), r.Method, w.Code)
	for name := range r.URL.Query() {
		if !slices.ContainsFunc(method.Parameters, func(p parameter) bool { return p.In == "query" && p.Name == name }) && w.Code < 300 {
			t.Errorf("%s %s took the parameter %s, which is not described", r.Method, r.URL.Path, name)
		}
	}
	if !ok {
		t.Errorf("%s %s: %d is not described", r.Method, r.URL.Path, w.Code)
		return
	}
	if len(answer.Content) > 0 {
		said, ok := answer.Content[w.Header().Get("Content-Type")]
		if !ok {
			t.Errorf("%s %s: %d as %q is not described", r.Method, r.URL.Path, w.Code, w.Header().Get("Content-Type"))
		} else if err := d.valid(said.Schema, w.Body.Bytes()); err != nil {
			t.Errorf("%s %s: %d: %v\n%s", r.Method, r.URL.Path, w.Code, err, w.Body)
		}
	} else if w.Body.Len() > 0 {
		t.Errorf("%s %s: %d has a body", r.Method, r.URL.Path, w.Code)
	}
	if w.Code < 300 && sent != "" { // what was taken must be what the document says is taken
		if err := d.valid(method.RequestBody.Content["application/json"].Schema, []byte(sent)); err != nil {
			t.Errorf("%s %s took %s: %v", r.Method, r.URL.Path, sent, err)
		}
	}
}

func TestTheDocumentIsServed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		text, err := os.ReadFile("openapi.json")
		if err != nil {
			t.Fatal(err)
		}
		if w := b.ask(http.MethodGet, "/openapi.json", ""); w.Code != http.StatusOK || w.Body.String() != string(text) {
			t.Errorf("%d", w.Code)
		}
		for _, path := range []string{"/", "/livez", "/readyz"} {
			if w := b.ask(http.MethodGet, path, ""); w.Code >= 300 {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
	})
}
