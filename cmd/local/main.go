// Command local runs everything on one machine: the emulators, the orchestrator
// and the workers, each a process of its own, as they would be deployed.
//
//	local up        all of it, until Ctrl-C
//	local demo      the fourteen arrows, observed from outside, with a real kill
//	local evidence  the probes of taskctl, against emulators of their own
//	local crash     the crash matrix: processes killed, paused and left without answers
//	local soak      constant load, with workers killed, links dropped and requests throttled
//	local drill     workers scaled from none to eight and back under load, with and without SIGTERM
//
// It finds the other programs beside itself: make builds them all into one folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	err := run(untilStopped(), os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "local:", err)
		os.Exit(1)
	}
}

// untilStopped ends with the first Ctrl-C or SIGTERM. Before it does, signals are what
// they are by default again: the second one ends this process, which is still waiting
// for its children, at once.
func untilStopped() context.Context {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // for as long as the process lives
		<-signals
		signal.Stop(signals)
		stop()
	}()
	return ctx
}

const usage = "give a command: up (everything, until Ctrl-C), demo (the fourteen arrows), evidence (the receipt probes), crash (the crash matrix), soak (load, kills and faults) or drill (scaling out and in under load); -h after it lists its flags"

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the other programs: %w", err)
	}
	bin := filepath.Dir(program)
	switch args[0] {
	case "up":
		return up(ctx, bin, args[1:], stdout, stderr)
	case "demo":
		return demo(ctx, bin, args[1:], stdout, stderr)
	case "evidence":
		return evidence(ctx, bin, args[1:], stdout, stderr)
	case "crash":
		return crash(ctx, bin, args[1:], stdout, stderr)
	case "soak":
		return soak(ctx, bin, args[1:], stdout, stderr)
	case "drill":
		return drill(ctx, bin, args[1:], stdout, stderr)
	}
	return fmt.Errorf("%q is no command: %s", args[0], usage)
}
