package orchestrator_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

const documented = "http://127.0.0.1:8080"

// a word of a shell's line: within single quotes, or without blanks and quotes.
var shellWord = regexp.MustCompile(`'([^']*)'|([^\s']+)`)

// curled is what a line of the page asks for. Of curl's options it knows those that
// the page uses; another one fails.
func curled(t *testing.T, line string) (method, path, body string, header []string) {
	t.Helper()
	var words []string
	for _, w := range shellWord.FindAllStringSubmatch(line, -1) {
		words = append(words, w[1]+w[2])
	}
	method = http.MethodGet
	for i := 1; i < len(words); i++ {
		at, ours := strings.CutPrefix(words[i], documented)
		switch {
		case words[i] == "-H" && i+1 < len(words):
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			header = append(header, name, value)
		case words[i] == "-d" && i+1 < len(words):
			i++
			method, body = http.MethodPost, words[i]
		case ours && path == "":
			path = at
		default:
			t.Fatalf("%q is not understood in %s", words[i], line)
		}
	}
	return method, path, body, header
}

// Every curl of docs/api.md is played from top to bottom, and answered as it says;
// what was answered is held to the OpenAPI document, as everywhere.
func TestTheExamplesOfThePageArePlayed(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(t *testing.T, b *bench) {
		b.follow()
		defer b.stop()
		played := map[string]int{}
		for line := range strings.Lines(string(page)) {
			if !strings.HasPrefix(line, "curl ") {
				continue
			}
			method, path, body, header := curled(t, line)
			want := http.StatusOK
			if path == "/v1/executions" {
				want = http.StatusCreated
			}
			if w := b.ask(method, path, body, header...); w.Code != want {
				t.Errorf("%s%d, want %d: %s", line, w.Code, want, w.Body)
			}
			if want == http.StatusCreated { // the same once more is the same execution
				if w := b.ask(method, path, body, header...); w.Code != http.StatusOK {
					t.Errorf("again: %s%d, want 200: %s", line, w.Code, w.Body)
				}
			}
			played[method]++
		}
		if played[http.MethodPost] < 4 || played[http.MethodGet] < 6 {
			t.Errorf("played %v: examples are missing, or written in a way that this test does not find", played)
		}
	})
}
