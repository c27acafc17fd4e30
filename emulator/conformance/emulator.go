package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// patience is how long the emulator may take to be ready, and to end.
const patience = 20 * time.Second

// emulator is one process of it.
type emulator struct {
	end   context.CancelFunc
	ended chan error // gets what the process has ended with
	said  lastWords
}

// startEmulator returns when the emulator is ready. log gets all that it says.
func startEmulator(ctx context.Context, program string, flags []string, log io.Writer) (*emulator, error) {
	ctx, end := context.WithCancel(ctx)
	e := &emulator{end: end, ended: make(chan error, 1)}
	cmd := exec.CommandContext(ctx, program, flags...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	cmd.Stderr = io.MultiWriter(log, &e.said)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("start the emulator: %w", err)
	}
	ready := make(chan bool, 1)
	go func() { // ends with the process, which stop waits for
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if lines.Text() == "ready" {
				ready <- true
			}
		}
		close(ready)
		e.ended <- cmd.Wait()
	}()
	late := time.AfterFunc(patience, end)
	defer late.Stop()
	if <-ready {
		return e, nil
	}
	end()
	return nil, fmt.Errorf("the emulator did not become ready: %w: %s", <-e.ended, e.said.String())
}

// stop ends the emulator and waits for it. To have ended before, or to end with
// a failure, is an error.
func (e *emulator) stop() error {
	select {
	case err := <-e.ended:
		return fmt.Errorf("the emulator ended before it was told to: %v: %s", err, e.said.String())
	default:
	}
	e.end()
	err := <-e.ended
	if err != nil && !errors.Is(err, context.Canceled) { // what Wait says of a good end after Cancel
		return fmt.Errorf("the emulator did not end well: %w: %s", err, e.said.String())
	}
	return nil
}

// lastWords keeps the end of what is written to it. It is read when the writer has ended.
type lastWords struct{ text []byte }

const wordsKept = 2 << 10

func (w *lastWords) Write(p []byte) (int, error) {
	w.text = append(w.text, p...)
	if len(w.text) > 2*wordsKept {
		w.text = append(w.text[:0], w.text[len(w.text)-wordsKept:]...)
	}
	return len(p), nil
}

func (w *lastWords) String() string { return strings.TrimSpace(string(w.text)) }
