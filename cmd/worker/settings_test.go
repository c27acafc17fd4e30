package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"oneeffect/cmd/internal/process"
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
		"-challenger-margin=10ms":       "-challenger-margin",
		"-renewal=141s":                 "two renewals",
		"-store-timeout=60s":            "-store-timeout",
		"-busy-wait=1s":                 "-busy-wait",
		"-busy-wait=285s":               "must be shorter than -lock",
		"-publish-timeout=141s":         "half of -lock",
		"-max-attempts=9":               "-max-attempts",
		"-grace=24s":                    "-grace",
		"-owner-margin=-1m":             "-owner-margin",
		"-owner-margin=0s":              "-owner-margin",
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

func TestAHandlerMustFitTheWorkersDurations(t *testing.T) {
	fits := message.Declaration{Type: "t", Keyed: true, KeyWindow: 24 * time.Hour, Timeout: 20 * time.Second, BackoffMax: 5 * time.Minute}
	for _, test := range []struct {
		what   string
		change func(*message.Declaration)
		flags  []string
		want   string
	}{
		{"the defaults", func(*message.Declaration) {}, nil, ""},
		{"a call that outlives the lease", func(d *message.Declaration) { d.Timeout = 281 * time.Second }, nil, "-lease less -owner-margin"},
		{"a call that outlives the grace", func(d *message.Declaration) { d.Timeout = 66 * time.Second }, nil, "-grace leaves"},
		{"a key that is forgotten during the tries", func(d *message.Declaration) { d.KeyWindow = time.Hour }, nil, "second effect"},
		{"no key that could be forgotten", func(d *message.Declaration) { d.Keyed, d.KeyWindow = false, 0 }, nil, ""},
		{"a claim that is forgotten before its messages", func(*message.Declaration) {}, []string{"-keep=528h"}, "-keep"},
		{"a long backoff", func(d *message.Declaration) { d.BackoffMax = 3 * time.Hour }, nil, "lower -max-attempts"},
	} {
		s, err := parse(append([]string{"-id=w"}, test.flags...), emulator(), io.Discard)
		if err != nil {
			t.Fatalf("%s: %v", test.what, err)
		}
		d := fits
		test.change(&d)
		err = s.fits(d)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want an error about %q", test.what, err, test.want)
		}
	}
}
