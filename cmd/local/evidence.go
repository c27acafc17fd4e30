package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"oneeffect/internal/cosmos"
	"oneeffect/internal/evidence/probe"
)

// elsewhere is set by whoever wants the probes to act on endpoints of his own.
const elsewhere = "ONEEFFECT_TASKCTL_COSMOS_ENDPOINT"

// evidence has taskctl run the probes: against emulators of this run's own, or where
// the environment says.
func evidence(ctx context.Context, bin string, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("local evidence", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "evidence", "folder in which the run gets one of its own")
	entra := flags.Bool("entra", false, "broker and store over TLS, and taskctl signs in with a managed identity, as in Azure")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not a flag: local evidence takes flags only, -h lists them", flags.Arg(0))
	}
	command := []string{"evidence", "run", "--dir=" + *dir}
	var environment []string
	if os.Getenv(elsewhere) == "" {
		logs, err := logFolder("")
		if err != nil {
			return err
		}
		defer os.RemoveAll(logs) // of the emulators: what the probes saw is in the evidence
		s := &system{bin: bin, dir: logs}
		defer s.stop()
		if err := s.forProbes(ctx, *entra); err != nil {
			return err
		}
		environment = s.environment()
		for _, flag := range s.endpoints() {
			command = append(command, flagOf(flag))
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "taskctl"), command...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), environment...), stdout, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that its own processes end with it
	cmd.WaitDelay = stopGrace
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("taskctl evidence run: %w", err)
	}
	return nil
}

// flagOf is a flag of the processes as taskctl writes it.
func flagOf(word string) string {
	if len(word) > 1 && word[0] == '-' && word[1] != '-' {
		return "-" + word
	}
	return word
}

// forProbes starts the emulators. Who signs in with an identity cannot create a
// database, there as in Azure, so it is made here.
func (s *system) forProbes(ctx context.Context, entra bool) error {
	args := []string{"-amqp=127.0.0.1:0", "-cosmos=127.0.0.1:0", "-downstream=127.0.0.1:0", "-control=127.0.0.1:0"}
	if !entra {
		return s.emulator(ctx, args...)
	}
	s.authority = filepath.Join(s.dir, "ca.pem")
	if err := s.emulator(ctx, append(args, "-msi=127.0.0.1:0", "-ca-file="+s.authority)...); err != nil {
		return err
	}
	db, err := cosmos.Open(cosmos.Options{Endpoint: s.cosmosURL(), Key: cosmosKey, ApplicationID: "local", Database: probe.Database, Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Setup(ctx); err != nil {
		return fmt.Errorf("set up the database of the probes: %w", err)
	}
	return nil
}
