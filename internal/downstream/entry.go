package downstream

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"
	"golang.org/x/net/http/httpguts"

	"oneeffect/internal/message"
)

// What a handler does that does not say otherwise.
const (
	defaultMethod     = http.MethodPost
	defaultTimeout    = 20 * time.Second
	defaultHeader     = "Idempotency-Key"
	defaultWindow     = 24 * time.Hour
	defaultAttempts   = 8
	defaultBackoffMin = 2 * time.Second
	defaultBackoffMax = 5 * time.Minute
)

// entry is a handler as it stands in the file.
type entry struct {
	Type  string      `yaml:"type"`
	Go    *bool       `yaml:"go"`      // the worker's own code does it; or
	Call  callEntry   `yaml:",inline"` // one call, or
	Steps []callEntry `yaml:"steps"`   // several
	Retry struct {
		Attempts *int   `yaml:"attempts"`
		Backoff  spread `yaml:"backoff"`
	} `yaml:"retry"`
}

// callEntry is one call as it stands in the file.
type callEntry struct {
	Name    string `yaml:"name"` // of a step
	Request struct {
		Method  string   `yaml:"method"`
		URL     string   `yaml:"url"`
		Results bool     `yaml:"results"`
		Timeout duration `yaml:"timeout"`
	} `yaml:"request"`
	Idempotency struct {
		Honoured       *bool    `yaml:"honoured"`
		Header         string   `yaml:"header"`
		Form           Form     `yaml:"form"`
		Window         duration `yaml:"window"`
		InProgress     int      `yaml:"inProgress"`
		ReplayedHeader string   `yaml:"replayedHeader"`
	} `yaml:"idempotency"`
	Auth   string `yaml:"auth"`
	Result string `yaml:"result"`
}

// duration is a time.Duration written "20s".
type duration time.Duration

func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	value, err := time.ParseDuration(n.Value)
	if err != nil || value <= 0 {
		return fmt.Errorf("%q is not a positive duration such as 20s or 5m", n.Value)
	}
	*d = duration(value)
	return nil
}

// spread is the shortest and the longest of a range of durations, written "2s..5m".
type spread struct{ from, to duration }

func (s *spread) UnmarshalYAML(n *yaml.Node) error {
	from, to, _ := strings.Cut(n.Value, "..")
	err := errors.Join(s.from.UnmarshalYAML(&yaml.Node{Value: from}), s.to.UnmarshalYAML(&yaml.Node{Value: to}))
	if err != nil || s.from > s.to {
		return fmt.Errorf("%q is not a range of durations such as 2s..5m", n.Value)
	}
	return nil
}

// handler reads one entry and checks it. A mistake does not end the checking.
func (r *reading) handler(item *yaml.Node) Declared {
	e := r.load(item)
	d := Declared{Type: e.Type, Go: e.Go != nil}
	r.checkType(item, d.Type)
	if d.Go {
		r.inGo(item, *e.Go)
		return d
	}
	if list := member(item, "steps"); list != nil {
		d.Requests = r.steps(item, list, e)
	} else {
		if name := member(item, "name"); name != nil {
			r.mistake(name.Line, "name is for steps: this task is one call")
		}
		if e.Call.Request.Results {
			r.mistake(at(item, "request", "results"), "results are for steps: this task is one call")
		}
		d.Requests = []Request{r.request(item, e.Call)}
	}
	r.retry(item, e, &d)
	return d
}

// inGo holds an entry whose handler is written in Go to saying so and nothing else:
// what it declares, it declares there.
func (r *reading) inGo(item *yaml.Node, is bool) {
	if !is {
		r.mistake(at(item, "go"), "go: true says that a handler is written in Go; of others nothing is said")
	}
	for i := 0; i+1 < len(item.Content); i += 2 {
		if name := item.Content[i]; name.Value != "type" && name.Value != "go" {
			r.mistake(name.Line, "%s is declared by the handler itself, which is written in Go", name.Value)
		}
	}
}

// steps reads the calls of a task that makes several.
func (r *reading) steps(item, list *yaml.Node, e entry) []Request {
	for _, name := range []string{"name", "request", "idempotency", "auth", "result"} {
		if m := member(item, name); m != nil {
			r.mistake(m.Line, "%s belongs into each of the steps", name)
		}
	}
	if len(list.Content) != len(e.Steps) || len(e.Steps) == 0 {
		r.mistake(list.Line, "steps is a list of at least one call, each beginning with \"- name: NAME\"")
		return []Request{{}}
	}
	requests := make([]Request, len(e.Steps))
	for i, step := range e.Steps {
		node := list.Content[i]
		if err := message.CheckStep(step.Name); err != nil {
			r.mistake(at(node, "name"), "%w", err)
		}
		if i == 0 && step.Request.Results {
			r.mistake(at(node, "request", "results"), "there are no results before the first step")
		}
		requests[i] = r.request(node, step)
	}
	if _, err := (Declared{Type: e.Type, Requests: requests}).declaration(); err != nil {
		r.mistake(list.Line, "%w", err)
	}
	return requests
}

// request reads one call.
func (r *reading) request(item *yaml.Node, e callEntry) Request {
	d := Request{
		Step:    e.Name,
		Method:  cmp.Or(e.Request.Method, defaultMethod),
		URL:     e.Request.URL,
		Results: e.Request.Results,
		Timeout: cmp.Or(time.Duration(e.Request.Timeout), defaultTimeout),
		Result:  e.Result,
	}
	r.checkRequest(item, d)
	if d.Result != "" && !jsontext.Pointer(d.Result).IsValid() {
		r.mistake(at(item, "result"), "%q is not a JSON pointer such as /id", d.Result)
	}
	var err error
	if d.Auth, err = parseAuth(e.Auth, r.getenv); err != nil {
		r.mistake(at(item, "auth"), "%w", err)
	}
	switch {
	case e.Idempotency.Honoured == nil:
		r.mistake(at(item, "idempotency"), "idempotency: { honoured: true or false } is missing: every retry is computed from it")
	case *e.Idempotency.Honoured:
		r.keyed(item, e, &d)
	default:
		r.keyless(item, &d)
	}
	return d
}

// retry reads how often and when the calls of a task are made again. Where one of
// them honours no key, never: a task cannot be told to take that risk.
func (r *reading) retry(item *yaml.Node, e entry, d *Declared) {
	keyless := func(c callEntry) bool { return c.Idempotency.Honoured != nil && !*c.Idempotency.Honoured }
	if keyless(e.Call) || slices.ContainsFunc(e.Steps, keyless) {
		d.Attempts = 1
		if retry := member(item, "retry"); retry != nil {
			r.mistake(retry.Line, "retry has no meaning where no key is honoured: the first failure is final")
		}
		return
	}
	d.BackoffMin = cmp.Or(time.Duration(e.Retry.Backoff.from), defaultBackoffMin)
	d.BackoffMax = cmp.Or(time.Duration(e.Retry.Backoff.to), defaultBackoffMax)
	d.Attempts = defaultAttempts
	if e.Retry.Attempts != nil {
		d.Attempts = *e.Retry.Attempts
	}
	if d.Attempts < 1 {
		r.mistake(at(item, "retry", "attempts"), "attempts is %d, at least 1 is needed", d.Attempts)
	}
}

func (r *reading) checkType(item *yaml.Node, taskType string) {
	line := at(item, "type")
	if err := message.CheckType(taskType); err != nil {
		r.mistake(line, "%w", err)
		return
	}
	if first, twice := r.declared[taskType]; twice {
		r.mistake(line, "%s is declared already, in line %d", taskType, first)
		return
	}
	r.declared[taskType] = line
}

func (r *reading) checkRequest(item *yaml.Node, d Request) {
	if !httpguts.ValidHeaderFieldName(d.Method) || d.Method != strings.ToUpper(d.Method) || d.Method == http.MethodConnect {
		r.mistake(at(item, "request", "method"), "%q is not a method such as POST or PUT", d.Method)
	}
	u, err := url.Parse(d.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		r.mistake(at(item, "request", "url"), "url is not of the form http(s)://host/path; credentials belong into auth") // and so it may hold some
	}
}

// taken are the headers that say something else, some of which net/http leaves out.
// A key that is not sent is a key that nobody honours.
var taken = []string{
	"Accept", "Authorization", "Connection", "Content-Length", "Content-Type", "Host", "Keep-Alive", "Proxy-Connection",
	"Te", "Traceparent", "Tracestate", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent",
}

// keyed fills in what a downstream that honours the key declares.
func (r *reading) keyed(item *yaml.Node, e callEntry, d *Request) {
	i := e.Idempotency
	d.Keyed = true
	d.Header = cmp.Or(i.Header, defaultHeader)
	d.Form = cmp.Or(i.Form, Bare)
	d.Window = cmp.Or(time.Duration(i.Window), defaultWindow)
	d.InProgress = i.InProgress
	d.ReplayedHeader = i.ReplayedHeader
	if !httpguts.ValidHeaderFieldName(d.Header) {
		r.mistake(at(item, "idempotency", "header"), "%q is not a header name", d.Header)
	}
	if slices.Contains(taken, http.CanonicalHeaderKey(d.Header)) {
		r.mistake(at(item, "idempotency", "header"), "%s has another meaning in every request: the key would not arrive", d.Header)
	}
	if d.ReplayedHeader != "" && !httpguts.ValidHeaderFieldName(d.ReplayedHeader) {
		r.mistake(at(item, "idempotency", "replayedHeader"), "%q is not a header name", d.ReplayedHeader)
	}
	if d.Form != Bare && d.Form != Quoted {
		r.mistake(at(item, "idempotency", "form"), "form is %q, %s and %s are known", d.Form, Bare, Quoted)
	}
	if d.InProgress != 0 && (d.InProgress < 400 || d.InProgress > 499) {
		r.mistake(at(item, "idempotency", "inProgress"), "inProgress is %d, a status from 400 to 499 is expected (409 as a rule)", d.InProgress)
	}
}

// resent are the methods that net/http sends again by itself after a lost connection.
var resent = []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}

// keyless refuses what would be without meaning, or dangerous, where no key is honoured.
func (r *reading) keyless(item *yaml.Node, d *Request) {
	if slices.Contains(resent, d.Method) {
		r.mistake(at(item, "request", "method"), "%s without a key may be sent twice by the HTTP client: declare another method", d.Method)
	}
	for _, name := range []string{"header", "form", "window", "inProgress", "replayedHeader"} {
		if i := member(item, "idempotency"); i != nil && member(i, name) != nil {
			r.mistake(at(i, name), "idempotency.%s has no meaning where no key is honoured", name)
		}
	}
}
