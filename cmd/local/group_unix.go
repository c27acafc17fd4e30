//go:build unix

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// inGroupOfItsOwn keeps the terminal's Ctrl-C from reaching the child.
func inGroupOfItsOwn(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endsWithUs(cmd.SysProcAttr)
}

// stopped stops the child by SIGSTOP and returns when it stands still: the signal
// is sent at once and takes effect when the child is given a processor, and until
// then it may do much. Whoever waits for the child's end is not disturbed by this.
func (c *child) stopped() error {
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(c.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("stop %s: %w", c.name, err)
		case !status.Stopped():
			return fmt.Errorf("stop %s: it ended instead", c.name)
		default:
			return nil
		}
	}
}
