package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/cosmos"
	"oneeffect/measure"
)

const webhookSecret = "known-to-everybody-loopback-only"

// example is a curl of a page and what it says of the answer.
type example struct {
	line   string
	status int
	body   any // what must be in it; nil: nothing is said
}

// examplesOf reads the curls of the page's shell blocks, each with the line under it.
// Lines that go on are joined, and one without an answer is a mistake of the page.
func examplesOf(t *testing.T, page string) (found []example) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	answer := regexp.MustCompile(`^# (\d{3})(?: (.*))?$`)
	shell, waits := false, false
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		switch m := answer.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "```"):
			shell = line == "```sh"
		case !shell:
		case strings.HasPrefix(line, "curl ") && waits:
			t.Fatalf("%s: nothing is said of the answer to %s", page, found[len(found)-1].line)
		case strings.HasPrefix(line, "curl "):
			found, waits = append(found, example{line: line}), true
		case waits && m != nil:
			e := &found[len(found)-1]
			e.status, err = strconv.Atoi(m[1])
			if err == nil && m[2] != "" {
				err = json.Unmarshal([]byte(m[2]), &e.body)
			}
			if err != nil {
				t.Fatalf("%s: %s: %v", page, line, err)
			}
			waits = false
		}
	}
	if waits || len(found) == 0 {
		t.Fatalf("%s: %d curls, and an answer to the last: %t", page, len(found), !waits)
	}
	return found
}

// a word of a shell's line: within quotes of either kind, or without blanks and quotes.
var shellWord = regexp.MustCompile(`'([^']*)'|"([^"]*)"|([^\s'"]+)`)

// request is what a curl asks for. Of curl's options it knows those that the pages use;
// another one fails.
func (s *system) request(line string) *http.Request {
	s.t.Helper()
	var words []string
	for _, w := range shellWord.FindAllStringSubmatch(line, -1) {
		words = append(words, w[1]+s.expand(w[2])+w[3])
	}
	method, target, header := http.MethodGet, "", http.Header{}
	var body io.Reader
	for i := 1; i < len(words); i++ {
		word, value := words[i], ""
		switch word {
		case "-H", "-d", "-X", "--data-binary":
			if i++; i == len(words) {
				s.t.Fatalf("nothing follows %s in %s", word, line)
			}
			value = words[i]
		}
		switch at, served := s.address(word); {
		case word == "-H":
			name, text, _ := strings.Cut(value, ": ")
			header.Set(name, text)
		case word == "-d" || word == "--data-binary":
			method, body = http.MethodPost, strings.NewReader(value)
		case word == "-X":
			method = value
		case word == "-i":
		case served && target == "":
			target = at
		default:
			s.t.Fatalf("%q is not understood in %s", word, line)
		}
	}
	r, err := http.NewRequestWithContext(s.ctx, method, target, body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header = header
	return r
}

// system is the programs that the pages are about, on ports of their own.
type system struct {
	t          *testing.T
	ctx        context.Context
	bin        string
	emulator   *measure.Server
	documented map[string]string // the addresses of the pages, and those that are meant here
	variables  map[string]string // of the pages' shell
}

func (s *system) address(word string) (string, bool) {
	for page, here := range s.documented {
		if path, ok := strings.CutPrefix(word, page); ok {
			return here + path, true
		}
	}
	return "", false
}

func (s *system) expand(text string) string {
	return os.Expand(text, func(name string) string {
		value, ok := s.variables[name]
		if !ok {
			s.t.Fatalf("$%s stands for nothing here", name)
		}
		return value
	})
}

// newSystem builds the other programs and starts the emulator.
func newSystem(t *testing.T) *system {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Minute, errors.New("the test is bounded to three minutes"))
	t.Cleanup(cancel)
	s := &system{t: t, ctx: ctx, bin: t.TempDir(), documented: map[string]string{}, variables: map[string]string{}}
	build := exec.CommandContext(ctx, "go", "build", "-o", s.bin+"/", "oneeffect/emulator", "oneeffect/cmd/worker", "oneeffect/cmd/projector")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.emulator = s.launch("emulator", nil, "-amqp=127.0.0.1:0", "-cosmos=127.0.0.1:0", "-downstream=127.0.0.1:0", "-control=127.0.0.1:0")
	s.documented["http://127.0.0.1:8084"] = "http://" + s.emulator.Control
	db, err := cosmos.Open(cosmos.Options{Endpoint: "http://" + s.emulator.Cosmos, Key: emulator.EmulatorKey, ApplicationID: "test", Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// launch starts a program, which ends with the test.
func (s *system) launch(program string, env []string, args ...string) *measure.Server {
	s.t.Helper()
	if program != os.Args[0] {
		program = filepath.Join(s.bin, program)
	}
	started, err := measure.Launch(context.WithoutCancel(s.ctx), env, program, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := started.Stop(); err != nil {
			s.t.Error(err)
		}
	})
	return started
}

// process starts one of ours.
func (s *system) process(program string, env []string, args ...string) *measure.Server {
	s.t.Helper()
	return s.launch(program, append([]string{
		"SERVICEBUS_CONNECTION_STRING=Endpoint=sb://" + s.emulator.AMQP + ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true",
		"COSMOS_KEY=" + emulator.EmulatorKey,
		"CRM_URL=http://" + s.emulator.Downstream, "PRINT_URL=http://" + s.emulator.Downstream,
	}, env...), append([]string{"-cosmos-endpoint=http://" + s.emulator.Cosmos, "-log-level=error"}, args...)...)
}

func (s *system) orchestrator(env []string, args ...string) *measure.Server {
	s.t.Helper()
	return s.process(os.Args[0], append(env, asOrchestrator+"=1"), append([]string{"-id=o", "-listen=127.0.0.1:0", "-follow-period=100ms"}, args...)...)
}

// play asks what the page asks, and holds the answer to what the page says. To look is
// repeated when something has happened at the emulators, until the answer fits: what
// the page shows is done by other processes, which take their time.
func (s *system) play(client *http.Client, e example) {
	s.t.Helper()
	for seen := uint64(0); ; {
		r := s.request(e.line)
		status, text := answerOf(s.t, client, r)
		var body any
		if len(text) > 0 {
			if err := json.Unmarshal(text, &body); err != nil {
				s.t.Fatalf("%s\nis answered %d %s", e.line, status, text)
			}
		}
		if status == e.status && holds(body, e.body) {
			return
		}
		if r.Method != http.MethodGet || s.ctx.Err() != nil {
			s.t.Fatalf("%s\nis answered %d %s\nand not      %d %v (%v)", e.line, status, text, e.status, e.body, context.Cause(s.ctx))
		}
		events, err := s.emulator.Events(s.ctx, seen)
		if err != nil {
			s.t.Fatalf("%s\nis answered %d %s\nand not      %d %v (%v)", e.line, status, text, e.status, e.body, err)
		}
		for _, event := range events {
			seen = max(seen, event.Seq)
		}
	}
}

func answerOf(t *testing.T, client *http.Client, r *http.Request) (status int, body []byte) {
	t.Helper()
	w, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	body, err = io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, bytes.TrimSpace(body)
}

// holds reports whether everything that is wanted is there: members of an object, and
// elements of an array in any place. An empty array wants an empty one.
func holds(got, want any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case map[string]any:
		object, ok := got.(map[string]any)
		for name, value := range want {
			ok = ok && holds(object[name], value)
		}
		return ok
	case []any:
		array, ok := got.([]any)
		if len(want) == 0 {
			return ok && len(array) == 0
		}
		for _, value := range want {
			found := false
			for _, element := range array {
				found = found || holds(element, value)
			}
			ok = ok && found
		}
		return ok
	}
	return got == want
}

// The curls of both pages, from top to bottom, against the programs that they are about.
func TestTheExamplesOfThePagesArePlayed(t *testing.T) {
	s := newSystem(t)
	t.Run("api.md", s.playTheAPI)
	t.Run("operations.md", s.playOperations)
	t.Run("README.md", s.playTheReadme)
}

// playTheReadme adds the handlers of README.md to a worker, as it says, and plays its curls.
func (s *system) playTheReadme(t *testing.T) {
	s.t = t
	const page = "../../README.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) (all []byte) {
		for _, found := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(text, -1) {
			all = append(all, found[1]...)
		}
		if len(all) == 0 {
			t.Fatalf("%s has no block of %s", page, language)
		}
		return all
	}
	folder, reports := t.TempDir(), t.TempDir()
	declared, err := os.ReadFile("../../handlers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	handlers := write("handlers.yaml", append(declared, block("yaml")...))
	own, err := filepath.Abs("../worker/own.go")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {own: write("own.go", block("go"))}})
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(s.ctx, "go", "build", "-overlay", write("overlay.json", overlay), "-o", filepath.Join(s.bin, "worker-of-the-readme"), "oneeffect/cmd/worker")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.documented["http://127.0.0.1:8080"] = "http://" + s.orchestrator(nil).HTTP
	s.documented["http://127.0.0.1:8082"] = "http://" + s.emulator.Downstream
	s.process("worker-of-the-readme", []string{"REPORTS=" + reports}, "-id=worker-1", "-handlers="+handlers)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, e := range examplesOf(t, page) {
		s.play(client, e)
	}
	written, err := os.ReadDir(reports)
	if err != nil || len(written) != 1 || written[0].Name() != "report-1.json" {
		t.Fatalf("the folder has %v (%v), want report-1.json alone", written, err)
	}
	report, err := os.ReadFile(filepath.Join(reports, "report-1.json"))
	if err != nil || string(report) != `{"year":2026}` {
		t.Errorf("the report is %s (%v)", report, err)
	}
}

// playTheAPI plays every curl of docs/api.md.
func (s *system) playTheAPI(t *testing.T) {
	s.t = t
	s.documented["http://127.0.0.1:8080"] = "http://" + s.orchestrator(nil).HTTP
	s.process("worker", nil, "-id=worker-1", "-handlers=../../handlers.yaml")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	paths := map[string]int{}
	for _, e := range examplesOf(t, "../../docs/api.md") {
		r := s.request(e.line)
		paths[r.Method+" "+regexp.MustCompile(`/v1/executions/[^/]+`).ReplaceAllString(r.URL.Path, "/v1/executions/{id}")]++
		s.play(client, e)
	}
	for _, shown := range []string{
		"POST /v1/executions", "GET /v1/executions", "GET /v1/executions/{id}", "GET /v1/executions/{id}/timeline", "POST /v1/executions/{id}/cancel",
		"POST /v1/executions/{id}/replay", "POST /v1/executions/{id}/resolve", "GET /v1/dead-letters",
	} {
		if paths[shown] == 0 {
			t.Errorf("the page has no example of %s", shown)
		}
	}
}

// playOperations plays every curl of docs/operations.md: one as a caller who is signed
// in, and a webhook that is signed as the lines before it say.
func (s *system) playOperations(t *testing.T) {
	s.t = t
	const page = "../../docs/operations.md"
	idp := newIssuer(t)
	s.documented["https://oneeffect.example"] = "http://" + s.orchestrator([]string{"SSL_CERT_FILE=" + idp.authority}, "-oidc-issuer="+idp.URL, "-oidc-audience=api").HTTP
	s.documented["http://127.0.0.1:8083"] = "http://" + s.process("projector", []string{"WEBHOOK_SECRET_LOCAL=" + webhookSecret}, "-id=projector", "-listen=127.0.0.1:0").HTTP
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	s.variables["TOKEN"] = idp.token(t, "read")
	for _, line := range []string{`time=$(date +%s)`, `signature=$(printf '%s.%s' "$time" "$body" | openssl dgst -sha256 -hmac "$secret" -r | cut -d' ' -f1)`, `secret=` + webhookSecret} {
		if !strings.Contains(string(text), "\n"+line) {
			t.Fatalf("the page signs otherwise than this test: it has no line %s", line)
		}
	}
	body := regexp.MustCompile(`(?m)^body='(.*)'$`).FindSubmatch(text)
	if body == nil {
		t.Fatal("the page has no body to sign")
	}
	s.variables["body"], s.variables["time"] = string(body[1]), strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	fmt.Fprintf(mac, "%s.%s", s.variables["time"], body[1])
	s.variables["signature"] = hex.EncodeToString(mac.Sum(nil))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	played := 0
	for _, e := range examplesOf(t, page) {
		s.play(client, e)
		played++
	}
	if played < 2 {
		t.Errorf("%d examples were played, want both kinds", played)
	}
}
