package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// Where what runs on this machine listens, unless flags say otherwise: taskctl looks
// for it there.
const (
	usualAMQP       = "127.0.0.1:5672"
	usualAPI        = "127.0.0.1:8080"
	usualCosmos     = "127.0.0.1:8081"
	usualDownstream = "127.0.0.1:8082"
	usualControl    = "127.0.0.1:8084"

	anywhere = "127.0.0.1:0"
)

// up starts everything, sends one sample through it, and stays until ctx ends.
func up(ctx context.Context, bin string, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("local up", flag.ContinueOnError)
	flags.SetOutput(stderr)
	amqp := flags.String("amqp", usualAMQP, "address of the Service Bus emulator")
	cosmos := flags.String("cosmos", usualCosmos, "address of the Cosmos DB emulator")
	downstream := flags.String("downstream", usualDownstream, "address of the downstream system")
	control := flags.String("control", usualControl, "address of the emulators' control interface")
	api := flags.String("api", usualAPI, "address of the orchestrator")
	projector := flags.String("projector", "127.0.0.1:8083", "address of the projector's webhooks")
	handlers := flags.String("handlers", "handlers.yaml", "file that declares the handlers")
	dir := flags.String("dir", ".local/log", "folder for the logs")
	data := flags.String("data", ".local/data", "folder in which messages and documents outlive the emulators; delete it to start afresh, \"\" keeps nothing")
	proofs := flags.String("evidence", "evidence", "folder of evidence that the page shows, if it is there")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not a flag: local up takes flags only, -h lists them", flags.Arg(0))
	}
	logs, err := logFolder(*dir)
	if err != nil {
		return err
	}
	release, err := holdFolder(logs)
	if err != nil {
		return err
	}
	defer release()
	s := &system{bin: bin, dir: logs}
	defer func() {
		fmt.Fprintln(stdout, "stopping; a call that has begun may end first, Ctrl-C again ends everything at once")
		s.stop()
		fmt.Fprintln(stdout, "stopped")
	}()
	if err := s.emulator(ctx, "-amqp", *amqp, "-cosmos", *cosmos, "-downstream", *downstream, "-control", *control, "-data", *data); err != nil {
		return err
	}
	db, err := s.database(ctx)
	if err != nil {
		return err
	}
	db.Close()
	if err := s.orchestrator(ctx, *api, shown(*proofs)...); err != nil {
		return err
	}
	for _, id := range []string{"worker-1", "worker-2"} {
		if _, err := s.worker(ctx, id, *handlers); err != nil {
			return err
		}
	}
	if err := s.projector(ctx, *projector); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "page and API  http://%s\nprojector     http://%s/webhooks/local (docs/operations.md says how to sign)\ndownstream    http://%s/ledger\ncontrol       http://%s/control/events\nstore         http://%s\nlogs          %s\n", s.api, s.webhooks, s.downstream, s.control, s.cosmos, s.dir)
	if *data != "" {
		fmt.Fprintf(stdout, "data          %s (delete it to start afresh)\n", *data)
	}
	if err := s.sample(ctx, stdout); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "everything runs; Ctrl-C stops it")
	return s.failed(ctx)
}

// shown is what the orchestrator is told of a folder of evidence, if there is one.
func shown(dir string) []string {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil
	}
	return []string{"-evidence", dir}
}

// sampleBound is how long the sample may take before something is wrong.
const sampleBound = 30 * time.Second

// sample submits one execution and shows how it ended.
func (s *system) sample(ctx context.Context, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, sampleBound)
	defer cancel()
	const request = `{"type":"customer.create","payload":{"name":"Ada Lovelace"}}`
	fmt.Fprintf(stdout, "\ncurl -H 'Content-Type: application/json' -d '%s' http://%s/v1/executions\n", request, s.api)
	answer, _, err := ask(ctx, http.DefaultClient, http.MethodPost, "http://"+s.api+"/v1/executions", []byte(request))
	if err != nil {
		return fmt.Errorf("submit the sample: %w", err)
	}
	var created struct {
		ExecutionID string `json:"executionId"`
	}
	if err := json.Unmarshal(answer, &created); err != nil {
		return fmt.Errorf("submit the sample: %w", err)
	}
	c := &controller{address: s.control}
	_, err = c.await(ctx, func(e event) bool {
		return e.Service == "cosmos" && e.Kind == "request" && e.Entity == "executions" &&
			e.Operation == "patch" && e.Key == created.ExecutionID && e.Status == http.StatusOK
	})
	if err != nil {
		return fmt.Errorf("the sample %s did not end within %v; see the logs in %s: %w", created.ExecutionID, sampleBound, s.dir, err)
	}
	answer, _, err = ask(ctx, http.DefaultClient, http.MethodGet, "http://"+s.api+"/v1/executions/"+created.ExecutionID, nil)
	if err != nil {
		return fmt.Errorf("read the sample: %w", err)
	}
	fmt.Fprintf(stdout, "%s\n", answer)
	return nil
}
