package downstream

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"oneeffect/internal/message"
)

const welcome = `
- type: customer.welcome
  steps:
    - name: customer
      request: { url: "http://crm/customers", timeout: 10s }
      idempotency: { honoured: true, window: 48h }
      result: /id
    - name: letter
      request: { url: "http://print/letters", results: true }
      idempotency: { honoured: false }
    - name: mail
      request: { url: "http://mail/send", timeout: 5s }
      idempotency: { honoured: true, window: 1h, form: quoted }
`

func TestATaskMayHaveSeveralSteps(t *testing.T) {
	declared, err := ReadHandlers(strings.NewReader(welcome), env())
	if err != nil {
		t.Fatal(err)
	}
	type sent struct{ target, key, body string }
	var got []sent
	h, err := declared[0].Handler(Options{Transport: transport(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		got = append(got, sent{r.URL.String(), r.Header.Get("Idempotency-Key"), string(body)})
		return answer(201, "", "Location", "/made"), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	wantDeclared := message.Declaration{
		Type: "customer.welcome", KeyWindow: time.Hour, Timeout: 20 * time.Second, Attempts: 1, Prompt: true,
		Steps: []message.Step{
			{Name: "customer", Keyed: true, KeyWindow: 48 * time.Hour, Timeout: 10 * time.Second},
			{Name: "letter", Timeout: 20 * time.Second},
			{Name: "mail", Keyed: true, KeyWindow: time.Hour, Timeout: 5 * time.Second},
		},
	}
	if d := h.Declaration(); !reflect.DeepEqual(d, wantDeclared) {
		t.Errorf("declares %+v\nwant %+v", d, wantDeclared)
	}
	results := map[string]message.StepResult{"customer": {Ref: "/customers/7"}}
	for _, step := range wantDeclared.Steps {
		c := message.Call{Step: step.Name, Payload: []byte(`{"name":"Ada"}`), Results: results}
		if step.Keyed {
			c.Key = message.Key("82f3", step.Name)
		}
		want(t, h.Call(t.Context(), c), message.EffectApplied, false, false)
	}
	wantSent := []sent{
		{"http://crm/customers", "82f3/customer", `{"name":"Ada"}`},
		{"http://print/letters", "", `{"payload":{"name":"Ada"},"results":{"customer":{"resultRef":"/customers/7"}}}`},
		{"http://mail/send", `"82f3/mail"`, `{"name":"Ada"}`},
	}
	if !reflect.DeepEqual(got, wantSent) {
		t.Errorf("sent %q\nwant %q", got, wantSent)
	}
	want(t, h.Call(t.Context(), message.Call{Step: "other"}), message.EffectNotApplied, false, false)
	if len(got) != 3 {
		t.Error("a step that is not declared was sent")
	}
}

func TestEveryMistakeInStepsIsNamedWithItsLine(t *testing.T) { // D5
	for text, want := range map[string]string{
		"- type: t\n  steps: []\n":                                                                    "line 2: steps is a list of at least one call",
		"- type: t\n  steps: 7\n":                                                                     "line 2: steps is a list of at least one call",
		"- type: t\n  auth: none\n" + step("a", true):                                                 "line 2: auth belongs into each of the steps",
		"- type: t\n" + step("a/b", true):                                                             "line 3: step contains '/'",
		"- type: t\n" + step("", true):                                                                "line 3: step is missing",
		"- type: t\n" + step("a", true) + more("a", true):                                             "line 3: step a is declared twice",
		"- type: t\n" + step("a", false) + more("b", false):                                           "line 3: steps a and b honour no key: at most one may",
		"- type: t\n  retry: {attempts: 3}\n" + step("a", false):                                      "line 2: retry has no meaning where no key is honoured",
		"- type: t\n  name: x\n  request: {url: \"http://h\"}\n  idempotency: {honoured: true}\n":     "line 2: name is for steps",
		"- type: t\n  request: {url: \"http://h\", results: true}\n  idempotency: {honoured: true}\n": "line 2: results are for steps",
		"- type: t\n  steps:\n  - name: a\n    request: {url: \"http://h\", results: true}\n    idempotency: {honoured: true}\n": "line 4: there are no results before the first step",
	} {
		_, err := ReadHandlers(strings.NewReader(text), env())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nsaid %v\nwant %s", text, err, want)
		}
	}
}

// step begins a list of steps, more adds one.
func step(name string, keyed bool) string { return "  steps:\n" + more(name, keyed) }

func more(name string, keyed bool) string {
	honoured := "false"
	if keyed {
		honoured = "true"
	}
	return "  - name: \"" + name + "\"\n    request: {url: \"http://h\"}\n    idempotency: {honoured: " + honoured + "}\n"
}
