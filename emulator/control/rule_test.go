package control

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestARuleFiresWhereItMatches(t *testing.T) {
	batch := Op{
		Service: "cosmos", Operation: "batch", Entity: "executions", Client: "orchestrator", Key: "82f3",
		Body: []byte(`[{"operationType":"Create","resourceBody":{"status":"RUNNING","n":1}},` +
			`{"operationType":"Create","resourceBody":{"status":"PENDING","a/b":{"~":true}}}]`),
	}
	for _, test := range []struct {
		name  string
		match Match
		op    Op
		want  bool
	}{
		{"nothing said matches anything", Match{}, claimWrite, true},
		{"all of it the same", Match{Service: "cosmos", Operation: "replace", Entity: "claims", Client: "worker-1", Key: "82f3"}, claimWrite, true},
		{"another service", Match{Service: "servicebus"}, claimWrite, false},
		{"another operation", Match{Operation: "create"}, claimWrite, false},
		{"another entity", Match{Entity: "executions"}, claimWrite, false},
		{"another client", Match{Client: "worker-2"}, claimWrite, false},
		{"another key", Match{Key: "82f4"}, claimWrite, false},
		{"a string in the body", Match{Body: map[string]any{"/status": "COMPLETED"}}, claimWrite, true},
		{"another string in the body", Match{Body: map[string]any{"/status": "FAILED"}}, claimWrite, false},
		{"a Go int equals a JSON number", Match{Body: map[string]any{"/fence": 1}}, claimWrite, true},
		{"every entry has to match", Match{Body: map[string]any{"/fence": 2, "/status": "COMPLETED"}}, claimWrite, false},
		{"a missing member is not null", Match{Body: map[string]any{"/result": nil}}, claimWrite, false},
		{"any element of a batch", Match{Body: map[string]any{"/*/resourceBody/status": "PENDING"}}, batch, true},
		{"no element of a batch", Match{Body: map[string]any{"/*/resourceBody/status": "COMPLETED"}}, batch, false},
		{"one element of a batch", Match{Body: map[string]any{"/1/resourceBody/status": "PENDING"}}, batch, true},
		{"the other element of a batch", Match{Body: map[string]any{"/0/resourceBody/status": "PENDING"}}, batch, false},
		{"an index beyond the end", Match{Body: map[string]any{"/2/resourceBody/status": "PENDING"}}, batch, false},
		{"an index with a leading zero", Match{Body: map[string]any{"/01/resourceBody/status": "PENDING"}}, batch, false},
		{"an index before the beginning", Match{Body: map[string]any{"/-1/resourceBody/status": "PENDING"}}, batch, false},
		{"an index that is none", Match{Body: map[string]any{"/x/resourceBody/status": "RUNNING"}}, batch, false},
		{"none of the members", Match{Body: map[string]any{"/0/resourceBody/*": 2}}, batch, false},
		{"any member", Match{Body: map[string]any{"/0/resourceBody/*": 1}}, batch, true},
		{"escaped segments", Match{Body: map[string]any{"/1/resourceBody/a~1b/~0": true}}, batch, true},
		{"the whole document", Match{Body: map[string]any{"": map[string]any{"id": "82f3", "status": "COMPLETED", "fence": 1}}}, claimWrite, true},
		{"a body that is not JSON", Match{Body: map[string]any{"/status": "COMPLETED"}}, Op{Body: []byte("{")}, false},
		{"no body", Match{Body: map[string]any{"/status": "COMPLETED"}}, Op{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := New()
			mustArm(t, h, Rule{Match: test.match, Do: "drop"})
			if got := h.Before(t.Context(), test.op).Kind == Drop; got != test.want {
				t.Errorf("fired: %v, want %v", got, test.want)
			}
			if h.After(t.Context(), test.op).Kind != Proceed {
				t.Error("a rule before apply fired after it")
			}
		})
	}
}

func TestADecisionSaysWhatTheRuleSays(t *testing.T) {
	for _, test := range []struct {
		rule Rule
		want Decision
	}{
		{Rule{Do: "drop"}, Decision{Kind: Drop}},
		{Rule{Do: "reset"}, Decision{Kind: Reset}},
		{Rule{Do: "silence"}, Decision{Kind: Silence}},
		{
			Rule{Do: "answer", Status: 429, Description: "slow down", RetryAfter: Duration(time.Second)},
			Decision{Kind: Answer, Status: 429, Description: "slow down", RetryAfter: time.Second},
		},
		{
			Rule{Do: "detach", Match: Match{Service: "servicebus"}, Condition: "amqp:link:detach-forced"},
			Decision{Kind: Detach, Condition: "amqp:link:detach-forced"},
		},
		{
			Rule{Do: "close", Match: Match{Service: "servicebus"}, Condition: "amqp:connection:forced", Description: "maintenance"},
			Decision{Kind: Close, Condition: "amqp:connection:forced", Description: "maintenance"},
		},
	} {
		t.Run(test.rule.Do, func(t *testing.T) {
			h := New()
			test.rule.When = "after"
			mustArm(t, h, test.rule)
			if got := h.After(t.Context(), Op{Service: "servicebus"}); got != test.want {
				t.Errorf("decided %+v, want %+v", got, test.want)
			}
		})
	}
}

// firings tells at which of n operations a rule fires.
func firings(t *testing.T, rule Rule, n int) string {
	t.Helper()
	h := New()
	rule.Do = "drop"
	mustArm(t, h, rule)
	var pattern strings.Builder
	for range n {
		if h.Before(t.Context(), claimWrite).Kind == Drop {
			pattern.WriteByte('x')
		} else {
			pattern.WriteByte('.')
		}
	}
	return pattern.String()
}

func TestARuleFiresAsOftenAsItSays(t *testing.T) {
	for _, test := range []struct {
		name string
		rule Rule
		want string
	}{
		{"at every one", Rule{}, "xxxxxx"},
		{"at the third only", Rule{Nth: 3}, "..x..."},
		{"twice at most", Rule{Times: 2}, "xx...."},
		{"always, by chance 1", Rule{Probability: 1, Seed: 7}, "xxxxxx"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := firings(t, test.rule, 6); got != test.want {
				t.Errorf("fired %s, want %s", got, test.want)
			}
		})
	}
}

func TestASeedDecidesAtWhichOperationsARuleFires(t *testing.T) { // H4
	const n = 400
	first := firings(t, Rule{Probability: 0.25, Seed: 1}, n)
	if again := firings(t, Rule{Probability: 0.25, Seed: 1}, n); again != first {
		t.Error("the same seed fired at other operations")
	}
	if other := firings(t, Rule{Probability: 0.25, Seed: 2}, n); other == first {
		t.Error("another seed fired at the same operations")
	}
	if fired := strings.Count(first, "x"); fired < 60 || fired > 140 {
		t.Errorf("fired at %d of %d, want about a quarter", fired, n)
	}
}

func TestARuleThatEndsTheAskingHidesTheOperationFromLaterOnes(t *testing.T) {
	h := New()
	mustArm(t, h, Rule{Name: "once", Do: "drop", Times: 1})
	mustArm(t, h, Rule{Name: "second", Do: "answer", Status: 500, Nth: 2})
	var got []Kind
	for range 3 {
		got = append(got, h.Before(t.Context(), claimWrite).Kind)
	}
	if got[0] != Drop || got[1] != Proceed || got[2] != Answer {
		t.Errorf("decided %v, want drop, proceed, answer", got)
	}
}

func TestEveryMistakeInARuleIsNamedAtOnce(t *testing.T) { // H7
	_, err := New().Arm(Rule{
		Name: "no spaces", When: "during", Do: "delay", Status: 99, Condition: "x", Late: true,
		Match: Match{Service: "redis", Operation: "get", Entity: "Claims", Body: map[string]any{
			"status": 1, "/a~2": 1, "/b~": 1, "/c": make(chan int),
		}},
		Nth: -1, Times: -1, Probability: 2,
	})
	if err == nil {
		t.Fatal("armed")
	}
	for _, want := range []string{
		`name "no spaces"`, `when "during"`, `delay 0s`, `status and retryAfter`, `condition and description`,
		`match.service "redis"`, `match.entity "Claims"`, `pointer "status" must be empty or begin with "/"`,
		`pointer "/a~2" has a "~"`, `pointer "/b~" has a "~"`, `the value at "/c" is not JSON`, `nth -1`, `times -1`, `probability 2`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in:\n%v", want, err)
		}
	}
}

func TestARuleThatCannotMeanWhatItSaysIsRefused(t *testing.T) { // H7
	for _, test := range []struct {
		name string
		rule Rule
		want string
	}{
		{"nothing to do", Rule{}, `do "": say`},
		{"an operation of another service", Rule{Do: "drop", Match: Match{Service: "cosmos", Operation: "send"}}, `match.operation "send"`},
		{"an operation that nobody has", Rule{Do: "drop", Match: Match{Operation: "poke"}}, `match.operation "poke"`},
		{"an answer of nothing", Rule{Do: "answer"}, "needs a status"},
		{"an answer of 100", Rule{Do: "answer", Status: 100}, "status 100"},
		{"a negative retryAfter", Rule{Do: "answer", Status: 429, RetryAfter: -1}, "retryAfter"},
		{"a detach over HTTP", Rule{Do: "detach", Condition: "x", Match: Match{Service: "cosmos"}}, `match.service "servicebus"`},
		{"a detach without its condition", Rule{Do: "detach", Match: Match{Service: "servicebus"}}, "condition"},
		{"a close without its condition", Rule{Do: "close", Match: Match{Service: "servicebus"}}, `like "amqp:connection:forced"`},
		{"a lock lost where none is needed", Rule{Do: "lose-lock", Match: Match{Service: "servicebus", Operation: "send"}}, "what needs a lock"},
		{"a lock lost after apply", Rule{Do: "lose-lock", When: "after", Match: Match{Service: "servicebus", Operation: "complete"}}, "has used its lock"},
		{"a delay on a hold", Rule{Do: "hold", Delay: 1}, `delay: means nothing with do "hold"`},
		{"late where nothing waits", Rule{Do: "drop", Late: true}, `late: means nothing with do "drop"`},
		{"late after apply", Rule{Do: "hold", When: "after", Late: true}, "late: means nothing after apply"},
		{"the nth, twice", Rule{Do: "drop", Nth: 2, Times: 2}, "nth and times"},
		{"the nth, by chance", Rule{Do: "drop", Nth: 2, Probability: 0.5}, "nth and probability"},
		{"a seed for nothing", Rule{Do: "drop", Seed: 3}, "seed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New().Arm(test.rule)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestRulesAreNamedOnce(t *testing.T) {
	h := New()
	mustArm(t, h, Rule{Name: "rule-1", Do: "drop"})
	if got := mustArm(t, h, Rule{Do: "drop"}); got != "rule-2" {
		t.Errorf("named %q, want rule-2", got)
	}
	if _, err := h.Arm(Rule{Name: "rule-1", Do: "drop"}); err == nil || !strings.Contains(err.Error(), `"rule-1" is taken`) {
		t.Errorf("a taken name: %v", err)
	}
	if err := h.Disarm("rule-1"); err != nil {
		t.Fatal(err)
	}
	if err := h.Disarm("rule-1"); !errors.Is(err, ErrNoRule) {
		t.Errorf("disarmed twice: %v, want ErrNoRule", err)
	}
	if err := h.Release("rule-1", Release{Action: "go"}); !errors.Is(err, ErrNoRule) {
		t.Errorf("released when disarmed: %v, want ErrNoRule", err)
	}
	if err := h.Release("rule-2", Release{Action: "go"}); !errors.Is(err, ErrNotReached) {
		t.Errorf("released when never reached: %v, want ErrNotReached", err)
	}
	for _, wrong := range []Release{{}, {Action: "stop"}, {Action: "answer"}, {Action: "go", Status: 200}} {
		if err := h.Release("rule-2", wrong); err == nil || errors.Is(err, ErrNotReached) {
			t.Errorf("release %+v: %v, want it refused for what it says", wrong, err)
		}
	}
}

func TestRulesAreBounded(t *testing.T) {
	h := New()
	for range rulesKept {
		mustArm(t, h, Rule{Do: "drop"})
	}
	if _, err := h.Arm(Rule{Do: "drop"}); err == nil || !strings.Contains(err.Error(), "disarm some") {
		t.Errorf("one too many: %v, want it refused", err)
	}
}

func TestConcernsSaysWhetherAnyRuleCouldMatchAnOperation(t *testing.T) {
	h := New()
	op := Op{Service: "servicebus", Operation: "send", Entity: "tasks", Client: "worker", Key: "1"}
	want := func(concerns bool, armed ...string) {
		t.Helper()
		if h.Concerns(op) != concerns {
			t.Errorf("Concerns is %v with %v", !concerns, armed)
		}
	}
	want(false)
	for _, m := range []Match{
		{Service: "cosmos"}, {Operation: "complete"}, {Entity: "other"}, {Client: "other"},
		{Service: "servicebus", Operation: "send", Entity: "tasks", Client: "worker", Key: "2"},
	} {
		mustArm(t, h, Rule{Match: m, Do: "drop"})
		want(false, "what is about something else")
	}
	for _, m := range []Match{
		{}, {Service: "servicebus"}, {Operation: "send"}, {Entity: "tasks"}, {Client: "worker"}, {Key: "1"},
		{Key: "1", Body: map[string]any{"/status": "done"}}, // nobody has read the body yet
	} {
		for _, when := range []string{"before", "after"} {
			name := mustArm(t, h, Rule{Match: m, When: when, Do: "drop"})
			want(true, name)
			if err := h.Disarm(name); err != nil {
				t.Fatal(err)
			}
			want(false, "what is disarmed")
		}
	}
}
