package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long the emulator may take to be ready, and to end.
const patience = 20 * time.Second

// server is one process of the emulator, or one that answers in its place.
type server struct {
	amqp, cosmos, control string // addresses

	process *os.Process
	end     context.CancelFunc
	stderr  tail
	ended   chan struct{} // closed when the process has ended
	err     error         // what it has ended with
}

// start returns when the emulator is ready. The name is that of its profile.
func (b *bench) start(ctx context.Context, name string, flags ...string) (*server, error) {
	flags = append(flags, "-config", b.config,
		"-amqp", "127.0.0.1:0", "-cosmos", "127.0.0.1:0", "-downstream", "127.0.0.1:0", "-control", "127.0.0.1:0")
	if b.Profile != "" {
		flags = append(flags, "-cpuprofile", filepath.Join(b.Profile, name+"-server.pprof"))
	}
	return launch(ctx, b.Emulator, flags...)
}

// launch starts a program that says its addresses and that it is ready.
func launch(ctx context.Context, program string, args ...string) (*server, error) {
	ctx, end := context.WithCancel(ctx)
	s := &server{end: end, ended: make(chan struct{})}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	cmd.Stderr = &s.stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("start the emulator: %w", err)
	}
	s.process = cmd.Process
	ready := make(chan bool, 1)
	go func() { // ends with the process, which stop waits for
		defer close(s.ended)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			switch name, address, _ := strings.Cut(lines.Text(), " "); name {
			case "amqp":
				s.amqp = address
			case "cosmos":
				s.cosmos = address
			case "control":
				s.control = address
			case "ready":
				ready <- true
			}
		}
		close(ready)
		s.err = cmd.Wait()
	}()
	late := time.AfterFunc(patience, end)
	defer late.Stop()
	if <-ready {
		return s, nil
	}
	end()
	<-s.ended
	return nil, fmt.Errorf("the emulator did not become ready: %w: %s", s.err, s.stderr.String())
}

// stop ends the emulator and waits for it. To have ended before is an error.
func (s *server) stop() error {
	select {
	case <-s.ended:
		return fmt.Errorf("the emulator ended before it was told to: %v: %s", s.err, s.stderr.String())
	default:
	}
	s.end()
	<-s.ended
	if s.err != nil && !errors.Is(s.err, context.Canceled) { // what Wait says of a good end after Cancel
		return fmt.Errorf("the emulator did not end well: %w: %s", s.err, s.stderr.String())
	}
	return nil
}

// goroutines ends the emulator by the signal that makes a Go program tell its goroutines, and counts those that are
// neither the runtime's own nor those of net/http, which the control port has.
func (s *server) goroutines() (int, error) {
	if err := s.process.Signal(syscall.SIGQUIT); err != nil {
		return 0, fmt.Errorf("ask the emulator for its goroutines: %w", err)
	}
	<-s.ended
	s.end()
	if s.stderr.goroutines == 0 {
		return 0, fmt.Errorf("the emulator did not tell its goroutines: %s", s.stderr.String())
	}
	return s.stderr.goroutines, nil
}

// tail counts goroutines in what is written to it and keeps its end. It is read when the writer has ended.
type tail struct {
	mu         sync.Mutex
	text       []byte
	line       []byte
	goroutines int
}

const tailKept = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range p {
		if t.line = append(t.line, c); c != '\n' {
			continue
		}
		by, ok := strings.CutPrefix(string(t.line), "created by ")
		if ok && !strings.HasPrefix(by, "runtime.") && !strings.HasPrefix(by, "net/http.") {
			t.goroutines++
		}
		t.line = t.line[:0]
	}
	t.text = append(t.text, p...)
	if len(t.text) > 2*tailKept {
		t.text = append(t.text[:0], t.text[len(t.text)-tailKept:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}

// ticks is the unit of processor time in /proc, which is the same on every Linux that Go runs on.
const ticks = 100

// cpu is the processor time the server has used, in seconds.
func (s *server) cpu() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the server's processor time: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name of the program, which may hold anything, ends here
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("read the server's processor time: %q", text)
	}
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	return (user + system) / ticks, errors.Join(err1, err2)
}

// ownCPU is the processor time this process has used, in seconds.
func ownCPU() (float64, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read the client's processor time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds(), nil
}

// memory is a figure of the server's in /proc, in megabytes: VmRSS is what it has now, VmHWM the most it has had.
func (s *server) memory(figure string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the server's memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, figure+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("read the server's memory: no %s", figure)
}

// loadAverage is how busy the machine was in the last minute.
func loadAverage() (string, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", fmt.Errorf("this program needs Linux: %w", err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first, nil
}

// profiled measures a part under the profiler if that is wanted. The servers write profiles of their own.
func (b *bench) profiled(name string, measure func() error) (err error) {
	if b.Profile == "" {
		return measure()
	}
	if err := os.MkdirAll(b.Profile, 0o777); err != nil {
		return fmt.Errorf("-profile: %w", err)
	}
	file, err := os.Create(filepath.Join(b.Profile, name+"-client.pprof"))
	if err != nil {
		return fmt.Errorf("-profile: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return fmt.Errorf("-profile: %w", err)
	}
	defer pprof.StopCPUProfile()
	return measure()
}
