//go:build unix

package main

import (
	"errors"
	"fmt"
	"syscall"
)

// signalContinue wakes what standStill has stopped.
const signalContinue = syscall.SIGCONT

// standStill stops a child of this process by SIGSTOP, and returns when it stands still: the
// signal takes effect when the child is given a processor.
func standStill(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop the worker: %w", err)
	}
	var status syscall.WaitStatus
	_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
	for errors.Is(err, syscall.EINTR) {
		_, err = syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
	}
	if err == nil && !status.Stopped() {
		err = errors.New("it ended instead")
	}
	if err != nil {
		return fmt.Errorf("stop the worker: %w", err)
	}
	return nil
}
