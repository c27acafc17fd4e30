package downstream

import (
	"net/http"
	"testing"
	"time"

	"oneeffect/internal/message"
)

func TestStatusRules(t *testing.T) {
	keyed := Request{Keyed: true}
	declaring := Request{Keyed: true, InProgress: 409}
	keyless := Request{}
	outcome := func(effect message.Effect, retry, free bool) message.Outcome {
		return message.Outcome{Effect: effect, Retry: retry, Free: free}
	}
	yes, no, unknown := message.EffectApplied, message.EffectNotApplied, message.EffectUnknown
	for _, c := range []struct {
		name     string
		declared Request
		status   []int
		replayed bool
		want     message.Outcome
	}{
		{"any 2xx is applied", keyed, []int{200, 201, 202, 204, 299}, false, outcome(yes, false, false)},
		{"a replayed 2xx is applied", keyed, []int{200}, true, outcome(yes, false, false)},
		{"a keyless 2xx is applied", keyless, []int{200, 201}, false, outcome(yes, false, false)},
		{"409 waits where it is declared", declaring, []int{409}, false, outcome(unknown, true, true)},
		{"409 is permanent where it is not", keyed, []int{409}, false, outcome(no, false, false)},
		{"422 is permanent", declaring, []int{422}, false, outcome(no, false, false)},
		{"425 and 429 were refused and wait", keyed, []int{425, 429}, false, outcome(no, true, true)},
		{"503 waits but nobody knows", keyed, []int{503}, false, outcome(unknown, true, true)},
		{"408 and other 5xx are asked again", keyed, []int{408, 500, 501, 502, 504, 599}, false, outcome(unknown, true, false)},
		{"a stored 5xx is final", keyed, []int{500, 503}, true, outcome(unknown, false, false)},
		{"other 4xx are permanent", keyed, []int{400, 401, 403, 404, 405, 410, 413, 415, 451}, false, outcome(no, false, false)},
		{"307 and 308 did nothing here", keyed, []int{307, 308}, false, outcome(no, false, false)},
		{"other redirects may have", keyed, []int{301, 302, 303}, false, outcome(unknown, false, false)},
		{"a status HTTP does not know is unknown", keyed, []int{101, 600, 999}, false, outcome(unknown, false, false)},
		{"keyless: refused is final", keyless, []int{400, 409, 422, 425, 429}, false, outcome(no, false, false)},
		{"keyless: unknown is final", keyless, []int{408, 500, 502, 503}, false, outcome(unknown, false, false)},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, status := range c.status {
				got := c.declared.outcome(c.declared.meaningOf(status, c.replayed), "")
				if got.Effect != c.want.Effect || got.Retry != c.want.Retry || got.Free != c.want.Free {
					t.Errorf("%d is %+v, want %+v", status, got, c.want)
				}
			}
		})
	}
}

func TestRetryAfterIsSecondsOrADateOfTheSameClock(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"0", "", 0},
		{"120", "", 2 * time.Minute},
		{" 7 ", "", 7 * time.Second},
		{"1.5", "", 2 * time.Second},
		{"-5", "", 0},
		{"NaN", "", 0},
		{"99999999999999999999999", "", longestAfter},
		{"18446744073709551615", "", longestAfter},
		{"Inf", "", longestAfter},
		{"soon", "", 0},
		{"Mon, 30 Nov 2026 12:00:30 GMT", "", 30 * time.Second},
		{"Mon, 30 Nov 2026 11:00:00 GMT", "", 0},
		{"Mon, 30 Nov 2026 09:00:10 GMT", "Mon, 30 Nov 2026 09:00:00 GMT", 10 * time.Second}, // a server three hours behind
		{"Fri, 30 Nov 2096 12:00:00 GMT", "", longestAfter},
	} {
		header := http.Header{}
		header.Set("Retry-After", c.after)
		header.Set("Date", c.date)
		if got := retryAfter(header, now); got != c.want {
			t.Errorf("Retry-After %q with Date %q is %v, want %v", c.after, c.date, got, c.want)
		}
	}
}
