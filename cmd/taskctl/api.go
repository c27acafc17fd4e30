package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/message"
	"oneeffect/internal/orchestrator"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// What one request to the orchestrator is bounded by.
const (
	requestBound = 30 * time.Second // its repetitions included
	requestTries = 3
	maxPause     = 5 * time.Second // before a repetition
	maxAnswer    = 16 << 20        // bytes
)

// tokenVariable holds a token as it is, for issuers that are not Entra ID.
const tokenVariable = "ORCHESTRATOR_TOKEN"

// inquiry is a request to the orchestrator's API.
type inquiry struct {
	method, path string
	query        url.Values
	header       map[string]string
	body         any // nil: none
}

// answer is what the API said, whatever it was about.
type answer struct {
	status int
	header http.Header
	body   jsontext.Value
}

// decode reads a document of the API. Members that it does not know are of a later
// version.
func (w answer) decode(into any) error {
	if err := json.Unmarshal(w.body, into); err != nil {
		return failed(fmt.Errorf("the orchestrator's answer is not what its API promises: %w", err), "compare taskctl version with what is deployed")
	}
	return nil
}

// ask sends a request and waits for its answer. All that this command line sends may
// be sent again: what it asks for twice happens once. So an answer that says "not
// now" is heeded, some times.
func (a *app) ask(ctx context.Context, q inquiry) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestBound)
	defer cancel()
	token, err := a.bearer(ctx)
	if err != nil {
		return answer{}, err
	}
	var body []byte
	if q.body != nil {
		if body, err = json.Marshal(q.body); err != nil {
			return answer{}, usage(err, "give JSON as it is in RFC 8259")
		}
	}
	for try := 1; ; try++ {
		got, err := a.send(ctx, q, body, token)
		if err != nil {
			return answer{}, a.silent(err)
		}
		if got.status < http.StatusMultipleChoices || got.status == http.StatusNotModified {
			return got, nil
		}
		refused := refusalOf(got)
		if got.status != http.StatusServiceUnavailable || try == requestTries || !pause(ctx, got.header.Get("Retry-After")) {
			return answer{}, refused.told(a.orchestrator)
		}
	}
}

// send makes one attempt.
func (a *app) send(ctx context.Context, q inquiry, body []byte, token string) (answer, error) {
	r, err := a.request(ctx, q, body, token)
	if err != nil {
		return answer{}, err
	}
	w, err := a.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer w.Body.Close()
	text, err := io.ReadAll(io.LimitReader(w.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return answer{w.StatusCode, w.Header, text}, err
}

// request is an inquiry on its way.
func (a *app) request(ctx context.Context, q inquiry, body []byte, token string) (*http.Request, error) {
	target := strings.TrimRight(a.orchestrator, "/") + q.path
	if len(q.query) > 0 {
		target += "?" + q.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, q.method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "taskctl/"+process.Version())
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for name, value := range q.header {
		r.Header.Set(name, value)
	}
	return r, nil
}

// follows is never the case: the API does not send anybody elsewhere, and a token is
// for nobody else.
func follows(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// bearer is the token for the API, empty where it is open.
func (a *app) bearer(ctx context.Context) (string, error) {
	token := a.env.Get(tokenVariable)
	if token == "" && a.audience == "" {
		return "", nil
	}
	if scheme, here := process.OnLoopback(a.orchestrator); scheme != "https" && !here {
		return "", usage(fmt.Errorf("%s is no https URL: a token sent there could be read on the way", a.orchestrator), "give --orchestrator-url with https")
	}
	if token != "" {
		return token, nil
	}
	identity, err := process.Identity()
	if err != nil {
		return "", usage(err, "set AZURE_TOKEN_CREDENTIALS, for example to AzureCLICredential after az login, or "+tokenVariable)
	}
	issued, err := identity.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{strings.TrimRight(a.audience, "/") + "/.default"}})
	if err != nil {
		return "", failed(fmt.Errorf("no token for %s: %w", a.audience, err), "sign in (az login), or correct --orchestrator-audience: it is the audience that the orchestrator was given as -oidc-audience")
	}
	return issued.Token, nil
}

// silent is an error of a request that has no answer.
func (a *app) silent(err error) error {
	if errors.Is(err, context.Canceled) {
		return failed(errors.New("interrupted"), "run it again: what was asked for twice happens once")
	}
	return unreachable(fmt.Errorf("no answer from the orchestrator: %w", err), "start it (make run), or correct --orchestrator-url; taskctl --help lists the flags and their variables")
}

// pause waits as long as an answer said, and reports whether there is time to.
func pause(ctx context.Context, retryAfter string) bool {
	wait := time.Second
	if seconds, err := strconv.Atoi(retryAfter); err == nil {
		wait = min(max(wait, time.Duration(seconds)*time.Second), maxPause)
	}
	return message.Pause(ctx, wait) == nil
}

// refusal is an answer that is a problem document (RFC 9457), or no answer of the API's.
type refusal struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	status int
}

func refusalOf(w answer) *refusal {
	r := &refusal{status: w.status}
	media, _, _ := mime.ParseMediaType(w.header.Get("Content-Type"))
	if media != "application/problem+json" || json.Unmarshal(w.body, r) != nil {
		r.Type, r.Title, r.Detail = "", http.StatusText(w.status), ""
	}
	return r
}

// kind is the end of its type: docs/api.md lists them.
func (r *refusal) kind() orchestrator.Problem {
	kind, _ := strings.CutPrefix(r.Type, "urn:oneeffect:problem:")
	return orchestrator.Problem(kind)
}

func (r *refusal) Error() string {
	if r.kind() == "" {
		return fmt.Sprintf("answered %d %s, and not as the orchestrator's API does", r.status, plain(r.Title))
	}
	return fmt.Sprintf("%s (%d %s)", plain(r.Detail), r.status, plain(string(r.kind())))
}

// remedies say what to do about a kind of problem.
var remedies = map[orchestrator.Problem]string{
	orchestrator.InvalidRequest:  "correct what it says; docs/api.md shows every request",
	orchestrator.Unauthenticated: "sign in: give --orchestrator-audience and AZURE_TOKEN_CREDENTIALS, or a token in " + tokenVariable,
	orchestrator.NotPermitted:    "ask whoever runs the API's application for the role that is named: read, submit or operate",
	orchestrator.Misdirected:     "call it by a loopback name: --orchestrator-url http://127.0.0.1:8080",

	orchestrator.NoSuchResource: "taskctl list shows which executions there are",
	orchestrator.NotPossible:    "taskctl timeline shows how it came to stand so",
	orchestrator.Changed:        "taskctl get shows how it stands now; then decide again",

	orchestrator.InvalidExecution: "correct what it says; taskctl submit --help shows the form",
	orchestrator.BodyTooLarge:     "put the data elsewhere and submit a reference to it",
	orchestrator.KeyReused:        "take another --execution-id or --idempotency-key, or submit what was submitted under it before",
	orchestrator.StoreRefused:     "look into the orchestrator's log, which names the cause",
	orchestrator.Unavailable:      "wait, and run it again: what was asked for twice happens once",
}

// told is the refusal with what to do next.
func (r *refusal) told(endpoint string) error {
	remedy, known := remedies[r.kind()]
	switch {
	case r.kind() == "":
		remedy = "correct --orchestrator-url: is " + endpoint + " the orchestrator?"
	case !known:
		remedy = "docs/api.md lists the problems"
	}
	switch r.status {
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		return unreachable(r, remedy)
	case http.StatusBadRequest, http.StatusUnauthorized:
		return usage(r, remedy)
	}
	return failed(r, remedy)
}

// refusedAs reports whether an error is a refusal of a kind.
func refusedAs(err error, kind orchestrator.Problem) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.kind() == kind
}
