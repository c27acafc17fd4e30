// Package e2e drives the page in a real browser, against real processes: `make
// browser`. It is a module of its own, so that what it takes is nobody else's.
package e2e

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// system is `local up` or `local demo`, as make starts it.
type system struct {
	t       *testing.T
	page    string // the orchestrator's address, with its scheme
	control string
	store   string
	broker  string // of up: its address
}

// start runs bin/local until the test ends, and waits for the line that says that
// everything runs.
func start(t *testing.T, until string, args ...string) *system {
	t.Helper()
	s := &system{t: t}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	local := exec.Command(filepath.Join(root, "bin", "local"), args...)
	local.Dir, local.Env = root, append(os.Environ(), "KEEP=1")
	out, err := local.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	local.Stderr = os.Stderr
	if err := local.Start(); err != nil {
		t.Fatalf("%v (make build makes it)", err)
	}
	t.Cleanup(func() {
		_ = local.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, out)
		_ = local.Wait() // what it says of its own end is its own tests' business
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	var all strings.Builder
	for lines.Scan() {
		line := lines.Text()
		fmt.Fprintln(&all, line)
		for _, word := range strings.Fields(line) {
			word = strings.TrimSuffix(word, ",")
			switch {
			case !strings.HasPrefix(word, "http://") || strings.HasPrefix(line, "curl"):
			case strings.HasSuffix(word, "/control/events"):
				s.control = strings.TrimSuffix(word, "/control/events")
			case strings.HasPrefix(line, "store"):
				s.store = word
			case strings.HasPrefix(line, "page and API") || strings.HasPrefix(line, "orchestrator"):
				s.page = word
			}
		}
		if strings.Contains(line, until) {
			if s.page == "" || s.control == "" {
				t.Fatalf("no addresses in\n%s", &all)
			}
			return s
		}
	}
	t.Fatalf("local %v ended, and said\n%s", args, &all)
	return nil
}

// up is the whole system, as make run starts it, on free ports and in memory.
func up(t *testing.T) *system {
	t.Helper()
	broker := free(t)
	args := []string{"up", "-data", "", "-dir", t.TempDir(), "-amqp", broker}
	for _, at := range []string{"cosmos", "downstream", "control", "api", "projector"} {
		args = append(args, "-"+at, "127.0.0.1:0")
	}
	s := start(t, "everything runs", args...)
	s.broker = broker
	return s
}

// ask sends a request that must be answered by a status of success.
func (s *system) ask(method, address, body string, header ...string) []byte {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode/100 != 2 {
		s.t.Fatalf("%s %s: %d %s (%v)", method, address, answer.StatusCode, text, err)
	}
	return text
}

// submit makes an execution.
func (s *system) submit(body string, header ...string) {
	s.t.Helper()
	s.ask(http.MethodPost, s.page+"/v1/executions", body, header...)
}

// answers makes the downstream answer a path with a status, until the rule is gone.
func (s *system) answers(name, path string, status int) {
	s.t.Helper()
	s.ask(http.MethodPost, s.control+"/control/rules", fmt.Sprintf(`{"name":%q,"match":{"service":"downstream","entity":%q},"do":"answer","status":%d}`, name, path, status))
}

// ended waits in the emulators' event log for the write that ends an execution.
func (s *system) ended(id string) {
	s.t.Helper()
	s.seen("the end of "+id, func(e event) bool {
		return e.Service == "cosmos" && e.Entity == "executions" && e.Operation == "patch" && e.Key == id && e.Status == http.StatusOK
	})
}

// dead waits for a dead letter.
func (s *system) dead(id string) {
	s.t.Helper()
	s.seen("the dead letter of "+id, func(e event) bool { return e.Kind == "dead-lettered" && e.Key == id })
}

type event struct {
	Seq                                   int64
	Service, Kind, Entity, Operation, Key string
	Status                                int
}

// seen reads the log of events from its beginning until one is that one.
func (s *system) seen(what string, is func(event) bool) {
	s.t.Helper()
	bound, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for after := int64(0); ; {
		r, err := http.NewRequestWithContext(bound, http.MethodGet, fmt.Sprintf("%s/control/events?after=%d&wait=10s", s.control, after), nil)
		if err != nil {
			s.t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			s.t.Fatalf("wait for %s: %v", what, err)
		}
		found, err := scan(answer.Body, &after, is)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			s.t.Fatalf("wait for %s: %v", what, err)
		}
		if found {
			return
		}
	}
}

func scan(body io.Reader, after *int64, is func(event) bool) (bool, error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return false, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		if *after = e.Seq; is(e) {
			return true, nil
		}
	}
	return false, lines.Err()
}

// accountKey is what every emulator of Cosmos DB is known by.
const accountKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// fill puts executions into the store, beside the orchestrator.
func (s *system) fill(n int) {
	s.t.Helper()
	key, err := base64.StdEncoding.DecodeString(accountKey)
	if err != nil {
		s.t.Fatal(err)
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "post\ndocs\ndbs/oneeffect/colls/executions\n%s\n\n", strings.ToLower(date))
	token := url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	began := time.Now().UTC().Add(-10 * time.Minute)
	const writers = 8
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}}
	var writing sync.WaitGroup
	for first := range writers {
		writing.Go(func() {
			for i := first; i < n && !s.t.Failed(); i += writers {
				id, at := fmt.Sprintf("old-%06d", i), began.Add(time.Duration(i)*time.Millisecond).Format(time.RFC3339Nano)
				body := fmt.Sprintf(`{"id":%q,"executionId":%q,"kind":"execution","type":"customer.create","payload":{},"request":"sha256:0","status":"COMPLETED","run":1,"createdAt":%q,"deadline":%q,"notAfter":%q,"endedAt":%q,"history":[]}`, id, id, at, at, at, at)
				r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.store+"/dbs/oneeffect/colls/executions/docs", strings.NewReader(body))
				if err != nil {
					s.t.Error(err)
					return
				}
				for name, value := range map[string]string{"x-ms-date": date, "x-ms-version": "2020-11-05", "Prefer": "return=minimal", "Content-Type": "application/json", "Authorization": token, "x-ms-documentdb-partitionkey": `["` + id + `"]`} {
					r.Header.Set(name, value)
				}
				answer, err := client.Do(r)
				if err != nil {
					s.t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if answer.StatusCode != http.StatusCreated {
					s.t.Errorf("store %s: %s", id, answer.Status)
					return
				}
			}
		})
	}
	writing.Wait()
	client.CloseIdleConnections()
}
