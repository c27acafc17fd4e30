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

// The type of a task decides who does it, so two handlers of one type are a mistake,
// whichever of them is written in Go.
func TestATaskTypeHasOneHandler(t *testing.T) {
	a, b, nameless := declared(message.Declaration{Type: "a"}), declared(message.Declaration{Type: "b"}), declared(message.Declaration{})
	handlers := map[string]message.Handler{"a": a}
	if err := add(handlers, []message.Handler{b}); err != nil || len(handlers) != 2 {
		t.Errorf("another type: %v, %d handlers", err, len(handlers))
	}
	for name, h := range map[string]message.Handler{"a declared one": a, "one in Go": b, "one without a name": nameless} {
		if err := add(handlers, []message.Handler{h}); err == nil || len(handlers) != 2 {
			t.Errorf("%s: %v, %d handlers", name, err, len(handlers))
		}
	}
}
