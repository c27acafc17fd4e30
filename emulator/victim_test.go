package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oneeffect/emulator/control"
)

var kills = flag.Int("kills", 10, "how often the emulator is killed under load")

// asEmulator in the environment makes the test's own program the emulator, race detector and all.
const asEmulator = "ONEEFFECT_TEST_AS_EMULATOR"

func TestMain(m *testing.M) {
	if os.Getenv(asEmulator) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// victim is an emulator in a process of its own.
type victim struct {
	t         *testing.T
	cmd       *exec.Cmd
	addresses map[string]string
	stderr    bytes.Buffer
	ended     chan error
	doomed    atomic.Bool // it is about to be killed
}

// startVictim starts the emulator and waits until it is ready.
func startVictim(t *testing.T, args ...string) *victim {
	t.Helper()
	v := launch(t, thisProgram(t, args...))
	t.Cleanup(v.kill)
	return v
}

func thisProgram(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(program, slices.Concat(anyPorts, args)...)
}

// launch starts the emulator. Whoever calls it has to kill it.
func launch(t *testing.T, cmd *exec.Cmd) *victim {
	t.Helper()
	v := &victim{t: t, cmd: cmd, addresses: make(map[string]string), ended: make(chan error, 1)}
	v.cmd.Env = append(os.Environ(), asEmulator+"=1")
	v.cmd.Stderr = &v.stderr
	stdout, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "ready" {
		name, address, _ := strings.Cut(lines.Text(), " ")
		v.addresses[name] = address
	}
	ready := lines.Text() == "ready"
	go func() {
		for lines.Scan() {
		}
		v.ended <- v.cmd.Wait()
	}()
	if !ready {
		t.Fatalf("the emulator did not become ready: %v\n%s", <-v.ended, &v.stderr)
	}
	return v
}

// kill is SIGKILL. A second one does nothing.
func (v *victim) kill() {
	_ = v.cmd.Process.Kill() // it has ended already, or does now
	v.ended <- <-v.ended
	if strings.Contains(v.stderr.String(), "DATA RACE") || strings.Contains(v.stderr.String(), "panic:") {
		v.t.Errorf("the emulator says\n%s", &v.stderr)
	}
}

// await returns when the event log has come to an event like that.
func (v *victim) await(ctx context.Context, like func(control.Event) bool) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for last := uint64(0); ; {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/control/events?after=%d&wait=30s", v.addresses["control"], last), nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		before := last
		lines := json.NewDecoder(answer.Body)
		var e control.Event
		for err == nil && !like(e) {
			e = control.Event{}
			if err = lines.Decode(&e); err == nil {
				last = e.Seq
			}
		}
		_ = answer.Body.Close() // there is nothing to be lost
		switch {
		case err == nil:
			return nil
		case last == before:
			return fmt.Errorf("after event %d nothing has come for half a minute", last)
		}
	}
}

// survivor knows what the clients of an emulator have been told, and can tell whether it is so.
type survivor interface {
	in(t *testing.T) // where to say what is wrong from now on
	load(v *victim, round int) (all []func(context.Context) error, end func())
	audit(v *victim)
	counts() map[string]int // how much has been done, of each kind
}

// survive puts load on the emulator, kills it at a random event, starts it again on the same folder and has everything
// audited, again and again. Every time is a test of its own. After one that has failed, another would prove nothing.
func survive(t *testing.T, s survivor, args ...string) {
	t.Helper()
	args = append(args, "-data", filepath.Join(t.TempDir(), "data"))
	v := launch(t, thisProgram(t, args...))
	defer func() { v.kill() }()
	s.in(t)
	s.audit(v)
	var starting, loading time.Duration
	for round := range *kills {
		survived := t.Run(fmt.Sprintf("kill %d", round+1), func(t *testing.T) {
			s.in(t)
			v.t = t
			begun := time.Now()
			loadAndKill(t, v, s, round)
			loading += time.Since(begun)
			begun = time.Now()
			v = launch(t, thisProgram(t, args...))
			starting += time.Since(begun)
			s.audit(v)
		})
		if v.t = t; !survived {
			return
		}
	}
	if *kills == 0 {
		return
	}
	t.Logf("%d kills: %v; started in %v and loaded for %v on average", *kills, s.counts(), starting/time.Duration(*kills), loading/time.Duration(*kills))
	for what, n := range s.counts() {
		if n == 0 && *kills >= 10 {
			t.Errorf("%s: none, so the load was none", what)
		}
	}
}

// loadAndKill puts load on the emulator until an event of random number, kills it and waits for everybody.
func loadAndKill(t *testing.T, v *victim, s survivor, round int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all, end := s.load(v, round)
	var working sync.WaitGroup
	for who, work := range all {
		working.Go(func() {
			if err := work(ctx); err != nil && !v.doomed.Load() {
				t.Errorf("load %d: %v", who, err)
			}
		})
	}
	last := 50 + rand.Uint64N(1500)
	err := v.await(ctx, func(e control.Event) bool { return e.Seq >= last })
	v.doomed.Store(true)
	v.kill()
	cancel() // an SDK would wait for an answer that does not come
	working.Wait()
	end()
	if err != nil {
		t.Fatalf("load: %v", err)
	}
}

// fills is what a disk of fillDisk never holds: so many things of 10 kB.
const fills = 1_000

// fillDisk runs the emulator where no file may become larger than a megabyte or two, until it has ended as it should.
func fillDisk(t *testing.T, says string, fill func(v *victim)) (data string) {
	t.Helper()
	data = t.TempDir()
	cmd := thisProgram(t, "-data", data)
	v := launch(t, exec.Command("sh", append([]string{"-c", `ulimit -f 2000 && exec "$0" "$@"`}, cmd.Args...)...))
	t.Cleanup(v.kill)
	fill(v)
	err := <-v.ended
	v.ended <- err
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("the emulator has ended with %v", err)
	}
	for _, want := range []string{"emulator: " + says + data, "file too large", "make room", "start again"} {
		if !strings.Contains(v.stderr.String(), want) {
			t.Errorf("it does not say %q but\n%s", want, &v.stderr)
		}
	}
	return data
}
