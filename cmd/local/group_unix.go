//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// inGroupOfItsOwn keeps the terminal's Ctrl-C from reaching the child.
func inGroupOfItsOwn(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
