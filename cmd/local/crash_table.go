package main

import (
	"slices"
	"strings"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// mode is what becomes of the process that has come to a crash point.
type mode string

const (
	sigkill mode = "killed"   // by SIGKILL; another process goes on
	sigstop mode = "paused"   // by SIGSTOP, until another process has gone on in its place; then SIGCONT
	alive   mode = "alive"    // nothing: only an answer is lost, or late
	sigterm mode = "stopping" // by SIGTERM: it ends its work and then itself
)

// modes in the order in which cells are listed.
var modes = []mode{sigkill, sigstop, alive, sigterm}

// point is where a process is caught: by a rule of the emulators at an operation
// that it asks for. The process itself has no part in it.
type point struct {
	program string // whose: worker, orchestrator or projector
	at      match  // the operation; whose it is, and about which execution, is filled in
	suffix  string // of the operation's key, behind the execution's id
	after   bool   // once it was applied, and not before
	late    bool   // before it was applied, and it is applied in the end, when others have gone on
	drop    bool   // it is lost in the end, and not answered
	early   bool   // what a paused process asked for is answered while it sleeps
	nth     int    // at the nth operation of that kind; zero: the first

	call   string // "before" or "after": the downstream's call is held there meanwhile
	first  int    // status of the downstream's first answer; nothing is done then
	outage bool   // the worker's store does not answer
	twice  bool   // the task is delivered a second time meanwhile
	replay bool   // an operator begins another run of a failed execution
}

// outcome is what there is to be counted in the end.
type outcome struct {
	Effects     int      `json:"effects"`     // in the downstream's ledger; of a projector: in the stock
	Status      string   `json:"status"`      // of the execution
	Completions int      `json:"completions"` // in the execution's history
	Failures    int      `json:"failures"`    // in the execution's history
	Runs        int      `json:"runs"`
	DeadLetters []string `json:"deadLetters"` // of the queue of tasks: their reasons
}

// The outcomes there are.
var (
	once     = outcome{Effects: 1, Status: string(execution.Completed), Completions: 1, Runs: 1}
	rejected = outcome{Status: string(execution.Failed), Failures: 1, Runs: 1, DeadLetters: []string{claim.DownstreamRejected}}
	again    = outcome{Effects: 1, Status: string(execution.Completed), Completions: 1, Failures: 1, Runs: 2, DeadLetters: []string{claim.DownstreamRejected}}
	applied  = outcome{Effects: 1} // to a stock
)

// unknown is a task that was given up since nobody knows what its call has done.
func unknown(effects int) outcome {
	return outcome{Effects: effects, Status: string(execution.Failed), Failures: 1, Runs: 1, DeadLetters: []string{claim.OutcomeUnknown}}
}

// ends are the outcomes of one point, by what becomes of the process.
type ends map[mode]outcome

func all(o outcome, of ...mode) ends {
	e := ends{}
	for _, m := range of {
		e[m] = o
	}
	return e
}

// crossing is a row of the table in docs/guarantees.md and one way to come to it.
type crossing struct {
	row            string // to the letter
	how            string // where a row has several ways
	point          point
	keyed, keyless ends
}

// cell is one run.
type cell struct {
	crossing
	isKeyed bool
	mode    mode
	want    outcome
}

// name is that by which cells are asked for.
func (c cell) name() string {
	parts := []string{c.titled()}
	if kind := c.kind(); kind != noHandler {
		parts = append(parts, kind)
	}
	return strings.Join(append(parts, string(c.mode)), " / ")
}

// titled is the row, and the way to come to it.
func (c cell) titled() string {
	if c.how == "" {
		return c.row
	}
	return c.row + " / " + c.how
}

// noHandler is the kind of cells in which none is called.
const noHandler = "none"

// kind is that of the handler.
func (c cell) kind() string {
	switch {
	case c.point.program == "projector":
		return noHandler
	case c.isKeyed:
		return "keyed"
	}
	return "keyless"
}

// cells are all cells of the matrix, in the order of its rows.
func cells(matrix []crossing) []cell {
	var found []cell
	for _, c := range matrix {
		for _, m := range modes {
			if want, ok := c.keyed[m]; ok {
				found = append(found, cell{c, true, m, want})
			}
			if want, ok := c.keyless[m]; ok {
				found = append(found, cell{c, false, m, want})
			}
		}
	}
	return found
}

// The operations at which processes are caught.
var (
	claims      = match{Service: "cosmos", Operation: "create", Entity: "claims"}
	callStarts  = match{Service: "cosmos", Operation: "replace", Entity: "claims", Body: map[string]any{"/status": string(claim.InProgress), "/callStarted": true}}
	renews      = match{Service: "cosmos", Operation: "replace", Entity: "claims", Body: map[string]any{"/status": string(claim.InProgress)}}
	completes   = match{Service: "cosmos", Operation: "replace", Entity: "claims", Body: map[string]any{"/status": string(claim.Completed)}}
	calls       = match{Service: "downstream", Operation: "call"}
	publishes   = match{Service: "servicebus", Operation: "send", Entity: message.TaskEvents}
	settles     = match{Service: "servicebus", Operation: "complete", Entity: message.Tasks}
	deadLetters = match{Service: "servicebus", Operation: "dead-letter", Entity: message.Tasks}
	dispatches  = match{Service: "servicebus", Operation: "send", Entity: message.Tasks}
	batches     = match{Service: "cosmos", Operation: "batch", Entity: "executions"}
	forgets     = match{Service: "cosmos", Operation: "delete", Entity: "executions"}
	transitions = match{Service: "cosmos", Operation: "patch", Entity: "executions"}
	observed    = match{Service: "servicebus", Operation: "complete", Entity: subscription}
	projects    = match{Service: "cosmos", Operation: "batch", Entity: "inventory"}
	projected   = match{Service: "servicebus", Operation: "complete", Entity: inventory}
)

const inventory = message.Reservations + "/subscriptions/" + message.Inventory

// rowOfNothingWritten has a completion that is on its way when its sender ends.
const rowOfNothingWritten = "completion sent, not applied, then crash"

// matrix is the crash matrix. Its rows are those of docs/guarantees.md, and a test
// compares the two.
var matrix = slices.Concat(takingRows, callingRows, endingRows, specialRows, orchestratorRows, projectorRows)
