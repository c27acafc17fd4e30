package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"oneeffect/internal/message"

	"github.com/spf13/cobra"
)

// Exit codes. They are part of the interface: scripts rely on them.
const (
	exitOK          = 0
	exitFailed      = 1 // a check failed, or what was asked for is refused
	exitUsage       = 2 // the command line, a variable or a file is not as it must be
	exitUnreachable = 3 // an endpoint did not answer: nothing is known of what it holds
)

const exitHelp = `Exit codes:
  0  done; every check passed
  1  a check failed, or what was asked for is refused
  2  the command line or the environment is not as it must be
  3  an endpoint did not answer`

// problem is an error that a person can act on.
type problem struct {
	code int
	err  error
	next string // what to do now
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

// usage is a mistake of who typed the command.
func usage(err error, next string) error { return &problem{exitUsage, err, next} }

// failed is a check that did not pass, or a request that was refused.
func failed(err error, next string) error { return &problem{exitFailed, err, next} }

// unreachable is an endpoint without an answer.
func unreachable(err error, next string) error { return &problem{exitUnreachable, err, next} }

// met is an error of an endpoint, told by what the adapters say it means.
func met(endpoint string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return failed(err, "it was interrupted: run it again")
	case unanswered(err):
		return unreachable(fmt.Errorf("no answer from %s: %w", endpoint, err), "start the emulators (make run), or correct the address; taskctl --help lists the flags and their variables")
	}
	return failed(err, "correct what "+endpoint+" refuses: the right to do this, the name or the key")
}

// unanswered says whether an error is that of an endpoint which gave no answer.
func unanswered(err error) bool {
	return errors.Is(err, message.ErrTransient) || errors.Is(err, message.ErrUnknown) || errors.Is(err, context.DeadlineExceeded)
}

// mistyped is an error of a command. One that is cobra's own, an argument or a flag that
// is missing or too many, becomes a mistake with the form of that command.
func mistyped(c *cobra.Command, err error) error {
	if _, ok := errors.AsType[*problem](err); ok || err == nil || !c.HasParent() {
		return err
	}
	return usage(err, "give "+c.UseLine()+"; "+c.CommandPath()+" --help says more")
}

// exit prints an error with what to do next, and turns it into the exit code.
func (a *app) exit(err error) int {
	if err == nil {
		return exitOK
	}
	p, ok := errors.AsType[*problem](err)
	if !ok { // cobra's own: an unknown command
		p = &problem{exitUsage, err, "taskctl --help lists the commands, --help after one its flags"}
	}
	paint := painter(a.stderr, a.env)
	fmt.Fprintf(a.stderr, "%s %s\n", paint(red, "taskctl:"), strings.ReplaceAll(err.Error(), "\n", "\n  "))
	if p.next != "" {
		fmt.Fprintf(a.stderr, "%s %s\n", paint(bold, "next:"), p.next)
	}
	return p.code
}

// file is an error of a file that the command line named.
func file(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return usage(err, "give the path of a file that exists")
	}
	return usage(err, "give a file that can be read, or a folder that can be written")
}
