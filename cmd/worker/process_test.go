package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"oneeffect/emulator/control"
	account "oneeffect/emulator/cosmos"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"
)

// asWorker in the environment makes the test's own program the worker, race
// detector and all.
const asWorker = "TEST_AS_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		main()
		return
	}
	status := m.Run()
	_ = os.RemoveAll(emulatorBuilt.dir) // in the temporary folder anyway
	os.Exit(status)
}

// builder builds the emulator when it is first needed, for all tests.
type builder struct {
	once sync.Once
	dir  string
	err  error
}

var emulatorBuilt builder

func (b *builder) build() {
	if b.dir, b.err = os.MkdirTemp("", "oneeffect-worker-test-"); b.err != nil {
		return
	}
	if out, err := exec.Command("go", "build", "-o", b.dir+"/", "oneeffect/emulator").CombinedOutput(); err != nil {
		b.err = fmt.Errorf("go build: %w\n%s", err, out)
	}
}

func (b *builder) program(t *testing.T) string {
	t.Helper()
	if b.once.Do(b.build); b.err != nil {
		t.Fatal(b.err)
	}
	return filepath.Join(b.dir, "emulator")
}

// The diagram's five minutes in seconds, every relation kept.
var short = []string{
	"-lock=6s", "-lease=4s", "-renewal=1200ms", "-owner-margin=400ms", "-challenger-margin=1s", "-store-timeout=600ms",
	"-busy-wait=1s", "-publish-timeout=1500ms", "-settle-timeout=1s", "-max-delivery=10", "-grace=10s", "-slots=4",
}

const (
	shortHandlers = `
- type: customer.create
  request: { method: POST, url: "${CRM_URL}/customers", timeout: 1s }
  idempotency: { honoured: true, header: Idempotency-Key, form: bare, window: 24h, inProgress: 409, replayedHeader: Idempotent-Replayed }
  result: /id
  retry: { attempts: 8, backoff: 1s..2s }
- type: letter.print
  request: { method: POST, url: "${CRM_URL}/letters", timeout: 1s }
  idempotency: { honoured: false }
`
	shortEntities = `{"UserConfig": {"Logging": {"Type": "Console"}, "Namespaces": [{"Name": "sbemulatorns",
	"Queues": [{"Name": "tasks", "Properties": {"LockDuration": "PT6S", "MaxDeliveryCount": 10, "DeadLetteringOnMessageExpiration": true,
		"RequiresDuplicateDetection": true, "DuplicateDetectionHistoryTimeWindow": "PT5M"}}],
	"Topics": [{"Name": "task-events", "Properties": {}, "Subscriptions": [{"Name": "orchestrator", "Properties": {}}]}]
}]}}`
)

// child is a process that says "ready" once it is.
type child struct {
	t         *testing.T
	name      string
	cmd       *exec.Cmd
	addresses map[string]string
	stderr    bytes.Buffer
	ended     chan struct{} // closed when err is set
	err       error
}

func start(t *testing.T, name string, cmd *exec.Cmd) *child {
	t.Helper()
	c := &child{t: t, name: name, cmd: cmd, addresses: map[string]string{}, ended: make(chan struct{})}
	cmd.Stderr = &c.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "ready" {
		what, address, _ := strings.Cut(lines.Text(), " ")
		c.addresses[what] = address
	}
	ready := lines.Text() == "ready"
	go func() {
		_, _ = io.Copy(io.Discard, stdout)
		c.err = cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(c.kill)
	if !ready {
		<-c.ended
		t.Fatalf("%s did not become ready: %v\n%s", name, c.err, &c.stderr)
	}
	return c
}

// kill is SIGKILL: nothing of it runs any more. It may have ended already.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
	if text := c.stderr.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") {
		c.t.Errorf("%s says\n%s", c.name, text)
	} else if c.t.Failed() {
		c.t.Logf("%s ended with %v and has said\n%s", c.name, c.err, text[max(0, len(text)-4000):])
	}
}

// terminate is SIGTERM, and waits for the end, which must be a clean one.
func (c *child) terminate() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	<-c.ended
	if c.err != nil {
		c.t.Errorf("%s after SIGTERM: %v", c.name, c.err)
	}
}

// site is an emulator process, and all that a test does with it.
type site struct {
	t        *testing.T
	ctx      context.Context
	emulator *child
	handlers string
	store    *cosmos.Database
	bus      *servicebus.Client
	http     http.Client
	seen     []control.Event
}

// newSite starts an emulator. The test may take so long.
func newSite(t *testing.T, bound time.Duration) *site {
	t.Helper()
	dir := t.TempDir()
	handlers, entities := filepath.Join(dir, "handlers.yaml"), filepath.Join(dir, "servicebus.json")
	if err := errors.Join(os.WriteFile(handlers, []byte(shortHandlers), 0o600), os.WriteFile(entities, []byte(shortEntities), 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), bound, fmt.Errorf("the test is bounded to %v", bound))
	t.Cleanup(cancel)
	s := &site{t: t, ctx: ctx, handlers: handlers}
	s.emulator = start(t, "emulator", exec.Command(emulatorBuilt.program(t),
		"-amqp=127.0.0.1:0", "-cosmos=127.0.0.1:0", "-downstream=127.0.0.1:0", "-control=127.0.0.1:0", "-config="+entities))
	var err error
	s.store, err = cosmos.Open(cosmos.Options{Endpoint: s.url("cosmos"), Key: account.EmulatorKey, ApplicationID: "test", Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.store.Close)
	if err := s.store.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	if s.bus, err = servicebus.Dial(servicebus.Options{ConnectionString: s.connectionString(), ApplicationID: "test"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.bus.Close(context.WithoutCancel(ctx)) }) // the emulator ends after it
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

func (s *site) url(name string) string { return "http://" + s.emulator.addresses[name] }

func (s *site) connectionString() string {
	return "Endpoint=sb://" + s.emulator.addresses["amqp"] + ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
}

// worker starts a worker as a process of its own.
func (s *site) worker(id string, more ...string) *child {
	s.t.Helper()
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	args := append([]string{"-id", id, "-cosmos-endpoint", s.url("cosmos"), "-handlers", s.handlers}, short...)
	cmd := exec.Command(program, append(args, more...)...)
	cmd.Env = append(os.Environ(), asWorker+"=1",
		"SERVICEBUS_CONNECTION_STRING="+s.connectionString(), "COSMOS_KEY="+account.EmulatorKey, "CRM_URL="+s.url("downstream"))
	return start(s.t, id, cmd)
}

// send sends a task.
func (s *site) send(ctx context.Context, id, taskType string) {
	s.t.Helper()
	m, err := message.Task{
		ExecutionID: id, Run: 1, Type: taskType, Payload: []byte(`{"name":"` + id + `"}`), ExecutionETag: `"1"`,
		Deadline: time.Now().Add(24 * time.Hour), NotAfter: time.Now().Add(21 * 24 * time.Hour),
	}.Message(message.TaskMessageID(id, 1), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	tasks, err := s.bus.Sender(message.Tasks)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := tasks.Send(ctx, m); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) claim(id string) claim.Claim {
	s.t.Helper()
	stored, err := s.store.Claims().Record(id).Read(s.ctx)
	if err != nil {
		s.t.Fatalf("read claim %s: %v", id, err)
	}
	return stored.Claim
}

// until returns the first event that matches, of those that have happened and of
// those still to come. The event log answers when something happens.
func (s *site) until(what string, match func(control.Event) bool) control.Event {
	s.t.Helper()
	for from := 0; ; {
		for ; from < len(s.seen); from++ {
			if match(s.seen[from]) {
				return s.seen[from]
			}
		}
		after := 0
		if from > 0 {
			after = int(s.seen[from-1].Seq)
		}
		lines := json.NewDecoder(bytes.NewReader(s.ask(what, http.MethodGet, fmt.Sprintf("%s/control/events?wait=30s&after=%d", s.url("control"), after), nil)))
		for {
			var e control.Event
			if err := lines.Decode(&e); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				s.t.Fatal(err)
			}
			s.seen = append(s.seen, e)
		}
	}
}

// count is how many of the events seen so far match.
func (s *site) count(match func(control.Event) bool) int {
	n := 0
	for _, e := range s.seen {
		if match(e) {
			n++
		}
	}
	return n
}

func (s *site) arm(r control.Rule) {
	s.t.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.ask("arm "+r.Name, http.MethodPost, s.url("control")+"/control/rules", body)
}

// ask makes a request of the emulator.
func (s *site) ask(what, method, url string, body []byte) []byte {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.ctx, method, url, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := s.http.Do(r)
	if err != nil {
		s.t.Fatalf("%s: %v (%v)", what, err, context.Cause(s.ctx))
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode/100 != 2 {
		s.t.Fatalf("%s: %s %s %v (%v)", what, answer.Status, text, err, context.Cause(s.ctx))
	}
	return text
}

// entry is what the ledger knows of one path and key: the only place where
// effects are counted.
type entry struct {
	Path, Key      string
	Calls, Effects int
	Replies        []struct{ Traceparent string }
}

func (s *site) ledger() []entry {
	s.t.Helper()
	var l struct{ Entries []entry }
	if err := json.Unmarshal(s.ask("ledger", http.MethodGet, s.url("downstream")+"/ledger", nil), &l); err != nil {
		s.t.Fatal(err)
	}
	return l.Entries
}

// What the tests look for in the event log.
func onTasks(kind, task string) func(control.Event) bool {
	return func(e control.Event) bool {
		return e.Service == "servicebus" && e.Entity == message.Tasks && e.Kind == kind && (task == "" || e.CorrelationID == task)
	}
}

func written(task, status string) func(control.Event) bool {
	return func(e control.Event) bool {
		return e.Entity == "claims" && e.Key == task && e.Operation == "replace" && e.Status == http.StatusOK && e.BodyStatus == status
	}
}

func reached(rule string) func(control.Event) bool {
	return func(e control.Event) bool { return e.Kind == "rule-reached" && e.Rule == rule }
}
