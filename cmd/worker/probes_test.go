package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oneeffect/cmd/internal/process"
)

func TestAWorkerWithoutBrokerAndStoreLivesAndIsNotReadyAndEndsWell(t *testing.T) {
	file := filepath.Join(t.TempDir(), "handlers.yaml")
	if err := os.WriteFile(file, []byte(shortHandlers), 0o600); err != nil {
		t.Fatal(err)
	}
	env := process.Environment{
		"SERVICEBUS_CONNECTION_STRING=Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true",
		"COSMOS_KEY=a2V5", "CRM_URL=http://127.0.0.1:1", "PRINT_URL=http://127.0.0.1:1",
	}
	ctx, end := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, append([]string{"-id=w", "-cosmos-endpoint=http://127.0.0.1:1", "-handlers=" + file}, short...), env, writer, io.Discard)
		writer.Close()
	}()
	var address string
	for lines := bufio.NewScanner(reader); lines.Scan() && lines.Text() != "ready"; {
		address = strings.TrimPrefix(lines.Text(), "probes ")
	}
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/debug/pprof/": http.StatusNotFound} {
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
	end()
	if err := <-ended; err != nil {
		t.Errorf("its end: %v", err)
	}
}
