//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"oneeffect/internal/orchestrator"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// A terminal is a pseudo terminal with a shell in it, as a person has one.
type console struct {
	t      *testing.T
	ctx    context.Context
	master *os.File

	mu    sync.Mutex
	shown string        // everything that it has shown
	more  chan struct{} // closed when there is more, and made anew
	from  int           // what was looked at already
}

// prompt ends with what nobody else prints.
const prompt = "<ready>"

func openConsole(t *testing.T, p *programs, columns uint16) *console {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("a pseudo terminal: %v", err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: columns}))
	if err != nil {
		t.Fatalf("a pseudo terminal: %v", err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("a pseudo terminal: %v", err)
	}
	shell := exec.Command("bash", "--norc", "--noprofile", "-i")
	shell.Dir, shell.Env = "../..", slices.Concat(p.env, []string{"PS1=", "INPUTRC=/dev/null"})
	shell.Stdin, shell.Stdout, shell.Stderr = slave, slave, slave
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := errors.Join(shell.Start(), slave.Close()); err != nil {
		t.Fatalf("a shell: %v", err)
	}
	c := &console{t: t, ctx: p.ctx, master: master, more: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(c.read)
	t.Cleanup(func() {
		_ = shell.Process.Kill() // it is interactive, and would not end by SIGTERM
		_ = shell.Wait()
		_ = master.Close()
		reading.Wait()
	})
	c.line("bind 'set enable-bracketed-paste off'; PS1='<rea''dy>'")
	c.expect(prompt)
	return c
}

// read keeps what the terminal shows until nobody has it open any more.
func (c *console) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := c.master.Read(buffer)
		c.mu.Lock()
		c.shown += string(buffer[:n])
		close(c.more)
		c.more = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// patience is how long anything may take that is waited for.
const patience = 40 * time.Second

// expect waits until some texts are shown, in this order, after what was looked at
// already, and returns what was shown until then.
func (c *console) expect(texts ...string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	for begin := c.from; len(texts) > 0; {
		c.mu.Lock()
		at, more := strings.Index(c.shown[c.from:], texts[0]), c.more
		if at >= 0 {
			c.from += at + len(texts[0])
			texts = texts[1:]
		}
		shown := c.shown[begin:c.from]
		rest := c.shown[c.from:]
		c.mu.Unlock()
		if len(texts) == 0 {
			return shown
		}
		if at >= 0 {
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			c.t.Fatalf("%q is not shown after %q; what is: %q", texts[0], shown, rest)
		}
	}
	return ""
}

// keys presses keys.
func (c *console) keys(text string) {
	c.t.Helper()
	if _, err := c.master.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *console) line(text string) {
	c.t.Helper()
	c.keys(text + "\n")
}

// run runs a line to its end and returns what was shown, and the exit code.
func (c *console) run(line string) (shown, code string) {
	c.t.Helper()
	c.line(line)
	shown = c.expect(prompt)
	c.line("echo code=$?.")
	c.expect("code=$?.")
	code = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(c.expect(".")), "code="), ".")
	c.expect(prompt)
	return shown, code
}

// The script for bash completes commands, flags' values and the ids of executions, the
// one with a colon too, and needs nothing that bash itself has not.
func (p *programs) completeInATerminal(t *testing.T) {
	for _, id := range []string{"pick-this", "pick:that:0"} {
		if got := taskctl(t, p.env, "submit", "customer.create", "--execution-id="+id, "--watch"); got.code != exitOK {
			t.Fatalf("%+v", got)
		}
	}
	p.until(t, "listed", func() bool { return strings.Contains(taskctl(t, p.env, "list").out, "pick:that:0") })
	c := openConsole(t, p, 120)
	if shown, code := c.run("type _init_completion; eval \"$(taskctl completion bash)\""); code != "0" || !strings.Contains(shown, "not found") {
		t.Fatalf("code %s, %q", code, shown)
	}
	c.keys("taskctl vers\t")
	c.expect("taskctl version ")
	c.line("")
	c.expect("revision", prompt)
	c.keys("taskctl version -o js\t")
	c.expect("taskctl version -o json ")
	c.line("")
	c.expect(`"revision"`, prompt)
	c.keys("taskctl get pick-\t")
	c.expect("taskctl get pick-this ")
	c.line("")
	c.expect("COMPLETED", prompt)
	c.keys("taskctl get pick:th\t")
	c.expect("taskctl get pick:that:0 ")
	c.line("")
	c.expect("pick:that:0", "COMPLETED", prompt)
	c.keys("taskctl get pick\t\t")
	c.expect("pick-this", "customer.create COMPLETED")
}

// A watch shows what has happened so far while it goes on, and what happens then.
func (p *programs) watchInATerminal(t *testing.T) {
	p.rule(t, "slow", `{"entity":"/customers"}`, `"do":"hold"`)
	if got := taskctl(t, p.env, "submit", "customer.create", "--execution-id=seen"); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	p.control(t, "GET", "rules/slow?for=reached&wait=30s", "")
	c := openConsole(t, p, 100)
	c.line("taskctl watch seen")
	c.expect("created", "\x1b[33mRUNNING\x1b[0m", "granted to worker-1/", "fence 1: in progress", "\r\x1b[K", "seen RUNNING, claim IN_PROGRESS, fence 1")
	p.control(t, "POST", "rules/slow/release", `{"action":"go"}`)
	c.expect("granted to worker-1/", "fence 1: completed", "\x1b[32mCOMPLETED\x1b[0m", prompt)
	p.control(t, "DELETE", "rules/slow", "")
	if shown, code := c.run("NO_COLOR=1 taskctl watch seen"); code != "0" || !strings.Contains(shown, "COMPLETED") || strings.Contains(shown, "\x1b[3") {
		t.Errorf("code %s, %q", code, shown)
	}
	wide := openConsole(t, p, 200)
	for c, lifelines := range map[*console]bool{c: false, wide: true} { // each as wide as it is
		shown, code := c.run("taskctl timeline seen")
		if code != "0" || !strings.Contains(shown, "Idempotency-Key: seen") || strings.Contains(shown, "│") != lifelines {
			t.Errorf("lifelines %t: code %s\n%s", lifelines, code, shown)
		}
	}
}

// An interrupted batch finishes what it has begun, and says what goes on with the rest.
// What it has replayed is replayed once, although it fails again. The same after a kill.
func (p *programs) replayInATerminal(t *testing.T) {
	var ids []string
	p.rule(t, "refused", `{"entity":"/customers"}`, `"do":"answer","status":400`)
	defer p.control(t, "DELETE", "rules/refused", "")
	for i := range 4 {
		ids = append(ids, fmt.Sprintf("batch-%d", i))
		if got := taskctl(t, p.env, "submit", "customer.create", "--execution-id="+ids[i], "--watch"); got.code != exitFailed {
			t.Fatalf("%+v", got)
		}
	}
	p.wantLetters(t, ids, 1)
	c := openConsole(t, p, 120)

	var end string
	p.holdReplayOf(t, ids[2], "reached", func() {
		c.line("taskctl dead-letters replay --all --reason 'it isn'\\''t down'")
	}, func() {
		c.expect("a batch of 4: --through ", ids[0], "\x1b[32mreplayed\x1b[0m", ids[1], "\x1b[32mreplayed\x1b[0m", "3 of 4: "+ids[2])
		c.keys("\x03")
		c.expect("interrupted: " + ids[2] + " is finished first")
		p.control(t, "POST", "rules/held/release", `{"action":"go"}`)
		end = c.expect(ids[2], "replayed", "dead-letters: 3 of 4 looked at, 3 replayed, 0 refused", "interrupted after 3 of 4", "next:", prompt)
	})
	resume := regexp.MustCompile(`taskctl dead-letters replay --all --from \d+ --through \d+ --reason .*'`).FindString(end)
	p.wantLetters(t, ids[:3], 2) // they have failed again
	if shown, code := c.run(resume); code != "0" || !strings.Contains(shown, ids[3]) || !strings.Contains(shown, "dead-letters: 1 of 1 looked at, 1 replayed, 0 refused") {
		t.Errorf("%s\ncode %s: %q", resume, code, shown)
	}
	ids = p.wantLetters(t, ids, 2) // now in the order in which they have failed

	var through string
	p.holdReplayOf(t, ids[1], "peer-gone", func() {
		c.line("taskctl dead-letters replay --all --reason again & pid=$!")
		c.expect(prompt)
		begun := c.expect("a batch of 4: --through ", ",", ids[0], "replayed", "2 of 4: "+ids[1])
		through = regexp.MustCompile(`--through (\d+),`).FindStringSubmatch(begun)[1]
		p.control(t, "GET", "rules/held?for=reached&wait=30s", "")
		c.line("kill -9 $pid; wait $pid; echo over=$?.")
		c.expect("over=137.", prompt)
	}, func() {})
	p.wantLetters(t, ids[:1], 3)
	if shown, code := c.run("taskctl dead-letters replay --all --reason again --through " + through); code != "0" || !strings.Contains(shown, "3 of 3 looked at, 3 replayed, 0 refused") {
		t.Errorf("code %s: %q", code, shown)
	}
	p.wantLetters(t, ids, 3)
}

// holdReplayOf holds the write that replays an execution: begin begins it, and then,
// when it is held or its sender has gone, something is done.
func (p *programs) holdReplayOf(t *testing.T, id, until string, begin, then func()) {
	t.Helper()
	p.rule(t, "held", fmt.Sprintf(`{"service":"cosmos","operation":"batch","entity":"executions","key":%q}`, id), `"do":"hold","times":1`)
	begin()
	p.control(t, "GET", "rules/held?for="+until+"&wait=30s", "")
	then()
	p.control(t, "DELETE", "rules/held", "")
}

// wantLetters waits until executions have failed in a run and their dead letters are
// there, and fails if one has had another run. It returns them as they stand there.
func (p *programs) wantLetters(t *testing.T, ids []string, run int) (there []string) {
	t.Helper()
	p.until(t, "dead letters", func() bool {
		got := taskctl(t, p.env, "dead-letters", "list", "-o=json")
		var page struct {
			DeadLetters []letter `json:"deadLetters"`
		}
		if err := json.Unmarshal([]byte(got.out), &page); err != nil {
			t.Fatalf("%v: %+v", err, got)
		}
		there = nil
		for _, l := range page.DeadLetters {
			if !slices.Contains(ids, l.ExecutionID) {
				continue
			}
			if l.CurrentRun > run {
				t.Fatalf("%s has had run %d, want %d", l.ExecutionID, l.CurrentRun, run)
			}
			if l.Run == run && l.Verdict == orchestrator.Safe {
				there = append(there, l.ExecutionID)
			}
		}
		return len(there) == len(ids)
	})
	return there
}
