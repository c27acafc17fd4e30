package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is one process. It is ready when it prints "ready"; before that it
// prints the addresses it listens on, as "name address".
type child struct {
	name      string
	cmd       *exec.Cmd
	logPath   string
	addresses map[string]string // complete once ready
	ended     chan struct{}     // closed when the process has ended and err is set
	err       error
}

// stopGrace is how long a child may take after SIGTERM before it is killed.
const stopGrace = 15 * time.Second

// start runs a program and waits until it is ready. Its log goes to a file of
// its name in dir.
func start(ctx context.Context, name, program, dir string, env []string, args ...string) (*child, error) {
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("start %s: %w (`make run` and `make demo` build it)", name, err)
	}
	c := &child{name: name, logPath: filepath.Join(dir, name+".log"), addresses: map[string]string{}, ended: make(chan struct{})}
	logFile, err := os.Create(c.logPath)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer logFile.Close() // the child has a descriptor of its own
	c.cmd = exec.Command(program, args...)
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stderr = logFile
	inGroupOfItsOwn(c.cmd) // Ctrl-C is for us: the order in which they stop is ours
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ready := make(chan struct{})
	go c.watch(stdout, ready)
	select {
	case <-ready:
		return c, nil
	case <-c.ended:
		return nil, fmt.Errorf("start %s: it ended before it was ready (%w); its log is %s and ends with:\n%s", name, c.err, c.logPath, c.lastLines())
	case <-ctx.Done():
		c.stop()
		return nil, fmt.Errorf("start %s: %w", name, context.Cause(ctx))
	}
}

// watch reads what the child prints until it ends. It is the only caller of Wait.
func (c *child) watch(stdout io.Reader, ready chan struct{}) {
	var once sync.Once
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if lines.Text() == "ready" {
			once.Do(func() { close(ready) })
			continue
		}
		select {
		case <-ready: // no more addresses: the map is the starter's now
		default:
			if name, address, ok := strings.Cut(lines.Text(), " "); ok {
				c.addresses[name] = address
			}
		}
	}
	_, _ = io.Copy(io.Discard, stdout) // after a line too long for the scanner
	c.err = c.cmd.Wait()
	if c.err == nil {
		c.err = errors.New("exit status 0")
	}
	close(c.ended)
}

// stop asks the child to end, and ends it if it does not.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		c.kill()
	}
}

// kill is SIGKILL: nothing of the child runs any more, not even a deferred call.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// killed reports whether a SIGKILL ended the child.
func (c *child) killed() bool {
	select {
	case <-c.ended:
		status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
		return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
	default:
		return false
	}
}

// lastLines is the end of the child's log, for an error message.
func (c *child) lastLines() string {
	text, err := os.ReadFile(c.logPath)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}
