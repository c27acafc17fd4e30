package measure

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

// patience is how long a process may take to be ready, and to end.
const patience = 20 * time.Second

// Server is a process that is measured, and may listen.
type Server struct {
	AMQP, Cosmos, Downstream, Control, HTTP string // addresses, "" for those that it does not tell

	program string
	process *os.Process
	end     context.CancelFunc
	stderr  tail
	ended   chan struct{} // closed when the process has ended
	err     error         // what it has ended with
}

// Launch starts a program that says its addresses and that it is ready, with some variables more than this process has.
// The program ends with the context, or by Stop.
func Launch(ctx context.Context, env []string, program string, args ...string) (*Server, error) {
	ctx, end := context.WithCancel(ctx)
	s := &Server{program: filepath.Base(program), end: end, ended: make(chan struct{})}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	cmd.Stderr = &s.stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("start %s: %w", s.program, err)
	}
	s.process = cmd.Process
	ready := make(chan bool, 1)
	go func() { // ends with the process, which stop waits for
		defer close(s.ended)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			switch name, address, _ := strings.Cut(lines.Text(), " "); name {
			case "amqp":
				s.AMQP = address
			case "cosmos":
				s.Cosmos = address
			case "downstream":
				s.Downstream = address
			case "control":
				s.Control = address
			case "http":
				s.HTTP = address
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
	return nil, fmt.Errorf("%s did not become ready: %w: %s", s.program, s.err, s.stderr.String())
}

// Stop ends the process and waits for it. To have ended before is an error.
func (s *Server) Stop() error {
	select {
	case <-s.ended:
		return fmt.Errorf("%s ended before it was told to: %v: %s", s.program, s.err, s.stderr.String())
	default:
	}
	s.end()
	<-s.ended
	if s.err != nil && !errors.Is(s.err, context.Canceled) { // what Wait says of a good end after Cancel
		return fmt.Errorf("%s did not end well: %w: %s", s.program, s.err, s.stderr.String())
	}
	return nil
}

// Goroutines ends the process by the signal that makes a Go program tell its goroutines, and counts those that are
// neither the runtime's own nor those of net/http, which a control port has.
func (s *Server) Goroutines() (int, error) {
	if err := s.process.Signal(syscall.SIGQUIT); err != nil {
		return 0, fmt.Errorf("ask %s for its goroutines: %w", s.program, err)
	}
	<-s.ended
	s.end()
	if s.stderr.goroutines == 0 {
		return 0, fmt.Errorf("%s did not tell its goroutines: %s", s.program, s.stderr.String())
	}
	return s.stderr.goroutines, nil
}

// Goroutines counts those of this process, as (*Server).Goroutines does.
func Goroutines() (int, error) {
	var t tail
	if err := pprof.Lookup("goroutine").WriteTo(&t, 2); err != nil {
		return 0, fmt.Errorf("count the goroutines: %w", err)
	}
	return t.goroutines, nil
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

// CPU is the processor time the process has used, in seconds.
func (s *Server) CPU() (float64, error) {
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

// OwnCPU is the processor time this process has used, in seconds.
func OwnCPU() (float64, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read this process's processor time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds(), nil
}

// Memory is a figure of the process's in /proc, in megabytes: VmRSS is what it has now, VmHWM the most it has had.
func (s *Server) Memory(figure string) (float64, error) {
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

// profiled does something under the profiler, which writes into a folder where the time has gone and what was
// allocated; if that is "", it only does it.
func profiled(folder, name string, do func() error) (err error) {
	if folder == "" {
		return do()
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	times, err := os.Create(filepath.Join(folder, name+".pprof"))
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer func() { err = errors.Join(err, times.Close()) }()
	if err := pprof.StartCPUProfile(times); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	err = do()
	pprof.StopCPUProfile()
	if err != nil {
		return err
	}
	allocations, err := os.Create(filepath.Join(folder, name+"-allocs.pprof"))
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(allocations, 0), allocations.Close())
}
