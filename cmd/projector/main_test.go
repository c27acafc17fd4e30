package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/horizon"
)

// environment is that of a projector whose broker and store are not there.
var environment = process.Environment{
	"SERVICEBUS_CONNECTION_STRING=Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true",
	"COSMOS_KEY=a2V5",
	"ONEEFFECT_PROJECTOR_COSMOS_ENDPOINT=http://127.0.0.1:1",
}

func TestSettingsThatContradictEachOtherAreRefused(t *testing.T) {
	if _, err := parse([]string{"-id=p", "-listen=0.0.0.0:8083"}, environment, io.Discard); err != nil {
		t.Errorf("the defaults, offered to a network: %v", err) // webhooks are signed
	}
	for flag, want := range map[string]string{
		"-listen=8083":                  "host:port",
		"-slots=0":                      "-slots",
		"-webhook-slots=0":              "-webhook-slots",
		"-webhook-body=0":               "-webhook-body",
		"-webhook-body=2097152":         "-webhook-body 2097152: at most 1048576",
		"-grace=25s":                    "H23: -store-timeout 10s + -settle-timeout 10s + 5s = 25s must be less than -grace 25s",
		"-lock=301s":                    "H1: -lock 5m1s must be at most 5m",
		"-lock=0s":                      "-lock",
		"-settle-timeout=0s":            "-settle-timeout",
		"-store-timeout=0s":             "-store-timeout",
		"-keep-receipts=34d":            "-keep-receipts",
		"-keep-receipts=816h":           "H22: -keep-receipts 816h must be at least -reservation-ttl 336h + -reservation-replay-age 504h = 840h",
		"-reservation-ttl=0s":           "-reservation-ttl",
		"-reservation-replay-age=-1s":   "-reservation-replay-age",
		"-webhook-retry=1440h":          "H22: -webhook-retry 1440h must be less than -keep-receipts 1440h",
		"-id=a-name-that-is-too-long-x": "-id",
	} {
		_, err := parse([]string{"-id=p", flag}, environment, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", flag, err, want)
		}
	}
}

// What the flags default to is what is proposed to deployments.
func TestTheFlagsDefaultToWhatIsProposed(t *testing.T) {
	s, err := parse([]string{"-id=p"}, environment, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, difference := range horizon.Differences(s.horizon(), horizon.Defaults()) {
		t.Error(difference)
	}
}

func TestSecretsNameTheirSourceAndAreNeverSaid(t *testing.T) {
	const good = "0123456789abcdef"
	s, err := parse([]string{"-id=p"}, append(environment, "WEBHOOK_SECRET_BILLING="+good, "WEBHOOK_SECRET_BILLING_EU="+good+"1 "+good+"2", "WEBHOOK_SECRET_NOT=", "WEBHOOK_SECRET_BLANK= "), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.secrets) != 2 || string(s.secrets["billing"][0]) != good || len(s.secrets["billing-eu"]) != 2 || string(s.secrets["billing-eu"][1]) != good+"2" {
		t.Errorf("sources: %d, secrets of billing-eu: %d", len(s.secrets), len(s.secrets["billing-eu"]))
	}
	for variable, want := range map[string]string{
		"WEBHOOK_SECRET_=" + good:               "WEBHOOK_SECRET_ names no source",
		"WEBHOOK_SECRET_A__B=" + good:           "WEBHOOK_SECRET_A__B names no source",
		"WEBHOOK_SECRET_A.B=" + good:            "WEBHOOK_SECRET_A.B names no source",
		"WEBHOOK_SECRET_A=hunter2":              "a secret of 7 bytes: give at least 16",
		"WEBHOOK_SECRET_A=" + good + " hunter2": "a secret of 7 bytes",
	} {
		_, err := parse([]string{"-id=p"}, append(environment, variable), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want an error about %s", variable, err, want)
		}
	}
}

// running is a projector whose broker and store are not there, and its address.
func running(t *testing.T) (address string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-id=p", "-listen=127.0.0.1:0", "-store-timeout=200ms", "-settle-timeout=200ms"}, environment, writer, io.Discard)
		writer.Close()
	}()
	lines := bufio.NewScanner(reader)
	for lines.Scan() && lines.Text() != "ready" {
		address = strings.TrimPrefix(lines.Text(), "http ")
	}
	return address, func() error {
		cancel()
		return <-ended
	}
}

func TestAProjectorWithoutItsStoreLivesAndIsNotReadyAndEndsWell(t *testing.T) {
	address, stop := running(t)
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/webhooks/nobody": http.StatusMethodNotAllowed, "/": http.StatusNotFound} {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("GET %s: %d, want %d", path, answer.StatusCode, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Errorf("its end: %v", err)
	}
}

func TestAPortInUseIsNamedWithItsRemedy(t *testing.T) {
	address, stop := running(t)
	err := run(t.Context(), []string{"-id=p", "-listen=" + address, "-store-timeout=200ms", "-settle-timeout=200ms"}, environment, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "-listen") {
		t.Errorf("second on %s: %v, want an error about -listen", address, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
