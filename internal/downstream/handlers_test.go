package downstream

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestTheRepositorysHandlersAreTheTwoOfTheDemo(t *testing.T) {
	file, err := os.Open("../../handlers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got, err := ReadHandlers(file, env("CRM_URL", "http://crm", "PRINT_URL", "https://print:8443/v1"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Declared{{
		Type: "customer.create",
		Requests: []Request{{
			Method: "POST", URL: "http://crm/customers", Timeout: 20 * time.Second,
			Keyed: true, Header: "Idempotency-Key", Form: Bare, Window: 24 * time.Hour,
			InProgress: 409, ReplayedHeader: "Idempotent-Replayed", Result: "/id",
		}},
		Attempts: 8, BackoffMin: 2 * time.Second, BackoffMax: 5 * time.Minute,
	}, {
		Type:     "letter.print",
		Requests: []Request{{Method: "POST", URL: "https://print:8443/v1/letters", Timeout: 20 * time.Second}},
		Attempts: 1,
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

// The example of steps in the repository's handlers is a comment, and is right.
func TestTheRepositorysExampleOfStepsIsTaken(t *testing.T) {
	text, err := os.ReadFile("../../handlers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(text), "# - type: ")
	if !found {
		t.Fatal("there is no example")
	}
	example = strings.ReplaceAll("- type: "+example, "\n#", "\n")
	got, err := ReadHandlers(strings.NewReader(strings.ReplaceAll(example, "\n ", "\n")), env("CRM_URL", "http://crm", "PRINT_URL", "http://print"))
	if err != nil || len(got) != 1 || len(got[0].Requests) != 2 || !got[0].Requests[1].Results {
		t.Errorf("%+v, %v\nof\n%s", got, err, example)
	}
}

func TestEverythingSaidIsTaken(t *testing.T) {
	got, err := ReadHandlers(strings.NewReader(`
- type: order.place
  request: { method: PUT, url: "http://h/o?v=${V}", timeout: 1500ms }
  idempotency: { honoured: yes, header: X-Request-Id, form: quoted, window: 48h, inProgress: 423, replayedHeader: X-Replay }
  auth: entra:api://orders/.default
  result: /a/0
  retry: { attempts: 3, backoff: 1s..1m }
`), env("V", "2"))
	if err != nil {
		t.Fatal(err)
	}
	want := Declared{
		Type: "order.place",
		Requests: []Request{{
			Method: "PUT", URL: "http://h/o?v=2", Timeout: 1500 * time.Millisecond,
			Keyed: true, Header: "X-Request-Id", Form: Quoted, Window: 48 * time.Hour, InProgress: 423, ReplayedHeader: "X-Replay",
			Auth: Auth{Scope: "api://orders/.default"}, Result: "/a/0",
		}},
		Attempts: 3, BackoffMin: time.Second, BackoffMax: time.Minute,
	}
	if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

// An entry may say that the handler is written in Go, and then it says nothing else.
func TestAnEntryMaySayThatItsHandlerIsWrittenInGo(t *testing.T) { // D5
	read := func(file string) ([]Declared, error) { return ReadHandlers(strings.NewReader(file), env()) }
	declared, err := read("- type: report.write\n  go: true\n")
	if err != nil || len(declared) != 1 || !declared[0].Go || declared[0].Type != "report.write" {
		t.Fatalf("%+v, %v", declared, err)
	}
	if _, err := declared[0].Handler(Options{}); err == nil {
		t.Error("a handler is made of an entry that declares none")
	}
	for file, want := range map[string]string{
		"- type: report.write\n  go: false\n":                                         "line 2: go: true says",
		"- type: a\n  go: true\n  request: { url: \"http://h/\" }\n":                  "line 3: request is declared by the handler itself",
		"- type: a\n  go: true\n- type: a\n  go: true\n":                              "line 3: a is declared already",
		"- type: a\n  go: soon\n  idempotency: { honoured: true }\n":                  "line 2:",
		"- type: a\n  go: true\n  steps: [ { name: x } ]\n  retry: { attempts: 3 }\n": "line 4: retry is declared by the handler itself",
	} {
		if _, err := read(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nsaid %v, want %q", file, err, want)
		}
	}
}

func TestEveryMistakeIsNamedAtOnceWithItsLine(t *testing.T) { // D5
	_, err := ReadHandlers(strings.NewReader(`# line 1
- type: a b
  request: { method: GET, url: "ftp://x" }
  idempotency: { honoured: false, window: 1h }
  retry: { attempts: 2 }
- type: ok
  request: { url: "${NOWHERE}/x", timeout: 5x, colour: red }
  idempotency: { honoured: true, form: round, inProgress: 200, header: "a b", replayedHeader: "c:" }
  auth: basic
  result: id
  retry: { attempts: 0, backoff: 5m..2s }
- type: ok
  request: { method: post, url: "http://u:p@h/" }
- type: x
  request: { url: "http://h/${" }
  idempotency: { honoured: maybe }
  auth: env:MISSING
`), env())
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`line 2: task type contains ' '`,
		`line 3: GET without a key may be sent twice`,
		`line 3: url is not of the form`,
		`line 4: idempotency.window has no meaning`,
		`line 5: retry has no meaning`,
		`line 7: the variable NOWHERE is not set`,
		`line 7: "5x" is not a positive duration`,
		`line 7: field colour not found`,
		`line 8: form is "round", bare and quoted are known`,
		`line 8: inProgress is 200`,
		`line 8: "a b" is not a header name`,
		`line 8: "c:" is not a header name`,
		`line 9: auth must be none, env:NAME or entra:SCOPE`,
		`line 10: "id" is not a JSON pointer`,
		`line 11: attempts is 0`,
		`line 11: "5m..2s" is not a range of durations`,
		`line 12: ok is declared already, in line 6`,
		`line 13: "post" is not a method`,
		`line 13: url is not of the form`,
		`line 12: idempotency: { honoured: true or false } is missing`,
		`line 15: "${" is not a variable`,
		`line 16: cannot construct`,
		`line 17: auth: the variable MISSING is not set`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s", want)
		}
	}
	if t.Failed() {
		t.Logf("said:\n%v", err)
	}
}

func TestAVariableCannotChangeTheFilesStructure(t *testing.T) {
	got, err := ReadHandlers(strings.NewReader("- type: a\n  request: { url: \"${U}\" }\n  idempotency: { honoured: false }\n"),
		env("U", "http://h/\" }\n- type: b"))
	if err == nil || !strings.Contains(err.Error(), "line 2: url") {
		t.Errorf("taken: %+v, %v", got, err)
	}
}

func TestWhatIsNoListOfHandlersIsRefused(t *testing.T) {
	const one = "- type: a\n  request: { url: \"http://h/\" }\n  idempotency: { honoured: false }\n"
	filled := one + "#" + strings.Repeat("x", maxFile-len(one)-1)
	if got, err := ReadHandlers(strings.NewReader(filled), env()); err != nil || len(got) != 1 {
		t.Errorf("a list as large as may be: %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"": "no documents in stream",
		strings.ReplaceAll(one[2:], "\n  ", "\n"):         "line 1: a list is expected",
		one + "---\n" + strings.Replace(one, "a", "b", 1): "expected single document, found multiple",
		"- type: [a\n": "did not find expected ',' or ']'",
		one + "- a\n":  "line 4: cannot construct",
		filled + "x":   "the file is larger than 1048576 bytes",
	} {
		if got, err := ReadHandlers(strings.NewReader(text), env()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100q: %+v, %v, want %q", text, got, err, want)
		}
	}
}

// A secret that is written where it does not belong is a mistake, and not told to
// whoever reads the log.
func TestAMistakeDoesNotRepeatASecret(t *testing.T) {
	for name, text := range map[string]string{
		"credentials in a URL": "- type: t\n  request: { url: \"http://user:${SECRET}@h/\" }\n  idempotency: { honoured: true }\n",
		"a query in a bad URL": "- type: t\n  request: { url: \"http://h/?code=${SECRET}#x\" }\n  idempotency: { honoured: true }\n",
		"a token as auth":      "- type: t\n  request: { url: \"http://h/\" }\n  auth: ${SECRET}\n  idempotency: { honoured: true }\n",
		"a token as bearer":    "- type: t\n  request: { url: \"http://h/\" }\n  auth: Bearer ${SECRET}\n  idempotency: { honoured: true }\n",
	} {
		_, err := ReadHandlers(strings.NewReader(text), env("SECRET", "s3cret"))
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAKeyDoesNotGoWhereItWouldNotArrive(t *testing.T) { // D5
	for _, header := range []string{"Host", "content-length", "Authorization", "Transfer-Encoding"} {
		text := "- type: t\n  request: { url: \"http://h/\" }\n  idempotency: { honoured: true, header: " + header + " }\n"
		if _, err := ReadHandlers(strings.NewReader(text), env()); err == nil || !strings.Contains(err.Error(), "line 3: "+header+" has another meaning") {
			t.Errorf("%s: %v", header, err)
		}
	}
}
