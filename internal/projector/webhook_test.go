package projector_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/projector"

	"github.com/go-json-experiment/json"
)

// attempt is one try of a sender.
type attempt struct {
	source, body        string
	timestamp           string
	signature, delivery string
	path, method        string
	ctx                 context.Context // of the request; nil: the test's
}

// attemptOf is an attempt as it should be, now.
func attemptOf(body, delivery string) attempt {
	now := time.Now()
	return attempt{
		source: "billing", body: body, timestamp: strconv.FormatInt(now.Unix(), 10),
		signature: projector.Sign(secret, now, []byte(body)), delivery: delivery,
	}
}

const paid = `{"requestId":"req-4401","resource":"invoice-7","version":3,"state":{"paid":true}}`

// told is what a sender reads.
type told struct {
	Status  int
	Type    string
	Retry   string
	Result  string `json:"result"`
	Class   string `json:"class"`
	Version int64  `json:"version"`
	Found   int64  `json:"found"`
	Detail  string `json:"detail"`
}

func (w *world) post(a attempt) told {
	w.t.Helper()
	method, path := a.method, a.path
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = "/webhooks/" + a.source
	}
	ctx := a.ctx
	if ctx == nil {
		ctx = w.t.Context()
	}
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(a.body))
	for name, value := range map[string]string{projector.HeaderTimestamp: a.timestamp, projector.HeaderSignature: a.signature, projector.HeaderDelivery: a.delivery} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	recorder := httptest.NewRecorder()
	w.webhooks.Handler().ServeHTTP(recorder, r)
	answer := recorder.Result()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Error(err)
	}
	got := told{Status: answer.StatusCode, Type: answer.Header.Get("Content-Type"), Retry: answer.Header.Get("Retry-After")}
	if strings.HasSuffix(got.Type, "json") {
		if err := json.Unmarshal(body, &got); err != nil {
			w.t.Errorf("%s: %v", body, err)
		}
	}
	return got
}

// wantInvoice holds what is known of invoice-7.
func (w *world) wantInvoice(state string, version int64) {
	w.t.Helper()
	s, err := w.db.Webhooks().Item(w.t.Context(), "billing:invoice-7")
	if err != nil || string(s.Item.State) != state || s.Item.Version != version {
		w.t.Errorf("invoice-7 is %s at version %d, %v, want %s at %d", s.Item.State, s.Item.Version, err, state, version)
	}
}

func TestARetriedWebhookIsAppliedOnceAndSaysSo(t *testing.T) { // P4 P6
	inWorld(t, func(t *testing.T, w *world) {
		for i, want := range []told{
			{Status: 200, Result: "applied", Class: "RECEIPT_COMMITTED_EFFECT_APPLIED", Version: 3},
			{Status: 200, Result: "duplicate", Class: "DUPLICATE_SUPPRESSED", Version: 3},
			{Status: 200, Result: "duplicate", Class: "DUPLICATE_SUPPRESSED", Version: 3},
		} {
			time.Sleep(time.Minute) // each attempt has its own time, signature and delivery id
			got := w.post(attemptOf(paid, "delivery-"+strconv.Itoa(i)))
			want.Type = "application/json"
			if got != want {
				t.Errorf("attempt %d: %+v, want %+v", i, got, want)
			}
		}
		w.wantInvoice(`{"paid":true}`, 3)
		r, err := w.db.Webhooks().Receipt(t.Context(), "billing:invoice-7", "webhook:billing:invoice-7:req-4401")
		if err != nil || r.Delivery != "delivery-0" || r.TTL != 60*24*3600 {
			t.Errorf("the receipt is %+v, %v", r, err)
		}
	})
}

func TestALowerVersionIsRefusedUnderANewRequestID(t *testing.T) { // P6
	inWorld(t, func(t *testing.T, w *world) {
		w.post(attemptOf(paid, "A"))
		for request, version := range map[string]string{"req-4402": "2", "req-4403": "3"} {
			body := `{"requestId":"` + request + `","resource":"invoice-7","version":` + version + `,"state":{"paid":false}}`
			if got := w.post(attemptOf(body, "A")); got.Status != 200 || got.Result != "stale" || got.Class != "STALE_EVENT_REJECTED" || got.Found != 3 {
				t.Errorf("version %s: %+v", version, got)
			}
		}
		w.wantInvoice(`{"paid":true}`, 3)
		newer := `{"requestId":"req-4404","resource":"invoice-7","version":5,"state":{"paid":false}}`
		if got := w.post(attemptOf(newer, "A")); got.Result != "applied" || got.Found != 3 {
			t.Errorf("a greater version: %+v", got)
		}
		w.wantInvoice(`{"paid":false}`, 5)
	})
}

func TestARequestIDWithOtherContentIsAConflict(t *testing.T) { // P6
	inWorld(t, func(t *testing.T, w *world) {
		w.post(attemptOf(paid, "A"))
		w.writes()
		for _, other := range []string{strings.Replace(paid, "true", "false", 1), strings.Replace(paid, "3", "4", 1)} {
			if got := w.post(attemptOf(other, "A")); got.Status != http.StatusConflict || got.Type != "application/problem+json" || !strings.Contains(got.Detail, "nothing was changed") {
				t.Errorf("%s: %+v", other, got)
			}
		}
		if w.writes() != 0 {
			t.Error("a conflict wrote")
		}
		w.wantLog("level=ERROR", "class=RECEIPT_CONFLICT")
		w.wantInvoice(`{"paid":true}`, 3)
		// Another source, another resource: nobody's request but their own.
		a := attemptOf(strings.Replace(paid, "invoice-7", "invoice-8", 1), "A")
		if got := w.post(a); got.Result != "applied" {
			t.Errorf("the same request about another resource: %+v", got)
		}
		a = attemptOf(strings.Replace(paid, "true", "false", 1), "A")
		a.source, a.signature = "shop", projector.Sign([]byte("a new secret of shop"), time.Now(), []byte(a.body))
		if got := w.post(a); got.Result != "applied" {
			t.Errorf("the same request of another source: %+v", got)
		}
	})
}

func TestAWebhookThatIsNotSignedIsNotHeard(t *testing.T) { // P5
	inWorld(t, func(t *testing.T, w *world) {
		at := func(d time.Duration) func(*attempt) {
			return func(a *attempt) {
				then := time.Now().Add(d)
				a.timestamp, a.signature = strconv.FormatInt(then.Unix(), 10), projector.Sign(secret, then, []byte(a.body))
			}
		}
		w.asked()
		for says, change := range map[string]func(*attempt){
			"no signature": func(a *attempt) { a.signature = "" },
			"no timestamp": func(a *attempt) { a.timestamp = "" },
			"another secret": func(a *attempt) {
				a.signature = projector.Sign([]byte("another secret of 16"), time.Now(), []byte(a.body))
			},
			"another body": func(a *attempt) { a.body += " " },
			"another time": func(a *attempt) { a.timestamp = strconv.FormatInt(time.Now().Unix()+1, 10) },
			"a signature of the body alone": func(a *attempt) {
				mac := hmac.New(sha256.New, secret)
				mac.Write([]byte(a.body))
				a.signature = "v1=" + hex.EncodeToString(mac.Sum(nil))
			},
			"a signature of zeros":             func(a *attempt) { a.signature = "v1=" + strings.Repeat("00", 32) },
			"another version":                  func(a *attempt) { a.signature = "v0=" + strings.TrimPrefix(a.signature, "v1=") },
			"half a signature":                 func(a *attempt) { a.signature = a.signature[:35] },
			"an empty signature":               func(a *attempt) { a.signature = "v1=" },
			"a blank within a signature":       func(a *attempt) { a.signature = "v1= " + strings.TrimPrefix(a.signature, "v1=") },
			"a time that is no number":         func(a *attempt) { a.timestamp = "now" },
			"a time with a sign":               func(a *attempt) { a.timestamp = "+" + a.timestamp },
			"an old signature":                 at(-5*time.Minute - time.Second),
			"a signature of the future":        at(5*time.Minute + time.Second),
			"a source that nobody knows":       func(a *attempt) { a.source = "nobody" },
			"another source's secret":          func(a *attempt) { a.source = "shop" },
			"a body that is no JSON, unsigned": func(a *attempt) { a.body, a.signature = "hello", "v1=00" },
			"the fifth signature of a list":    func(a *attempt) { a.signature = strings.Repeat("v1=00 ", 4) + a.signature },
			"nobody's secret, which is zeros": func(a *attempt) {
				a.source, a.signature = "nobody", projector.Sign(make([]byte, 32), time.Now(), []byte(a.body))
			},
		} {
			a := attemptOf(paid, "A")
			change(&a)
			if got := w.post(a); got.Status != http.StatusUnauthorized || got.Type != "application/problem+json" {
				t.Errorf("%s: %+v, want 401", says, got)
			}
		}
		if n := w.asked(); n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
		for says, change := range map[string]func(*attempt){
			"almost old":       at(-5*time.Minute + time.Second),
			"almost too early": at(5*time.Minute - time.Second),
			"one of a list":    func(a *attempt) { a.signature = "v1=00 v2=x " + a.signature },
			"the old secret of a source that is changing it": func(a *attempt) {
				a.source, a.signature = "shop", projector.Sign([]byte("an old secret of shop"), time.Now(), []byte(a.body))
			},
		} {
			a := attemptOf(paid, "A")
			change(&a)
			if got := w.post(a); got.Status != http.StatusOK {
				t.Errorf("%s: %+v, want 200", says, got)
			}
		}
	})
}

func TestAWebhookThatCannotBeReadIsAnsweredWithItsCause(t *testing.T) { // P5
	inWorld(t, func(t *testing.T, w *world) {
		w.asked()
		for body, want := range map[string]int{
			"":                                       http.StatusBadRequest,
			"hello":                                  http.StatusBadRequest,
			strings.Replace(paid, "req-4401", "", 1): http.StatusBadRequest,
			strings.Replace(paid, ":3", ":-3", 1):    http.StatusBadRequest,
			strings.Replace(paid, "true", strings.Repeat("7", 5<<10), 1): http.StatusRequestEntityTooLarge,
		} {
			if got := w.post(attemptOf(body, "A")); got.Status != want || got.Detail == "" {
				t.Errorf("%.40q: %+v, want %d", body, got, want)
			}
		}
		for _, a := range []attempt{{method: http.MethodGet, path: "/webhooks/billing"}, {path: "/webhooks/"}, {path: "/webhooks/a/b"}} {
			if got := w.post(a); got.Status < 400 || got.Status >= 500 {
				t.Errorf("%s %s: %d", a.method, a.path, got.Status)
			}
		}
		if n := w.asked(); n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
	})
}

func TestASenderIsToldToComeAgainWhileNothingIsKnown(t *testing.T) { // P3
	inWorld(t, func(t *testing.T, w *world) {
		down := w.arm(control.Rule{Do: "answer", Status: http.StatusServiceUnavailable})
		start := time.Now()
		if got := w.post(attemptOf(paid, "A")); got.Status != http.StatusServiceUnavailable || got.Retry == "" {
			t.Errorf("a store that does not answer: %+v", got)
		}
		if took := time.Since(start); took > 31*time.Second {
			t.Errorf("the sender waited %v", took)
		}
		down()
		if got := w.post(attemptOf(paid, "B")); got.Result != "applied" {
			t.Errorf("and then: %+v", got)
		}
	})
}

// What was begun is finished, whoever still waits for it.
func TestAWebhookWhoseSenderHasGoneIsFinished(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.arm(control.Rule{Match: control.Match{Operation: "batch"}, Do: "delay", Delay: control.Duration(5 * time.Second)})
		ctx, gone := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, gone)
		a := attemptOf(paid, "A")
		a.ctx = ctx
		if got := w.post(a); got.Result != "applied" {
			t.Errorf("%+v", got)
		}
		w.wantInvoice(`{"paid":true}`, 3)
	})
}

// A sender's name for its attempt is kept for people: what they can read, and not too much.
func TestTheNameOfAnAttemptIsCut(t *testing.T) { // P4
	inWorld(t, func(t *testing.T, w *world) {
		w.post(attemptOf(paid, "d\n\x00é-"+strings.Repeat("x", 200)))
		r, err := w.db.Webhooks().Receipt(t.Context(), "billing:invoice-7", "webhook:billing:invoice-7:req-4401")
		if want := "d-" + strings.Repeat("x", 126); err != nil || r.Delivery != want {
			t.Errorf("kept as %q, %v, want %q", r.Delivery, err, want)
		}
	})
}

func TestNoMoreWebhooksAreHeardThanThereAreSlots(t *testing.T) { // P3
	inWorld(t, func(t *testing.T, w *world) {
		rule, err := w.hub.Arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "read"}, Do: "hold"})
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan told, 2)
		for _, request := range []string{"req-1", "req-2"} {
			a := attemptOf(strings.Replace(strings.Replace(paid, "req-4401", request, 1), "invoice-7", request, 1), "A")
			go func() { answers <- w.post(a) }()
		}
		synctest.Wait()
		if got := w.post(attemptOf(paid, "A")); got.Status != http.StatusServiceUnavailable || got.Retry == "" {
			t.Errorf("a third of two: %+v", got)
		}
		if err := w.hub.Release(rule, control.Release{Action: "go"}); err != nil {
			t.Fatal(err)
		}
		if err := w.hub.Disarm(rule); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := <-answers; got.Result != "applied" {
				t.Errorf("%+v", got)
			}
		}
	})
}

// From a shell:
// printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
func TestASignatureIsTheOneThatOpenSSLMakes(t *testing.T) {
	const want = "v1=f05f2539e3ae1c49aec5f8cfdad75ef6b06480b133973ffbb7ec9e18827af177"
	if got := projector.Sign(secret, time.Unix(1700000000, 0), []byte(`{"a":1}`)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
