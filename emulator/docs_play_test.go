package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
)

func TestEveryCurlOfTheDocumentIsTaken(t *testing.T) {
	_, blocks := document(t, "sh")
	for i, block := range blocks {
		commands := curls(t, blocks[i:i+1])
		if len(commands) == 0 {
			continue
		}
		t.Run(strings.SplitN(block, "\n", 2)[0], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := parse(nil, t.Output())
				if err != nil {
					t.Fatal(err)
				}
				e, err := assemble(s, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				defer e.close()
				p := &playing{t: t, hub: e.hub, doors: make(map[string]http.Handler), held: make(map[string]context.CancelFunc)}
				for _, l := range e.listeners(s, slog.New(slog.DiscardHandler)) {
					p.doors[l.address] = l.answers.HTTP
				}
				for _, c := range commands {
					p.play(c)
				}
			})
		})
	}
}

// playing is the emulators on the way through a block of commands.
type playing struct {
	t     *testing.T
	hub   *control.Hub
	doors map[string]http.Handler
	held  map[string]context.CancelFunc // by the name of the rule that holds: the peer goes
}

// play sends what a curl command would. A rule that has been armed is then seen to do what it says, to an operation
// that it is about.
func (p *playing) play(c curl) {
	p.t.Helper()
	if gone, ok := p.held[strings.TrimPrefix(c.at.Path, "/control/rules/")]; ok && c.at.Query().Get("for") == "peer-gone" {
		gone()
	}
	door := p.doors[c.at.Host]
	if door == nil {
		p.t.Fatalf("%s: nothing listens at %s by default", c.line, c.at.Host)
	}
	r := httptest.NewRequestWithContext(p.t.Context(), c.method, c.at.RequestURI(), strings.NewReader(c.body))
	maps.Copy(r.Header, c.header)
	answer := httptest.NewRecorder()
	door.ServeHTTP(answer, r)
	if answer.Code >= 300 {
		p.t.Errorf("%s: %d %s", c.line, answer.Code, answer.Body)
		return
	}
	if c.isRule() {
		var named struct{ Name string }
		if err := json.Unmarshal(answer.Body.Bytes(), &named); err != nil {
			p.t.Fatal(err)
		}
		p.fire(named.Name)
	}
}

// fire has the rule meet an operation that it is about, and disarms it unless it holds.
func (p *playing) fire(name string) {
	p.t.Helper()
	states := p.hub.Rules()
	rule := states[slices.IndexFunc(states, func(s control.RuleState) bool { return s.Rule.Name == name })].Rule
	ask := p.hub.Before
	if rule.When == "after" {
		ask = p.hub.After
	}
	m := rule.Match
	op := control.Op{Service: m.Service, Operation: m.Operation, Entity: m.Entity, Client: m.Client, Key: m.Key, Body: bodyFor(p.t, m.Body)}
	for range max(rule.Nth, 1) - 1 {
		if d := ask(p.t.Context(), op); d.Kind != control.Proceed {
			p.t.Errorf("rule %s: %v before its time", name, d.Kind)
		}
	}
	if rule.Probability > 0 {
		p.fireByChance(name, ask, op)
		return
	}
	ctx, gone := context.WithCancel(p.t.Context())
	decided := make(chan control.Decision, 1)
	start := time.Now()
	go func() { decided <- ask(ctx, op) }()
	synctest.Wait()
	if rule.Do == "hold" {
		p.held[name] = gone
		if len(decided) > 0 {
			p.t.Errorf("rule %s holds nothing", name)
		}
		return
	}
	defer gone()
	want := rule.Do
	if want == "delay" {
		want = control.Proceed.String()
	}
	if d := <-decided; d.Kind.String() != want || time.Since(start) < time.Duration(rule.Delay) {
		p.t.Errorf("rule %s: %v after %v", name, d.Kind, time.Since(start))
	}
	if err := p.hub.Disarm(name); err != nil {
		p.t.Error(err)
	}
}

// fireByChance asks a rule often enough that it fires at some operations and not at others.
func (p *playing) fireByChance(name string, ask func(context.Context, control.Op) control.Decision, op control.Op) {
	p.t.Helper()
	fired := 0
	for range 200 {
		if ask(p.t.Context(), op).Kind != control.Proceed {
			fired++
		}
	}
	if fired == 0 || fired == 200 {
		p.t.Errorf("rule %s fires at %d of 200 operations", name, fired)
	}
	if err := p.hub.Disarm(name); err != nil {
		p.t.Error(err)
	}
}

// bodyFor makes a document in which a rule finds what it looks for.
func bodyFor(t *testing.T, want map[string]any) []byte {
	t.Helper()
	var document any
	for pointer, value := range want {
		for _, segment := range slices.Backward(strings.Split(pointer, "/")[1:]) {
			if segment == "*" {
				value = []any{value}
			} else {
				value = map[string]any{segment: value}
			}
		}
		document = value // one pointer is all that an example needs
	}
	text, err := json.Marshal(document)
	if err != nil || len(want) > 1 {
		t.Fatalf("a body for %v: %v", want, err)
	}
	return text
}

// curl is a command of the document.
type curl struct {
	line   string
	method string
	at     *url.URL
	header http.Header
	body   string
}

func (c curl) isRule() bool { return c.method == http.MethodPost && c.at.Path == "/control/rules" }

// curls reads the curl commands of blocks, in their order. Variables that a block has set are replaced in it.
func curls(t *testing.T, blocks []string) []curl {
	t.Helper()
	var all []curl
	variables := make(map[string]string)
	for _, block := range blocks {
		for line := range strings.SplitSeq(strings.ReplaceAll(block, "\\\n", " "), "\n") {
			name, value, assigns := strings.Cut(line, "=")
			switch {
			case assigns && regexp.MustCompile(`^[A-Z]+$`).MatchString(name):
				variables["$"+name] = value
			case strings.HasPrefix(line, "curl "):
				all = append(all, readCurl(t, line, variables))
			}
		}
	}
	return all
}

func readCurl(t *testing.T, line string, variables map[string]string) curl {
	t.Helper()
	c := curl{line: line, header: make(http.Header)}
	words := regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`).FindAllString(line, -1)[1:]
	for i := 0; i < len(words); i++ {
		argument := func() string {
			i++
			return strings.Trim(words[min(i, len(words)-1)], "'")
		}
		switch word := words[i]; word {
		case "-s", "-N":
		case "--cacert":
			argument()
		case "-X":
			c.method = argument()
		case "-d":
			c.body = argument()
		case "-H":
			name, value, _ := strings.Cut(argument(), ":")
			c.header.Set(name, strings.TrimSpace(value))
		default:
			address := strings.Trim(word, `'"`)
			for name, value := range variables {
				if word[0] != '\'' { // where the shell lets them be
					address = strings.Replace(address, name, value, 1)
				}
			}
			at, err := url.Parse(address)
			if err != nil || at.Host == "" || c.at != nil || address == word && strings.Contains(word, "&") {
				t.Fatalf("%s: %q is not understood here", line, word)
			}
			c.at = at
		}
	}
	if c.at == nil {
		t.Fatalf("%s: there is no address", line)
	}
	if c.method == "" {
		c.method = http.MethodGet
		if c.body != "" {
			c.method = http.MethodPost
		}
	}
	return c
}
