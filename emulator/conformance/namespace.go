package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// namespace makes network namespaces: loopback is all that exists there.
type namespace struct {
	unshare []string // the command that enters one, without what runs in it
}

// findNamespace tries what this machine allows.
func findNamespace(ctx context.Context) (namespace, error) {
	unshare, err := find("unshare", "util-linux")
	if err != nil {
		return namespace{}, err
	}
	if _, err := find("ip", "iproute2"); err != nil {
		return namespace{}, err
	}
	var said []byte
	for _, options := range []string{"-rn", "-n"} { // as nobody in particular, or as root without user namespaces
		said, err = exec.CommandContext(ctx, unshare, options, "true").CombinedOutput()
		if err == nil {
			return namespace{unshare: []string{unshare, options}}, nil
		}
	}
	return namespace{}, fmt.Errorf("this machine refuses a private network namespace: %w: %s\n"+
		"on Ubuntu: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0; in a container: --privileged",
		err, strings.TrimSpace(string(said)))
}

// find looks for a program, also where the PATH of ordinary users does not lead.
func find(name, pkg string) (string, error) {
	for _, candidate := range []string{name, "/usr/sbin/" + name, "/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is missing (Debian: apt-get install %s)", name, pkg)
}

// run runs this program again in a new namespace and waits for it. It ends by
// SIGTERM when the context does, and when this process is gone: its standard
// input is a pipe that closes then.
func (n namespace) run(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	command := append(append([]string{}, n.unshare...), self)
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], args...)...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // unshare has become the program
	cmd.WaitDelay = 20 * time.Second
	life, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer life.Close()
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 && ctx.Err() == nil {
		return errFailed // and it has said why
	}
	if err != nil {
		return fmt.Errorf("run in a private network namespace: %w", err)
	}
	return nil
}

// settle makes the namespace's loopback work, and returns a context that ends
// when the process outside is gone.
func settle(ctx context.Context) (context.Context, error) {
	ip, err := find("ip", "iproute2")
	if err != nil {
		return nil, err
	}
	if said, err := exec.CommandContext(ctx, ip, "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("start the loopback of the namespace: %w: %s", err, strings.TrimSpace(string(said)))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with the process: its owner is the pipe
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel(errors.New("the process outside the namespace is gone"))
	}()
	return ctx, nil
}
