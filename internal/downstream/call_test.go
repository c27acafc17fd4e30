package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.opentelemetry.io/otel/trace"

	"oneeffect/internal/message"
)

func keyedAt(url string) Request {
	return Request{
		Method: "POST", URL: url, Timeout: time.Minute, Keyed: true, Header: "Idempotency-Key", Form: Bare,
		Window: time.Hour, InProgress: 409, ReplayedHeader: "Idempotent-Replayed", Result: "/id",
	}
}

func keylessAt(url string) Request {
	return Request{Method: "POST", URL: url, Timeout: time.Minute}
}

func handlerOf(t *testing.T, d Request, o Options) message.Handler {
	t.Helper()
	h, err := Declared{Type: "t", Requests: []Request{d}, Attempts: 8}.Handler(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func call(t *testing.T, d Request, o Options) message.Outcome {
	t.Helper()
	return handlerOf(t, d, o).Call(t.Context(), message.Call{Key: "82f3", Type: "t", Payload: []byte(`{"name":"Ada"}`)})
}

// want checks what decides; descriptions are checked where they matter.
func want(t *testing.T, got message.Outcome, effect message.Effect, retry, free bool) {
	t.Helper()
	if got.Effect != effect || got.Retry != retry || got.Free != free {
		t.Errorf("outcome is %v (retry %v, free %v): %s; want %v (retry %v, free %v)",
			got.Effect, got.Retry, got.Free, got.Description, effect, retry, free)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body string, header ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

type credential func(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error)

func (f credential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return f(ctx, o)
}

func TestAKeyedCallSaysWhoAsksForWhatUnderWhichKey(t *testing.T) {
	var got *http.Request
	var body string
	d := keyedAt("http://crm/customers?api=2")
	d.Auth = Auth{Env: "TOKEN"}
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: [16]byte{1}, SpanID: [8]byte{2}, TraceFlags: trace.FlagsSampled})
	h := handlerOf(t, d, Options{
		UserAgent: "worker-1",
		Getenv:    env("TOKEN", "secret"),
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			got = r
			text, _ := io.ReadAll(r.Body)
			body = string(text)
			return answer(201, "", "Location", "/customers/7"), nil
		}),
	})
	o := h.Call(trace.ContextWithSpanContext(t.Context(), parent), message.Call{Key: "82f3", Payload: []byte(`{"a":1}`)})
	want(t, o, message.EffectApplied, false, false)
	if o.Ref != "/customers/7" {
		t.Errorf("ref is %q", o.Ref)
	}
	if body != `{"a":1}` || got.ContentLength != 7 || got.GetBody != nil {
		t.Errorf("body %q, length %d, GetBody set: %v", body, got.ContentLength, got.GetBody != nil)
	}
	if strings.Contains(o.Description, "api=2") {
		t.Errorf("the query is shown: %s", o.Description)
	}
	for name, value := range map[string]string{
		"Idempotency-Key": "82f3",
		"Content-Type":    "application/json",
		"User-Agent":      "worker-1",
		"Authorization":   "Bearer secret",
		"Traceparent":     "00-01000000000000000000000000000000-0200000000000000-01",
	} {
		if got.Header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, got.Header.Get(name), value)
		}
	}
}

func TestAKeylessCallCarriesNoKey(t *testing.T) { // D2
	var got http.Header
	o := call(t, keylessAt("http://print/letters"), Options{Transport: transport(func(r *http.Request) (*http.Response, error) {
		got = r.Header
		if r.GetBody != nil {
			t.Error("the body could be sent twice")
		}
		return answer(202, ""), nil
	})})
	want(t, o, message.EffectApplied, false, false)
	for name := range got {
		if strings.Contains(name, "Idempotency") {
			t.Errorf("%s is sent", name)
		}
	}
}

func TestAQuotedKeyIsAStructuredFieldString(t *testing.T) {
	d := keyedAt("http://h/")
	d.Form, d.Header = Quoted, "X-Key"
	o := call(t, d, Options{Transport: transport(func(r *http.Request) (*http.Response, error) {
		if got := r.Header.Get("X-Key"); got != `"82f3"` {
			t.Errorf("the key is %s", got)
		}
		return answer(200, ""), nil
	})})
	want(t, o, message.EffectApplied, false, false)
	if got := Quoted.write(`a"b\c`); got != `"a\"b\\c"` {
		t.Errorf("escaped: %s", got)
	}
}

func TestWithoutAKeyAKeyedHandlerSendsNothing(t *testing.T) {
	h := handlerOf(t, keyedAt("http://h/"), Options{Transport: transport(func(*http.Request) (*http.Response, error) {
		t.Error("sent")
		return nil, errors.New("sent")
	})})
	want(t, h.Call(t.Context(), message.Call{}), message.EffectNotApplied, false, false)
}

func TestATokenIsAskedForTheDeclaredScope(t *testing.T) {
	d := keyedAt("http://h/")
	d.Auth = Auth{Scope: "api://crm/.default"}
	sent := ""
	o := Options{Transport: transport(func(r *http.Request) (*http.Response, error) {
		sent = r.Header.Get("Authorization")
		return answer(200, ""), nil
	})}
	if _, err := (Declared{Type: "t", Requests: []Request{d}}).Handler(o); err == nil {
		t.Error("a handler without its credential is made")
	}
	o.Credential = credential(func(_ context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
		return azcore.AccessToken{Token: "for " + strings.Join(o.Scopes, ",")}, nil
	})
	want(t, call(t, d, o), message.EffectApplied, false, false)
	if sent != "Bearer for api://crm/.default" {
		t.Errorf("Authorization is %q", sent)
	}
	o.Credential = credential(func(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
		return azcore.AccessToken{}, errors.New("identity is down")
	})
	sent = ""
	want(t, call(t, d, o), message.EffectNotApplied, true, true)
	if sent != "" {
		t.Error("sent without a token")
	}
}

func TestACallEndsWithItsTimeoutOrItsContextAndSaysWhich(t *testing.T) { // D3
	errLost := errors.New("the lease is lost")
	hang := transport(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		o := call(t, keyedAt("http://h/"), Options{Transport: hang})
		want(t, o, message.EffectUnknown, true, false)
		if took := time.Since(began); took != time.Minute || !strings.Contains(o.Description, errTimeout.Error()) {
			t.Errorf("after %v: %s", took, o.Description)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errLost) })
		o = handlerOf(t, keylessAt("http://h/"), Options{Transport: hang}).Call(ctx, message.Call{})
		want(t, o, message.EffectUnknown, false, false)
		if !strings.Contains(o.Description, errLost.Error()) {
			t.Errorf("the cause is not said: %s", o.Description)
		}
	})
}

func TestReplies(t *testing.T) {
	const asJSON = "application/json; charset=utf-8"
	for _, c := range []struct {
		name   string
		reply  *http.Response
		ref    string
		value  string
		effect message.Effect
		after  time.Duration
		says   string
		digest bool
	}{
		{name: "the Location is the reference", reply: answer(201, `{"id":"c-7"}`, "Content-Type", asJSON, "Location", "/customers/7"),
			effect: message.EffectApplied, ref: "/customers/7", value: `{"id":"c-7"}`, says: "201 Created"},
		{name: "else the declared pointer finds it", reply: answer(200, `{"id":"c-7"}`, "Content-Type", asJSON),
			effect: message.EffectApplied, ref: "c-7", value: `{"id":"c-7"}`, says: "200 OK"},
		{name: "a number is a reference too", reply: answer(200, `{"id":7}`, "Content-Type", "application/vnd.x+json"),
			effect: message.EffectApplied, ref: "7", value: `{"id":7}`},
		{name: "nothing found, applied all the same", reply: answer(200, `{}`, "Content-Type", asJSON),
			effect: message.EffectApplied, value: `{}`},
		{name: "what does not say that it is JSON is not kept", reply: answer(200, `{"id":1}`, "Content-Type", "text/plain"),
			effect: message.EffectApplied},
		{name: "two readers could differ: not kept", reply: answer(200, `{"id":1,"id":2}`, "Content-Type", asJSON),
			effect: message.EffectApplied, says: "reply not kept"},
		{name: "a number no float64 holds: not kept", reply: answer(200, `{"id":9007199254740993}`, "Content-Type", asJSON),
			effect: message.EffectApplied, says: "reply not kept"},
		{name: "larger than the limit: not kept", reply: answer(200, `"`+strings.Repeat("x", maxReply)+`"`, "Content-Type", asJSON, "Location", "/l"),
			effect: message.EffectApplied, ref: "/l", says: "larger than", digest: true},
		{name: "larger than is read: not even digested", reply: answer(200, `"`+strings.Repeat("x", maxReply+maxDigested)+`"`, "Content-Type", asJSON),
			effect: message.EffectApplied, says: "larger than"},
		{name: "a reference without end is none", reply: answer(200, "", "Location", strings.Repeat("x", message.MaxRef+1)),
			effect: message.EffectApplied},
		{name: "a problem is shown to people", reply: answer(422, `{"title":"Key reused","detail":"other\npayload"}`, "Content-Type", "application/problem+json"),
			effect: message.EffectNotApplied, says: "POST http://crm/customers: 422 Unprocessable Entity: Key reused: other payload"},
		{name: "Retry-After is obeyed", reply: answer(503, "", "Retry-After", "7"),
			effect: message.EffectUnknown, after: 7 * time.Second},
		{name: "and ignored where nothing is retried", reply: answer(500, "", "Retry-After", "7", "Idempotent-Replayed", "true"),
			effect: message.EffectUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := call(t, keyedAt("http://crm/customers"), Options{Transport: transport(func(*http.Request) (*http.Response, error) {
				return c.reply, nil
			})})
			if o.Effect != c.effect || o.Ref != c.ref || string(o.Value) != c.value || o.After != c.after {
				t.Errorf("got %v, ref %q, value %s, after %v", o.Effect, o.Ref, o.Value, o.After)
			}
			if digested := strings.HasPrefix(o.Omitted, "sha256:"); digested != c.digest {
				t.Errorf("digest %q, want one: %t", o.Omitted, c.digest)
			}
			if !strings.Contains(o.Description, c.says) {
				t.Errorf("description is %q, want %q in it", o.Description, c.says)
			}
		})
	}
}

func TestAPointerFindsWhatRFC6901Says(t *testing.T) {
	const doc = `{"a":{"b/c":[10,{"~":"x"}]},"n":null}`
	for pointer, ref := range map[string]string{
		"/a/b~1c/1/~0": "x", "/a/b~1c/0": "10", "/a/b~1c": `[10,{"~":"x"}]`, "/n": "null",
		"/a/b~1c/2": "", "/a/b~1c/-": "", "/z": "", "/n/x": "", "/a/b~1c/0/0": "",
	} {
		d := Request{Result: pointer}
		if got := d.ref(http.Header{}, []byte(doc)); got != ref {
			t.Errorf("%s is %q, want %q", pointer, got, ref)
		}
	}
}

func TestARedirectIsNotFollowed(t *testing.T) { // D1
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("followed") }))
	defer target.Close()
	for status, effect := range map[int]message.Effect{302: message.EffectUnknown, 303: message.EffectUnknown, 307: message.EffectNotApplied, 308: message.EffectNotApplied} {
		server := httptest.NewServer(http.RedirectHandler(target.URL, status))
		want(t, call(t, keyedAt(server.URL), Options{}), effect, false, false)
		want(t, call(t, keylessAt(server.URL), Options{}), effect, false, false)
		server.Close()
	}
}

func TestAnEndlessBodyEndsAtTheLimit(t *testing.T) { // D4
	ended := make(chan struct{}, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/customers/7")
		w.WriteHeader(201)
		var err error
		for err == nil {
			_, err = fmt.Fprint(w, strings.Repeat("x", 4096))
		}
		ended <- struct{}{}
	}))
	defer server.Close()
	for _, d := range []Request{keyedAt(server.URL), keylessAt(server.URL)} {
		o := call(t, d, Options{})
		want(t, o, message.EffectApplied, false, false)
		if o.Ref != "/customers/7" {
			t.Errorf("ref is %q", o.Ref)
		}
		<-ended // the server would write without end to whoever reads without end
	}
}

func TestABodyThatBreaksOffTakesNothingFromItsStatus(t *testing.T) { // D4
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(201)
		fmt.Fprint(w, "{")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	o := call(t, keyedAt(server.URL), Options{})
	want(t, o, message.EffectApplied, false, false)
	if !strings.Contains(o.Description, "reply not kept") {
		t.Errorf("description is %q", o.Description)
	}
}
