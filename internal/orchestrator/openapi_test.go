package orchestrator_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// media is what a body of the document is like.
type media map[string]struct {
	Schema map[string]any `json:"schema"`
}

// described is what the tests read of the document.
type described struct {
	Paths map[string]map[string]struct {
		RequestBody struct {
			Content media `json:"content"`
		} `json:"requestBody"`
		Responses map[string]struct {
			Content media `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
	compiler *jsonschema.Compiler
	mu       sync.Mutex // the compiler is no one for many
}

var document = sync.OnceValues(func() (*described, error) {
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		return nil, err
	}
	d := &described{compiler: jsonschema.NewCompiler()}
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
		t.Fatal(err)
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
