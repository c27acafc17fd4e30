package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// testLimit is how long one test may take. The slowest, which wait for the
// identity provider that does not exist here, take half a minute.
const testLimit = time.Minute

// wholeName matches names as a whole.
func wholeName(expression string) (*regexp.Regexp, error) {
	if expression == "" {
		expression = ".*"
	}
	whole, err := regexp.Compile("^(?:" + expression + ")$")
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	return whole, nil
}

// runBinary runs the named tests of a package in one process and returns what it
// said. A test that takes too long ends the process with a dump of its goroutines;
// those behind it have then not begun. events gets what test2json says.
func runBinary(ctx context.Context, test2json string, p *testPackage, names, env []string, events io.Writer) (*transcript, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(testLimit, func() { cancel(fmt.Errorf("a test took longer than %v", testLimit)) })
	defer watch.Stop()

	tests := exec.CommandContext(ctx, p.Binary, "-test.v=test2json", "-test.count=1", "-test.run", "^("+strings.Join(names, "|")+")$")
	tests.Dir = p.Dir
	tests.Env = append(os.Environ(), env...)
	tests.Cancel = func() error { return tests.Process.Signal(syscall.SIGQUIT) } // says where everybody is
	tests.WaitDelay = 10 * time.Second
	convert := exec.Command(test2json, "-t") // ends when its input does
	convert.Stderr = os.Stderr

	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer reader.Close()
	defer writer.Close()
	tests.Stdout, tests.Stderr, convert.Stdin = writer, writer, reader
	output, err := convert.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	if err := convert.Start(); err != nil {
		return nil, fmt.Errorf("start test2json: %w", err)
	}
	err = tests.Start()
	_ = writer.Close() // the tests have theirs: when they end, so does test2json's input
	_ = reader.Close()
	if err != nil {
		_ = convert.Wait()
		return nil, fmt.Errorf("start the tests: %w", err)
	}
	t := newTranscript(func(string) { watch.Reset(testLimit) })
	readErr := t.read(io.TeeReader(output, events))
	if readErr != nil {
		cancel(readErr)
		_, _ = io.Copy(io.Discard, output)
	}
	testsErr := tests.Wait()
	convertErr := convert.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return t, cause
	}
	if _, ok := errors.AsType[*exec.ExitError](testsErr); ok {
		testsErr = nil // the verdicts say more
	}
	return t, errors.Join(testsErr, convertErr)
}
