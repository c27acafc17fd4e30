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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

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
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startVictimAs(t, exec.Command(program, append(append([]string{}, anyPorts...), args...)...))
}

func startVictimAs(t *testing.T, cmd *exec.Cmd) *victim {
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
	t.Cleanup(v.kill)
	return v
}

// kill is SIGKILL. A second one does nothing.
func (v *victim) kill() {
	if v.cmd.ProcessState == nil {
		_ = v.cmd.Process.Kill() // it has ended already, or does now
		v.ended <- <-v.ended
	}
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

func (v *victim) client(name string) *azservicebus.Client {
	v.t.Helper()
	c, err := azservicebus.NewClientFromConnectionString("Endpoint=sb://"+v.addresses["amqp"]+
		";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;",
		// One attempt: a second one would make two sends of one.
		&azservicebus.ClientOptions{ApplicationID: name, RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}})
	if err != nil {
		v.t.Fatal(err)
	}
	return c
}

// killConfig has a queue of each kind and a topic.
const killConfig = `{"UserConfig": {"Logging": {"Type": "File"}, "Namespaces": [{"Name": "sbemulatorns",
	"Queues": [
		{"Name": "work", "Properties": {"LockDuration": "PT5M", "MaxDeliveryCount": 10}},
		{"Name": "once", "Properties": {"RequiresDuplicateDetection": true, "DuplicateDetectionHistoryTimeWindow": "PT5M"}},
		{"Name": "relay", "Properties": {"ForwardTo": "work"}},
		{"Name": "steps", "Properties": {"RequiresSession": true}}
	],
	"Topics": [{"Name": "news", "Properties": {}, "Subscriptions": [{"Name": "left", "Properties": {}}, {"Name": "right", "Properties": {}}]}]
}]}}`

// TestAnAcknowledgedMessageOutlivesTheEmulator kills the emulator again and again, on one folder, at a random event
// under the load of the real SDK, starts it again and counts: every acknowledged send is there once or was settled, no
// answered settlement is undone, locks hold, counts have not gone down. What got no answer may be either way, but whole.
func TestAnAcknowledgedMessageOutlivesTheEmulator(t *testing.T) {
	folder := t.TempDir()
	config := filepath.Join(folder, "config.json")
	if err := os.WriteFile(config, []byte(killConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(folder, "data")
	l := newLedger(t)
	var starting, loading time.Duration
	for round := range *kills {
		begun := time.Now()
		v := startVictim(t, "-config", config, "-data", data)
		starting += time.Since(begun)
		l.audit(v)
		if t.Failed() {
			t.Fatalf("after kill %d", round)
		}
		begun = time.Now()
		loadAndKill(t, v, l, round)
		loading += time.Since(begun)
	}
	v := startVictim(t, "-config", config, "-data", data)
	l.audit(v)
	v.kill()
	if *kills == 0 {
		return
	}
	t.Logf("%d kills: %v; started in %v and loaded for %v on average", *kills, l.counts(), starting/time.Duration(*kills), loading/time.Duration(*kills))
	for what, n := range l.counts() {
		if n == 0 && *kills >= 10 {
			t.Errorf("%s: none, so the load was none", what)
		}
	}
}

// loadAndKill puts load on the emulator until an event of random number, kills it and waits for everybody.
func loadAndKill(t *testing.T, v *victim, l *ledger, round int) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := v.client("load")
	var working sync.WaitGroup
	for who, work := range []func(context.Context, *azservicebus.Client, *ledger, func() string) error{
		sendTo("work"), sendTo("work"), sendTo("relay"), sendBatches, publish, schedule, sendTwice, keepState, consumeHeld, consume,
	} {
		n := 0
		id := func() string {
			n++
			return fmt.Sprintf("%d-%d-%d", round, who, n)
		}
		working.Go(func() {
			if err := work(ctx, client, l, id); err != nil && !v.doomed.Load() {
				t.Errorf("load %d: %v", who, err)
			}
		})
	}
	last := 50 + rand.Uint64N(1500)
	err := v.await(ctx, func(e control.Event) bool { return e.Seq >= last })
	v.doomed.Store(true)
	v.kill()
	cancel() // the SDK would wait for an answer that does not come
	working.Wait()
	_ = client.Close(t.Context()) // its connection is gone
	if err != nil {
		t.Fatalf("load: %v", err)
	}
}

// TestADiskThatTakesNoMoreEndsTheEmulator runs the emulator where no file may become larger than a megabyte or two.
func TestADiskThatTakesNoMoreEndsTheEmulator(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	args := append([]string{"-c", `ulimit -f 2000 && exec "$0" "$@"`, program}, anyPorts...)
	v := startVictimAs(t, exec.Command("sh", append(args, "-data", data)...))
	send := func(s *azservicebus.Sender, id string) error {
		m := newMessage(id)
		m.Body = bytes.Repeat([]byte("x"), 10_000)
		return s.SendMessage(t.Context(), m, nil)
	}
	client := v.client("sender")
	s, err := client.NewSender("tasks", nil)
	if err != nil {
		t.Fatal(err)
	}
	answered := 0
	for send(s, fmt.Sprint(answered)) == nil {
		answered++
	}
	_ = client.Close(t.Context()) // its connection is gone
	err = <-v.ended
	v.ended <- err
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("the emulator has ended with %v", err)
	}
	for _, want := range []string{"emulator: keep the namespace in " + data, "file too large", "make room", "start again"} {
		if !strings.Contains(v.stderr.String(), want) {
			t.Errorf("it does not say %q but\n%s", want, &v.stderr)
		}
	}
	v = startVictim(t, "-data", data)
	client = v.client("auditor")
	defer func() { _ = client.Close(t.Context()) }()
	r, err := client.NewReceiverForQueue("tasks", nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger(t)
	if there := len(l.all(t.Context(), r)); answered == 0 || there < answered || there > answered+1 {
		t.Errorf("%d messages were answered and %d are there", answered, there)
	}
}
