package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// anyPorts lets every listener take a free port.
var anyPorts = []string{"-amqp", "127.0.0.1:0", "-cosmos", "127.0.0.1:0", "-downstream", "127.0.0.1:0", "-control", "127.0.0.1:0"}

// program is the emulator at work on real sockets.
type program struct {
	t         *testing.T
	address   map[string]string   // of each listener, by its name; of several, the last one
	listening map[string][]string // all of them
	stop      context.CancelFunc
	ended     chan error
	stderr    bytes.Buffer
	client    *http.Client
}

// start runs the program until it says that it is ready.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	p := &program{t: t, address: make(map[string]string), listening: make(map[string][]string), stop: stop, ended: make(chan error, 1)}
	reader, stdout := io.Pipe()
	go func() {
		err := run(ctx, slices.Concat(anyPorts, args), stdout, &p.stderr)
		_ = stdout.CloseWithError(errors.New("the program has ended"))
		p.ended <- err
	}()
	lines := bufio.NewScanner(reader)
	for lines.Scan() && lines.Text() != "ready" {
		name, address, _ := strings.Cut(lines.Text(), " ")
		p.address[name] = address
		p.listening[name] = append(p.listening[name], address)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("not ready: %v; %v", err, <-p.ended)
	}
	transport := &http.Transport{}
	p.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		stop()
		transport.CloseIdleConnections()
	})
	return p
}

func (p *program) do(ctx context.Context, method, door, path, body string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+p.address[door]+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "82f3")
	r.Header.Set("User-Agent", "worker-1")
	resp, err := p.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func (p *program) want(status int, method, door, path, body string) string {
	p.t.Helper()
	got, text, err := p.do(p.t.Context(), method, door, path, body)
	if err != nil || got != status {
		p.t.Fatalf("%s %s%s: %d %s (%v), want %d", method, door, path, got, text, err, status)
	}
	return text
}

// end stops the program and requires that it ends well, with nothing left.
func (p *program) end() {
	p.t.Helper()
	p.stop()
	if err := <-p.ended; err != nil {
		p.t.Errorf("ended with %v", err)
	}
	p.client.CloseIdleConnections()
	wantNothingLeft(p.t)
	for name, address := range p.address {
		l, err := (&net.ListenConfig{}).Listen(p.t.Context(), "tcp", address)
		if err != nil {
			p.t.Errorf("the port of %s is still taken: %v", name, err)
			continue
		}
		_ = l.Close()
	}
}

// wantNothingLeft fails if a goroutine runs code of the emulator or serves HTTP.
// A goroutine that has said that it has ended still needs the scheduler to go.
func wantNothingLeft(t *testing.T) {
	t.Helper()
	var left string
	if !soon(func() bool {
		left = goroutinesOf("oneeffect/emulator", "net/http.(*Server)", "net/http.(*conn)")
		return left == ""
	}) {
		t.Fatalf("still running:\n%s", left)
	}
}

// soon reports whether something comes to be so, which nothing tells of.
func soon(so func() bool) bool {
	deadline := time.Now().Add(10 * time.Second)
	for !so() {
		if time.Now().After(deadline) {
			return false
		}
		runtime.Gosched()
	}
	return true
}

// goroutinesOf returns the stacks of the goroutines, except the tests' own, that
// run any of the given code.
func goroutinesOf(code ...string) string {
	buffer := make([]byte, 1<<20)
	var found []string
	for _, stack := range strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(stack, "testing.tRunner") {
			continue
		}
		for _, part := range code {
			if strings.Contains(stack, part) {
				found = append(found, stack)
				break
			}
		}
	}
	return strings.Join(found, "\n\n")
}

func TestTheEmulatorsStartOnFreePortsAndEndWithTheirContext(t *testing.T) {
	p := start(t)
	for _, name := range []string{"amqp", "cosmos", "downstream", "control"} {
		if _, port, err := net.SplitHostPort(p.address[name]); err != nil || port == "0" {
			t.Errorf("%s listens on %q", name, p.address[name])
		}
	}
	p.want(200, "GET", "control", "/healthz", "")
	p.want(201, "POST", "downstream", "/customers", `{"name":"Ada"}`)
	if events := p.want(200, "GET", "control", "/control/events", ""); !strings.Contains(events, `"status":201`) {
		t.Errorf("the hub has not heard of the call: %s", events)
	}
	p.want(401, "GET", "cosmos", "/", "") // no key was sent
	p.end()
}

func TestTheEmulatorsEndWhileTheyAreBusy(t *testing.T) {
	p := start(t)
	amqp, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.address["amqp"])
	if err != nil {
		t.Fatal(err)
	}
	defer amqp.Close()
	p.want(201, "POST", "control", "/control/rules", `{"name":"late","match":{"entity":"/customers"},"do":"hold","late":true}`)
	p.want(201, "POST", "control", "/control/rules", `{"name":"mute","match":{"entity":"/letters"},"do":"silence"}`)
	waiting := make(chan error, 4)
	ask := func(method, door, path, body string) {
		go func() {
			_, _, err := p.do(context.WithoutCancel(t.Context()), method, door, path, body)
			waiting <- err
		}()
	}
	ask("POST", "downstream", "/customers", `{}`)
	ask("POST", "downstream", "/letters", `{}`)
	ask("GET", "control", "/control/rules/none-such?for=reached&wait=5m", "")
	if err := <-waiting; err != nil { // an unknown rule is answered at once
		t.Error(err)
	}
	p.want(200, "GET", "control", "/control/rules/late?for=reached&wait=30s", "")
	p.want(200, "GET", "control", "/control/rules/mute?for=reached&wait=30s", "")
	ask("GET", "control", "/control/events?after=1000&wait=5m", "")
	begun := time.Now()
	p.end()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v to end", took)
	}
	broken := 0
	for range 3 {
		if err := <-waiting; err != nil {
			broken++
		}
	}
	if broken < 2 {
		t.Errorf("%d calls were cut, want the held and the silent one at least", broken)
	}
}

func TestAnIsolatedClientThatGoesAwayLeavesNothingBehind(t *testing.T) {
	p := start(t)
	p.want(204, "PUT", "control", "/control/clients/worker-1/isolation", "")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ended := make(chan error, 1)
	go func() {
		_, _, err := p.do(ctx, "POST", "downstream", "/customers", `{}`)
		ended <- err
	}()
	if !soon(func() bool { return goroutinesOf("emulator/downstream") != "" }) {
		t.Fatal("the call does not arrive")
	}
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want silence until the client gives up", err)
	}
	if !soon(func() bool { return goroutinesOf("emulator/downstream") == "" }) {
		t.Fatal("the server does not notice that the client has gone")
	}
	p.end()
}

func TestWhatIsWrongWithTheFlagsIsSaidAtOnceWithItsRemedy(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := taken.Addr().String()
	broken := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(broken, []byte(`{"UserConfig": {"Namespaces": []}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		args []string
		says []string
	}{
		{"an unknown flag", []string{"-ampq", "x"}, []string{"-ampq", "emulator -h lists the flags"}},
		{"an argument", []string{"up"}, []string{"unexpected argument up"}},
		{"bad keys", []string{"-sas-key", "", "-cosmos-key", "secret!"}, []string{"-sas-key: cannot be empty", "-cosmos-key: must be base64"}},
		{"an account that cannot be", []string{"-cosmos-consistency", "Total", "-cosmos-endpoint", "localhost:8081"}, []string{
			"-cosmos-consistency Total: want one of Strong, ", "-cosmos-endpoint localhost:8081: want a URL",
		}},
		{"a tier that is none", []string{"-tier", "Basic"}, []string{"-tier Basic: want one of Standard, Premium, Any"}},
		{"two ports in use", []string{"-cosmos", busy, "-control", busy}, []string{
			"-cosmos " + busy + ": the port is in use", "another port with -cosmos", "-control " + busy + ": the port is in use",
		}},
		{"no port", []string{"-downstream", "127.0.0.1"}, []string{"-downstream 127.0.0.1: want host:port"}},
		{"a port that is none", []string{"-downstream", "127.0.0.1:x"}, []string{"-downstream 127.0.0.1:x"}},
		{"every interface", []string{"-amqp", ":0"}, []string{"-amqp :0: other machines could reach", "-expose"}},
		{"another interface", []string{"-amqp", "192.0.2.1:0"}, []string{"-expose"}},
		{"a name", []string{"-amqp", "emulator.test:0"}, []string{"-expose"}},
		{"one of several addresses", []string{"-amqp", "127.0.0.1:0,:0", "-amqp", "127.0.0.2"}, []string{"-amqp :0: other machines", "-amqp 127.0.0.2: want host:port"}},
		{"an address for the identity", []string{"-msi", "192.0.2.1:0"}, []string{"-msi 192.0.2.1:0", "-expose"}},
		{"no folder for the authority", []string{"-ca-file", "/no/such/ca.pem"}, []string{"-ca-file", "/no/such"}},
		{"a host that is none", []string{"-tls-host", "two words"}, []string{"-tls-host", `"two words"`}},
		{"a data folder that is a file", []string{"-data", broken}, []string{"-data " + broken, "make the data folder"}},
		{"no such configuration", []string{"-config", "/no/such.json"}, []string{"-config", "no such file"}},
		{"a wrong configuration", []string{"-config", broken}, []string{"-config " + broken, "Namespaces", "Logging"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			err := run(t.Context(), slices.Concat(anyPorts, test.args), &stdout, &stderr)
			if err == nil {
				t.Fatal("it ran")
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in: %v", part, err)
				}
			}
			if stdout.Len() > 0 {
				t.Errorf("it printed %s", &stdout)
			}
			wantNothingLeft(t)
		})
	}
}

func TestAListenerThatBreaksEndsTheProgramWithItsName(t *testing.T) {
	for _, broken := range []string{"amqp", "control"} {
		t.Run(broken, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			s := settings{amqp: list{values: []string{"127.0.0.1:0"}}, cosmos: "127.0.0.1:0", downstream: "127.0.0.1:0", control: "127.0.0.1:0"}
			s.sasKey = "k"
			e, err := assemble(s, log)
			if err != nil {
				t.Fatal(err)
			}
			listeners := e.listeners(s, log)
			if err := open(t.Context(), listeners, false, log); err != nil {
				t.Fatal(err)
			}
			for _, l := range listeners {
				if l.name == broken {
					_ = l.Close()
				}
			}
			err = e.serve(t.Context(), listeners, io.Discard)
			if !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "serve "+broken) {
				t.Errorf("ended with %v, want it to name %s", err, broken)
			}
			e.close()
			wantNothingLeft(t)
		})
	}
}

func TestExposeAllowsOtherAddressesWithAWarning(t *testing.T) {
	p := start(t, "-expose", "-downstream", "0.0.0.0:0")
	p.end()
	if log := p.stderr.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, "listener=downstream") ||
		strings.Count(log, "WARN") != 1 {
		t.Errorf("stderr says %q, want one warning about downstream", log)
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	var stdout bytes.Buffer
	if err := run(t.Context(), []string{"-h"}, &stdout, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"-amqp", "-cosmos", "-downstream", "-control", "-config", "-tier", "-sas-key", "-pace", "-cosmos-key",
		"-cosmos-compute", "-cosmos-endpoint", "-cosmos-consistency", "-expose", "-msi", "-ca-file", "-tls-host", "-data", "-cpuprofile"} {
		if !strings.Contains(stdout.String(), "\n  "+flag) {
			t.Errorf("%s is not listed", flag)
		}
	}
}

func TestTheBuiltInConfigurationIsTheFileInTheRepository(t *testing.T) {
	builtIn, err := readConfig("")
	if err != nil {
		t.Fatal(err)
	}
	file, err := readConfig("config.json")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(builtIn, file) {
		t.Errorf("built in is %+v, in the file %+v", builtIn, file)
	}
	text := strings.ToLower(fmt.Sprintf("%+v", file.Namespace))
	for _, name := range []string{"tasks", "task-events", "orchestrator", "reservations", "inventory", "evidence", "probes"} {
		if !strings.Contains(text, name) {
			t.Errorf("there is no %s in %s", name, text)
		}
	}
}
