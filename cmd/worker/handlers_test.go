package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oneeffect/internal/downstream"
	"oneeffect/internal/message"
)

// A handler that signs in needs an identity, and a worker without one does not start.
func TestAHandlerThatSignsInHasTheProcessesIdentity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "handlers.yaml")
	const handlers = `
- type: t
  request: { url: "https://crm.example/t" }
  idempotency: { honoured: true }
  auth: entra:api://crm/.default
`
	if err := os.WriteFile(file, []byte(handlers), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := parse([]string{"-id=w", "-handlers=" + file}, emulator(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	read := func() error {
		_, err := readHandlers(s, emulator(), downstream.Options{UserAgent: s.ID, Getenv: emulator().Get})
		return err
	}
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
	if err := read(); err != nil {
		t.Error(err)
	}
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "")
	if err := read(); err == nil || !strings.Contains(err.Error(), "AZURE_TOKEN_CREDENTIALS") || !strings.Contains(err.Error(), "t signs in") {
		t.Errorf("without an identity: %v", err)
	}
}

// A file names the handlers that are written in Go, and there is one of each.
func TestAHandlerInGoIsTheOneThatTheFileNames(t *testing.T) {
	of := func(types ...string) (written []message.Handler) {
		for _, taskType := range types {
			written = append(written, declared(message.Declaration{Type: taskType}))
		}
		return written
	}
	named := downstream.Declared{Type: "a", Go: true}
	h, err := handler(named, of("b", "a"), downstream.Options{})
	if err != nil || h.Declaration().Type != "a" {
		t.Errorf("the one that is named: %v, %v", h, err)
	}
	for name, written := range map[string][]message.Handler{"none": nil, "another": of("b"), "two": of("a", "a")} {
		if _, err := handler(named, written, downstream.Options{}); err == nil || !strings.Contains(err.Error(), "own.go") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
