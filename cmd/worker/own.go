package main

import (
	"oneeffect/cmd/internal/process"
	"oneeffect/internal/message"
)

// own are the handlers that are written in Go; README.md has a complete one. The
// file of handlers says which of them a worker uses (go: true), and declares what is
// only an HTTP call.
func own(process.Environment) []message.Handler { return nil }
