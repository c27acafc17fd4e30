package main

import (
	"io"
	"strings"
	"testing"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/horizon"
)

// environment is that of an orchestrator whose broker and store are not there.
var environment = process.Environment{
	"SERVICEBUS_CONNECTION_STRING=Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true",
	"COSMOS_KEY=a2V5",
	"ONEEFFECT_ORCHESTRATOR_COSMOS_ENDPOINT=http://127.0.0.1:1",
}

func TestSettingsThatContradictEachOtherAreRefused(t *testing.T) {
	if _, err := parse([]string{"-id=o"}, environment, io.Discard); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for flag, want := range map[string]string{
		"-listen=0.0.0.0:8080":           "-oidc-issuer and -oidc-audience",
		"-listen=[::]:8080":              "loopback",
		"-listen=example:8080":           "loopback",
		"-listen=8080":                   "host:port",
		"-oidc-issuer=https://i.example": "-oidc-audience",
		"-oidc-audience=a":               "-oidc-issuer",
		"-slots=0":                       "-slots",
		"-send-timeout=30s":              "H17: -send-timeout 30s must be less than -relay-age 30s",
		"-grace=25s":                     "H23: -store-timeout 10s + -settle-timeout 10s + 5s = 25s must be less than -grace 25s",
		"-relay-period=0s":               "-relay-period",
		"-max-message=0":                 "-max-message",
		"-lock=0s":                       "-lock",
		"-lock=301s":                     "H1: -lock 5m1s must be at most 5m",
		"-send-timeout=-1s":              "-send-timeout",
		"-settle-timeout=0s":             "-settle-timeout",
		"-store-timeout=0s":              "-store-timeout",
		"-reconcile-period=16m":          "H19: -reconcile-period 16m must be at most -reconcile-age 15m",
		"-reconcile-age=0s":              "-reconcile-age",
		"-challenger-margin=-1s":         "-challenger-margin",
		"-lease=1500ms":                  "-lease",
		"-keep=20m":                      "H20",
		"-id=a-name-that-is-too-long-x":  "-id",
	} {
		_, err := parse([]string{"-id=o", flag}, environment, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", flag, err, want)
		}
	}
}

// What the flags default to is what is proposed to deployments.
func TestTheFlagsDefaultToWhatIsProposed(t *testing.T) {
	s, err := parse([]string{"-id=o", "-cosmos-endpoint=https://account.documents.azure.com"}, environment, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, difference := range horizon.Differences(s.horizon(), horizon.Defaults()) {
		t.Error(difference)
	}
}

func TestAPortInUseIsNamedWithItsRemedy(t *testing.T) {
	first := start(t, nil, "-listen=127.0.0.1:0")
	err := run(t.Context(), []string{"-id=o", "-listen=" + first.address, "-store-timeout=200ms", "-settle-timeout=200ms"}, environment, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "-listen") {
		t.Errorf("second on %s: %v, want an error about -listen", first.address, err)
	}
	first.stop()
}
