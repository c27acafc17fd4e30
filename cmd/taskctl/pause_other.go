//go:build !unix

package main

import (
	"errors"
	"syscall"
)

const signalContinue = syscall.Signal(0)

// standStill cannot be done here, and says so.
func standStill(int) error {
	return errors.New("this system cannot stop a process and let it go on: run the drill on Linux or macOS")
}
