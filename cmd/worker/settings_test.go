package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/downstream"
	"oneeffect/internal/horizon"
	"oneeffect/internal/message"
)

// emulator is the environment of a worker beside the emulators.
func emulator(more ...string) process.Environment {
	return append(process.Environment{
		"SERVICEBUS_CONNECTION_STRING=Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true",
		"COSMOS_KEY=a2V5",
		"ONEEFFECT_WORKER_COSMOS_ENDPOINT=http://127.0.0.1:8081",
	}, more...)
}

func TestTheDefaultsAreCoherent(t *testing.T) {
	s, err := parse([]string{"-id=w"}, emulator(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.renewal != 100*time.Second {
		t.Errorf("renewal %v, want a third of the lease", s.renewal)
	}
}

func TestEachRelationRefusesWhatBreaksItAlone(t *testing.T) {
	for flag, want := range map[string]string{
		"-slots=0":                      "-slots",
		"-lease=301500ms":               "whole seconds",
		"-challenger-margin=10ms":       "H2: -challenger-margin 10ms",
		"-renewal=141s":                 "H4: 2 × -renewal 2m21s",
		"-store-timeout=60s":            "H5: -store-timeout 1m",
		"-busy-wait=1s":                 "H7: -busy-wait 1s",
		"-busy-wait=285s":               "must be less than -lock 5m",
		"-publish-timeout=141s":         "half of -lock 5m",
		"-max-attempts=9":               "H10: -max-attempts 9",
		"-grace=25s":                    "must be less than -grace 25s",
		"-lock=301s":                    "H1: -lock 5m1s",
		"-owner-margin=-1m":             "-owner-margin",
		"-owner-margin=0s":              "H3: -owner-margin 0s",
		"-renewal=-1s":                  "-renewal",
		"-store-timeout=0s":             "-store-timeout",
		"-settle-timeout=-1s":           "-settle-timeout",
		"-publish-timeout=0s":           "-publish-timeout",
		"-key-margin=-1m":               "-key-margin",
		"extra":                         `"extra" is not a flag`,
		"-id=a-name-of-25-characters-x": "-id",
	} {
		_, err := parse([]string{"-id=w", flag}, emulator(), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", flag, err, want)
		}
	}
}

func TestAVariableIsAFlagAndAFlagWins(t *testing.T) {
	env := emulator("ONEEFFECT_WORKER_SLOTS=3", "ONEEFFECT_WORKER_MAX_ATTEMPTS=5", "ONEEFFECT_ORCHESTRATOR_LISTEN=x")
	s, err := parse([]string{"-id=w", "-max-attempts=6"}, env, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.slots != 3 || s.maxAttempts != 6 {
		t.Errorf("slots %d, max attempts %d, want 3 and 6", s.slots, s.maxAttempts)
	}
	for variable, want := range map[string]string{
		"ONEEFFECT_WORKER_SLOTS=many": `ONEEFFECT_WORKER_SLOTS="many"`,
		"ONEEFFECT_WORKER_SLOT=3":     "ONEEFFECT_WORKER_SLOT is no setting",
		"ONEEFFECT_SLOTS=3":           "for example ONEEFFECT_WORKER_LOG_LEVEL",
	} {
		if _, err := parse([]string{"-id=w"}, emulator(variable), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %s", variable, err, want)
		}
	}
}

func TestAllMistakesAreSaidAtOnce(t *testing.T) {
	_, err := parse([]string{"-id=", "-slots=0"}, nil, io.Discard)
	for _, want := range []string{"-id", "SERVICEBUS_CONNECTION_STRING", "-cosmos-endpoint", "-slots"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	var usage strings.Builder
	if _, err := parse([]string{"-nonsense"}, emulator(), &usage); err == nil || !strings.Contains(usage.String(), "-lease") {
		t.Errorf("an unknown flag: %v, usage %q", err, usage.String())
	}
}

// declared is a handler that only declares.
type declared message.Declaration

func (d declared) Declaration() message.Declaration                 { return message.Declaration(d) }
func (declared) Call(context.Context, message.Call) message.Outcome { return message.Outcome{} }

func TestAHandlerMustFitTheWorkersDurations(t *testing.T) {
	fits := message.Declaration{Type: "t", Keyed: true, KeyWindow: 24 * time.Hour, Timeout: 20 * time.Second, Attempts: 8, BackoffMax: 5 * time.Minute}
	for _, test := range []struct {
		what   string
		change func(*message.Declaration)
		flags  []string
		want   string
	}{
		{"the defaults", func(*message.Declaration) {}, nil, ""},
		{"a call that outlives the lease", func(d *message.Declaration) { d.Timeout = 281 * time.Second }, nil, "H6: t request.timeout 4m41s + -store-timeout 10s = 4m51s must be at most -lease 5m less -owner-margin 10s"},
		{"a call that outlives the grace", func(d *message.Declaration) { d.Timeout = 66 * time.Second }, nil, "H23: t request.timeout 1m6s"},
		{"a call without a key whose end outlives the grace", func(d *message.Declaration) { d.Keyed, d.Timeout = false, 46*time.Second }, nil, "every deploy makes dead letters"},
		{"a key that is forgotten during the tries", func(d *message.Declaration) { d.KeyWindow = time.Hour }, nil, "H13: the longest story of t 1h32m40s must be at most t idempotency.window 1h less -key-margin 15m"},
		{"no key that could be forgotten", func(d *message.Declaration) { d.Keyed, d.KeyWindow = false, 0 }, nil, ""},
		{"a claim that is forgotten before its messages", func(*message.Declaration) {}, []string{"-keep=528h"}, "H11: -keep 528h"},
		{"a long backoff", func(d *message.Declaration) { d.BackoffMax = 3 * time.Hour }, nil, "lower -max-attempts, t retry.backoff"},
		{"many answers that say nothing", func(d *message.Declaration) { d.Attempts = 18 }, nil, "H26: t retry.attempts 18"},
	} {
		s, err := parse(append([]string{"-id=w"}, test.flags...), emulator(), io.Discard)
		if err != nil {
			t.Fatalf("%s: %v", test.what, err)
		}
		d := fits
		test.change(&d)
		err = s.fit(t.Context(), map[string]message.Handler{"t": declared(d)}, slog.New(slog.DiscardHandler))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want an error about %q", test.what, err, test.want)
		}
	}
}

// What the flags default to is what is proposed to deployments.
func TestTheFlagsDefaultToWhatIsProposed(t *testing.T) {
	s, err := parse([]string{"-id=w"}, append(emulator(), "ONEEFFECT_WORKER_COSMOS_ENDPOINT=https://a.documents.azure.com"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	const file = `
- type: keyed
  request: { url: "http://a/t" }
  idempotency: { honoured: true }
- type: keyless
  request: { url: "http://a/t" }
  idempotency: { honoured: false }
`
	handlers, err := downstream.ReadHandlers(strings.NewReader(file), emulator().Get)
	if err != nil {
		t.Fatal(err)
	}
	var declared []message.Declaration
	for _, h := range handlers {
		made, err := h.Handler(downstream.Options{})
		if err != nil {
			t.Fatal(err)
		}
		declared = append(declared, made.Declaration())
	}
	for _, difference := range horizon.Differences(s.horizon(declared), horizon.Defaults()) {
		t.Error(difference)
	}
}

// The clocks of a store that is one process on this machine cannot differ.
func TestAStoreElsewhereIsAllowedSkew(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://127.0.0.1:8081": "", "https://localhost:8081/": "", "http://[::1]:8081": "",
		"https://a.documents.azure.com:443/": "H2: -challenger-margin 4s must be at least 1s + the skew of the store's clocks 4s = 5s",
		"http://cosmos:8081":                 "H2",
	} {
		_, err := parse([]string{"-id=w", "-challenger-margin=4s", "-cosmos-endpoint=" + endpoint}, emulator(), io.Discard)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", endpoint, err, want)
		}
	}
}

func TestAWorkerSaysWhatItCannotCheck(t *testing.T) {
	s, err := parse([]string{"-id=w"}, emulator(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := s.fit(t.Context(), nil, slog.New(slog.NewTextHandler(&out, nil))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"not checked here", "H12", "H13", "H28"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s does not say %s", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "H4 ") {
		t.Errorf("%s says that H4 is not checked", out.String())
	}
}

// A claim keeps a result for each step, and has to fit into one item of the store.
func TestAHandlerHasNoMoreStepsThanAClaimHasRoomFor(t *testing.T) { // HORIZON H27
	s, err := parse([]string{"-id=w"}, emulator(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for steps, fits := range map[int]bool{8: true, 200: false} {
		var all []message.Step
		for n := range steps {
			all = append(all, message.Step{Name: fmt.Sprint(n), Timeout: time.Millisecond, Keyed: true, KeyWindow: 100 * 24 * time.Hour})
		}
		d, err := message.Stepwise("t", all...)
		if err != nil {
			t.Fatal(err)
		}
		d.Attempts, d.BackoffMin, d.BackoffMax = 8, time.Second, time.Minute
		err = s.fit(t.Context(), map[string]message.Handler{"t": declared(d)}, slog.New(slog.DiscardHandler))
		if said := err != nil && strings.Contains(err.Error(), "H27: "); said == fits {
			t.Errorf("%d steps: %v", steps, err)
		}
	}
}

// A handler in Go may fill in its declaration by hand.
func TestAHandlerPromisesNoMoreThanItsSteps(t *testing.T) { // W1
	s, err := parse([]string{"-id=w"}, emulator(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	keyed := message.Step{Name: "mail", Keyed: true, KeyWindow: 24 * time.Hour, Timeout: time.Second}
	keyless := message.Step{Name: "letter", Timeout: time.Second}
	for want, d := range map[string]message.Declaration{
		"promises more than its steps": {Keyed: true, Steps: []message.Step{keyed, keyless}, KeyWindow: 24 * time.Hour, Timeout: time.Second},
		"promises more":                {Keyed: true, Steps: []message.Step{keyed}, KeyWindow: 48 * time.Hour, Timeout: time.Second},
		"honour no key":                {Steps: []message.Step{keyless, {Name: "label"}}, Timeout: time.Second},
	} {
		d.Type, d.Attempts, d.BackoffMin, d.BackoffMax = "t", 8, time.Second, time.Minute
		err := s.fit(t.Context(), map[string]message.Handler{"t": declared(d)}, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it refused: %s", err, want)
		}
	}
}
