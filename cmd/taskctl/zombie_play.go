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
	"slices"
	"strings"
	"sync"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"
)

// zombie is one worker that is stopped past its lease, and the task that it held.
type zombie struct {
	*app
	ground
	id, dir  string
	taskType string
	end      claim.Status // what another worker must make of the claim
	lock     time.Duration

	witness witness
	cmd     *exec.Cmd
	ended   chan error
	task    string
	trace   string
	over    uint64 // the event that ended the task
	report  zombieReport
}

// slowly is behind the name of the rule that keeps workers busy; tidyBound is how long
// it may take to take rules away, and to close the connection to the broker.
const (
	slowly    = "-slowly"
	tidyBound = 5 * time.Second
)

// play is the drill. Whatever becomes of it, the worker is ended and its rules are taken
// away.
func (z *zombie) play(ctx context.Context) error {
	z.witness = witness{base: z.control}
	if err := z.witness.skip(ctx); err != nil {
		return err
	}
	if err := z.start(ctx); err != nil {
		return err
	}
	defer z.kill()
	defer func() {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyBound)
		defer cancel()
		for _, rule := range []string{z.id + slowly, z.id} {
			_ = z.witness.ask(tidy, http.MethodDelete, "/control/rules/"+rule, nil) // it is gone already, or its worker is
		}
	}()
	for _, step := range []func(context.Context) error{z.caught, z.stop, z.takenOver, z.wake, z.count} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start starts the worker and waits until it is ready.
func (z *zombie) start(ctx context.Context) error {
	if err := os.Mkdir(z.dir, 0o700); err != nil {
		return err
	}
	handlers := filepath.Join(z.dir, "handlers.yaml")
	if err := os.WriteFile(handlers, zombieHandlers, 0o600); err != nil {
		return err
	}
	log, err := os.Create(z.logPath())
	if err != nil {
		return err
	}
	defer log.Close() // the worker has a descriptor of its own
	flags, variables := z.Reach()
	z.cmd = exec.Command(z.worker, slices.Concat([]string{"-id=" + z.id, "-handlers=" + handlers, "-lock=" + z.lock.String()}, zombieTerms, flags)...)
	z.cmd.Env = slices.Concat(z.env, variables, []string{"CRM_URL=" + z.downstream, "PRINT_URL=" + z.downstream})
	z.cmd.Stderr, z.cmd.WaitDelay = log, waitDelay
	stdout, err := z.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := z.cmd.Start(); err != nil {
		return err
	}
	ready := make(chan struct{})
	z.ended = make(chan error, 1)
	go func() {
		var once sync.Once
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if lines.Text() == "ready" {
				once.Do(func() { close(ready) })
			}
		}
		_, _ = io.Copy(io.Discard, stdout) // after a line too long for the scanner
		z.ended <- z.cmd.Wait()
	}()
	select {
	case <-ready:
		return nil
	case err := <-z.ended:
		z.ended <- err
		return fmt.Errorf("the worker ended before it was ready (%v); its log:\n%s", z.cmd.ProcessState, z.said())
	case <-ctx.Done():
		z.kill()
		return context.Cause(ctx)
	}
}

func (z *zombie) logPath() string { return filepath.Join(z.dir, "worker.log") }

// said is the worker's log.
func (z *zombie) said() string {
	text, err := os.ReadFile(z.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// kill ends the worker, whether it sleeps or not.
func (z *zombie) kill() {
	_ = z.cmd.Process.Kill() // it may have ended already
	err := <-z.ended
	z.ended <- err // for whoever asks again
}

// mostTries bounds how many tasks are submitted until the worker gets one.
const mostTries = 200

// caught has tasks submitted until the worker gets one and makes its call, whose answer
// is held. The system's workers would take all of them, so calls take a while until the
// others have no slot free. What they take is as good as any task.
func (z *zombie) caught(ctx context.Context) error {
	busy := map[string]any{"name": z.id + slowly, "do": "delay", "delay": "3s", "match": map[string]any{"service": "downstream"}}
	if err := z.witness.ask(ctx, http.MethodPost, "/control/rules", busy); err != nil {
		return err
	}
	taken, err := z.taken(ctx)
	if err != nil {
		return err
	}
	hold := map[string]any{
		"name": z.id, "when": "after", "do": "hold", "times": 1, "match": map[string]any{"service": "downstream", "client": z.id},
	}
	if err := z.witness.ask(ctx, http.MethodPost, "/control/rules", hold); err != nil {
		return err
	}
	if err := z.witness.ask(ctx, http.MethodDelete, "/control/rules/"+z.id+slowly, nil); err != nil {
		return err
	}
	z.report = zombieReport{Type: z.taskType, Task: z.task}
	z.report.saw("taken by "+z.id, "store, event %d: claim created, with a lease of %v", taken.Seq, zombieLease)
	held, err := z.witness.await(ctx, "that it calls", func(e sighting) bool { return e.Kind == "rule-reached" && e.Rule == z.id })
	if err != nil {
		return fmt.Errorf("%w; its log:\n%s", err, z.said())
	}
	z.report.saw("its call has its effect", "downstream, event %d: done, and not answered yet", held.Seq)
	return nil
}

// taken submits tasks until the worker has the claim of one.
func (z *zombie) taken(ctx context.Context) (sighting, error) {
	for n := range mostTries {
		id := fmt.Sprintf("%s-%d", z.id, n+1)
		header, trace := newTrace()
		if err := z.submitTask(ctx, id, header); err != nil {
			return sighting{}, err
		}
		e, err := z.witness.await(ctx, "that a worker takes "+id, func(e sighting) bool {
			return e.Entity == "claims" && e.Operation == "create" && e.Key == id && e.Status == http.StatusCreated
		})
		if err != nil {
			return sighting{}, err
		}
		if e.Client == z.id {
			z.task, z.trace = id, trace
			return e, nil
		}
	}
	return sighting{}, fmt.Errorf("%d tasks were submitted and other workers took all of them", mostTries)
}

func (z *zombie) submitTask(ctx context.Context, id, traceparent string) error {
	body, err := json.Marshal(map[string]any{"executionId": id, "type": z.taskType, "payload": map[string]any{"name": "Ada Lovelace"}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(z.orchestrator, "/")+"/v1/executions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", traceparent)
	_, err = answerTo(req)
	return err
}

// stop stops the worker where it is, has the answer come while it sleeps, and sends the
// task once more, as a relay may.
func (z *zombie) stop(ctx context.Context) error {
	if err := standStill(z.cmd.Process.Pid); err != nil {
		return err
	}
	z.report.saw("stopped by SIGSTOP", "process %d", z.cmd.Process.Pid)
	if err := z.witness.ask(ctx, http.MethodPost, "/control/rules/"+z.id+"/release", map[string]any{"action": "go"}); err != nil {
		return err
	}
	db, err := z.store()
	if err != nil {
		return err
	}
	defer db.Close()
	stands, err := db.Executions().Load(ctx, z.task)
	if err != nil {
		return err
	}
	e := stands.Execution
	m, err := e.Task(e.Run, stands.ETag).Message(message.CopyMessageID(z.task, "zombie"), time.Now())
	if err != nil {
		return err
	}
	o, err := z.BrokerOptions()
	if err != nil {
		return err
	}
	bus, err := servicebus.Dial(o)
	if err != nil {
		return err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyBound)
		defer cancel()
		_ = bus.Close(bounded) // the process ends soon, and its connection with it
	}()
	queue, err := bus.Sender(message.Tasks)
	if err != nil {
		return err
	}
	return queue.Send(ctx, m)
}

// takenOver waits until another worker has ended the task in the place of the stopped.
func (z *zombie) takenOver(ctx context.Context) error {
	e, err := z.witness.await(ctx, "that another worker ends it", func(e sighting) bool {
		return e.Entity == "claims" && e.Operation == "replace" && e.Key == z.task && e.Client != z.id && e.Status == http.StatusOK && e.BodyStatus == string(z.end)
	})
	if err == nil {
		z.over = e.Seq
		z.report.saw("taken over and ended by "+e.Client, "store, event %d: claim %s", e.Seq, e.BodyStatus)
	}
	return err
}

// wake lets the worker go on: with what it holds for a lease, until it has settled.
func (z *zombie) wake(ctx context.Context) error {
	if err := z.cmd.Process.Signal(signalContinue); err != nil {
		return err
	}
	z.report.saw("woken by SIGCONT", "process %d", z.cmd.Process.Pid)
	e, err := z.witness.await(ctx, "that it writes its claim", func(e sighting) bool {
		return e.Kind == "request" && e.Entity == "claims" && e.Operation == "replace" && e.Key == z.task && e.Client == z.id && e.Seq > z.over
	})
	if err != nil {
		return fmt.Errorf("%w; its log:\n%s", err, z.said())
	}
	refused := e.Status == http.StatusPreconditionFailed
	z.report.saw("writes "+e.BodyStatus, "store, event %d: status %d", e.Seq, e.Status)
	settled, err := z.witness.await(ctx, "that it settles", func(e sighting) bool {
		return e.Kind == "settled" && e.Entity == message.Tasks && e.Client == z.id && strings.HasPrefix(e.Key, z.task)
	})
	if err != nil {
		return fmt.Errorf("%w; its log:\n%s", err, z.said())
	}
	known := slices.ContainsFunc(strings.Split(z.said(), "\n"), func(line string) bool {
		return strings.Contains(line, `"fenced"`) && strings.Contains(line, z.task)
	})
	z.report.Fenced = refused && known
	z.report.saw("fenced", "its log says so: %v", known)
	z.report.saw("settles by what stands", "broker, event %d: %s", settled.Seq, settled.Disposition)
	return nil
}

// count counts, when everything has been said of the task.
func (z *zombie) count(ctx context.Context) error {
	if _, err := z.witness.await(ctx, "the end of the execution", func(e sighting) bool {
		return e.Entity == "executions" && e.Operation == "patch" && e.Key == z.task && e.Status == http.StatusOK
	}); err != nil {
		return err
	}
	db, err := z.store()
	if err != nil {
		return err
	}
	defer db.Close()
	stands, err := db.Claims().Record(z.task).Read(ctx)
	if err != nil {
		return err
	}
	if err := z.witness.more(ctx, 0); err != nil {
		return err
	}
	for _, e := range z.witness.seen {
		if e.Kind == "effect" && strings.Contains(e.Traceparent, z.trace) {
			z.report.Effects++
		}
	}
	z.report.Claim, z.report.Reason = string(stands.Claim.Status), whyFailed(stands.Claim)
	z.report.saw("in the end", "claim %s, fence %d, %d effects at the downstream", strings.TrimSpace(z.report.Claim+" "+z.report.Reason), stands.Claim.Fence, z.report.Effects)
	if z.report.Claim == string(claim.Failed) && z.report.Reason != claim.OutcomeUnknown {
		return errors.New("the claim failed for another reason: " + z.report.Reason)
	}
	return nil
}
