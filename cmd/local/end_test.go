package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// standing is `local up` as a process, with everything that it has started.
type standing struct {
	t     *testing.T
	dir   string
	cmd   *exec.Cmd
	lines *bufio.Scanner
	ended chan error // of each child: nobody holds its log any more
}

// children of `local up`, by their logs.
var children = []string{"emulator", "orchestrator", "worker-1", "worker-2", "projector"}

// stand starts it. The logs are pipes: the end of one is the end of who writes it.
func stand(t *testing.T) *standing {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("on %s nothing ends a process whose parent is gone", runtime.GOOS)
	}
	s := &standing{t: t, dir: t.TempDir(), ended: make(chan error, len(children))}
	for _, name := range children {
		path := filepath.Join(s.dir, name+".log")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		go func() {
			log, err := os.Open(path) // when somebody writes it
			if err == nil {
				_, err = io.Copy(io.Discard, log)
				err = errors.Join(err, log.Close())
			}
			s.ended <- err
		}()
	}
	bin := programs(t)
	s.cmd = exec.Command(filepath.Join(bin, "local"), "up", "-dir="+s.dir, "-data=", "-evidence=", "-handlers="+filepath.Join("..", "..", "handlers.yaml"),
		"-amqp="+anywhere, "-cosmos="+anywhere, "-downstream="+anywhere, "-control="+anywhere, "-api="+anywhere, "-projector="+anywhere)
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // also of what should not be there any more
		_ = s.cmd.Process.Kill()
		for _, pid := range s.pids("") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	s.lines = bufio.NewScanner(out)
	s.until("everything runs")
	return s
}

// until reads what it prints.
func (s *standing) until(prefix string) {
	s.t.Helper()
	for s.lines.Scan() {
		if strings.HasPrefix(s.lines.Text(), prefix) {
			return
		}
	}
	s.t.Fatalf("it ended without %q", prefix)
}

func (s *standing) signal(how os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(how); err != nil {
		s.t.Fatal(err)
	}
}

// pids are the processes that write the log of a child, or that of any.
func (s *standing) pids(child string) (all []int) {
	for _, found := range running(s.t, filepath.Join(s.dir, child)) {
		process, _, _ := strings.Cut(found, " ")
		if pid, err := strconv.Atoi(filepath.Base(process)); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// wantEnded waits for the process itself, which that signal has ended, and for its children.
func (s *standing) wantEnded(by syscall.Signal) {
	s.t.Helper()
	began := time.Now()
	_ = s.cmd.Wait()
	if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != by {
		s.t.Errorf("it ended with %v after %v, want %v at once", s.cmd.ProcessState, time.Since(began), by)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for range children {
		select {
		case err := <-s.ended:
			if err != nil {
				s.t.Error(err)
			}
		case <-ctx.Done():
			s.t.Fatalf("still there: %q", running(s.t, s.dir))
		}
	}
}

// Nobody is there to stop them any more, and they are gone all the same.
func TestWhoeverKillsItLeavesNoProcess(t *testing.T) {
	t.Parallel()
	s := stand(t)
	if n := len(s.pids("")); n != len(children) {
		t.Fatalf("%d processes run, want %d", n, len(children))
	}
	s.signal(syscall.SIGKILL)
	s.wantEnded(syscall.SIGKILL)
}

// A worker that does not stop is waited for, unless whoever waits has had enough.
func TestASecondInterruptEndsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	s := stand(t)
	for _, pid := range s.pids("worker-1") {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	s.signal(os.Interrupt)
	s.until("stopping")
	s.signal(os.Interrupt)
	s.wantEnded(syscall.SIGINT)
}
