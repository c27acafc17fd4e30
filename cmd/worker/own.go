package main

import (
	"oneeffect/cmd/internal/process"
	"oneeffect/internal/message"
)

// own are the handlers that are written in Go; README.md has a complete one. What
// is only an HTTP call is declared in handlers.yaml instead.
func own(process.Environment) []message.Handler { return nil }
