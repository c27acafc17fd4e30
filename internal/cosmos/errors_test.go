package cosmos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
	"oneeffect/internal/receipt"
)

// answer answers every operation on items with a status, and passes on everything else.
func answer(status int, substatus, body string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		if !strings.Contains(r.URL.Path, "/docs") {
			return nil, nil
		}
		response := &http.Response{
			StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
			Header: http.Header{
				"Date": {time.Now().UTC().Format(http.TimeFormat)}, "X-Ms-Activity-Id": {"a-1"}, "Retry-After-Ms": {"1"},
			},
			Body: io.NopCloser(bytes.NewReader([]byte(body))), Request: r,
		}
		if substatus != "" {
			response.Header.Set("X-Ms-Substatus", substatus)
		}
		return response, nil
	}
}

// fail makes every operation on items end in an error.
func fail(err error) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		if !strings.Contains(r.URL.Path, "/docs") {
			return nil, nil
		}
		return nil, err
	}
}

func TestWhatAnAnswerMeans(t *testing.T) { // K1
	for _, c := range []struct {
		status             int
		substatus          string
		read, create, edit error
	}{
		{400, "", message.ErrRefused, message.ErrRefused, message.ErrRefused},
		{401, "", message.ErrRefused, message.ErrRefused, message.ErrRefused},
		{403, "", message.ErrRefused, message.ErrRefused, message.ErrRefused},
		{403, "5302", message.ErrRefused, message.ErrRefused, message.ErrRefused},
		{404, "", message.ErrNotFound, message.ErrRefused, message.ErrNotFound},
		{404, "1002", message.ErrTransient, message.ErrTransient, message.ErrTransient},
		{404, "1003", message.ErrRefused, message.ErrRefused, message.ErrRefused},
		{408, "", message.ErrUnknown, message.ErrUnknown, message.ErrUnknown},
		{409, "", message.ErrExists, message.ErrExists, message.ErrExists},
		{410, "", message.ErrUnknown, message.ErrUnknown, message.ErrUnknown},
		{412, "", message.ErrConflict, message.ErrConflict, message.ErrConflict},
		{413, "", message.ErrRefused, message.ErrRefused, message.ErrRefused},
		{429, "3200", message.ErrTransient, message.ErrTransient, message.ErrTransient},
		{449, "", message.ErrTransient, message.ErrTransient, message.ErrTransient},
		{500, "", message.ErrUnknown, message.ErrUnknown, message.ErrUnknown},
		{502, "", message.ErrUnknown, message.ErrUnknown, message.ErrUnknown},
		{503, "", message.ErrUnknown, message.ErrUnknown, message.ErrUnknown},
		{504, "", message.ErrUnknown, message.ErrUnknown, message.ErrUnknown},
	} {
		t.Run(fmt.Sprint(c.status, " ", c.substatus), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.wire.cut(answer(c.status, c.substatus, `{"code":"X","message":"Message: {\"Errors\":[\"why\"]}\r\nmore"}`))
				record := w.db.Claims().Record("82f3")
				_, err := record.Read(t.Context())
				wantError(t, err, c.read)
				_, err = record.Create(t.Context(), sample("82f3"))
				wantError(t, err, c.create)
				_, err = record.Replace(t.Context(), sample("82f3"), `"e1"`)
				wantError(t, err, c.edit)
				_, err = w.db.Executions().Change(t.Context(), "e1", execution.Change{From: execution.Running}, `"e1"`)
				wantError(t, err, c.edit)
				if said := err.Error(); strings.Contains(said, "\n") || !strings.Contains(said, fmt.Sprint(c.status)) || !strings.Contains(said, "why") || !strings.Contains(said, "a-1") {
					t.Errorf("the error says %q, want status, reason and activity in one line", said)
				}
			})
		})
	}
}

func TestARefusalNamesItsRemedy(t *testing.T) { // K1
	for _, test := range []struct {
		status            int
		substatus, remedy string
	}{
		{401, "", "correct the account's key"},
		{403, "5301", "Cosmos DB Built-in Data Contributor"},
		{403, "5302", "Cosmos DB Built-in Data Contributor"},
		{404, "1003", "create it"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.wire.cut(answer(test.status, test.substatus, `{"message":"why"}`))
			if _, err := w.db.Claims().Record("82f3").Read(t.Context()); err == nil || !strings.Contains(err.Error(), test.remedy) {
				t.Errorf("%d/%s: %v, want a word about %q", test.status, test.substatus, err, test.remedy)
			}
		})
	}
}

// A wrong key shows when the account is asked for its regions, before any item.
func TestAWrongKeyNamesItsRemedy(t *testing.T) { // K1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		db := w.open(func(o *cosmos.Options) { o.Key = "d3Jvbmc=" })
		defer db.Close()
		_, err := db.Claims().Record("82f3").Read(t.Context())
		wantError(t, err, message.ErrRefused)
		if !strings.Contains(err.Error(), "correct the account's key") {
			t.Errorf("%v: no remedy", err)
		}
	})
}

func TestAWriteRefusedWhileTheAccountMovesIsTransient(t *testing.T) { // K1, K3
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.wire.cut(answer(403, "3", "")) // the SDK would ask for two minutes
		asked := time.Now()
		_, err := w.db.Claims().Record("82f3").Create(t.Context(), sample("82f3"))
		wantError(t, err, message.ErrTransient)
		if took := time.Since(asked); took != 10*time.Second {
			t.Errorf("it took %v, want the timeout of 10s", took)
		}
	})
}

func TestWhatABrokenConnectionMeans(t *testing.T) { // K1, K2
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	timedOut := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}
	unreachable := &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EHOSTUNREACH)}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	nowhere := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "account"}}
	for name, c := range map[string]struct {
		broken   error
		want     error
		attempts int
	}{
		"reset":                                 {reset, message.ErrUnknown, 1},
		"closed":                                {io.EOF, message.ErrUnknown, 1},
		"timed out while it stood":              {timedOut, message.ErrUnknown, 1},
		"unreachable while it stood":            {unreachable, message.ErrUnknown, 1},
		"broken in a way the SDK does not know": {errors.New("http2: stream closed"), message.ErrUnknown, 1},
		"refused":                               {refused, message.ErrTransient, 4},
		"no such host":                          {nowhere, message.ErrTransient, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.wire.cut(fail(c.broken))
				_, err := w.db.Claims().Record("82f3").Create(t.Context(), sample("82f3"))
				wantError(t, err, c.want)
				w.wire.wantOperations(t, c.attempts)
			})
		})
	}
}

func TestAWriteOnceInDoubtStaysInDoubt(t *testing.T) { // K1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		refusals := 0
		w.wire.cut(func(r *http.Request) (*http.Response, error) { // refused, refused, then nobody knows
			if refusals++; refusals <= 2 {
				return answer(429, "3200", "")(r)
			}
			return nil, io.ErrUnexpectedEOF
		})
		_, err := w.db.Claims().Record("82f3").Create(t.Context(), sample("82f3"))
		wantError(t, err, message.ErrUnknown)
		w.wire.wantOperations(t, 3)
	})
}

// failing is the change of an execution that fails.
var failing = execution.Change{From: execution.Running, Status: execution.Failed, Failure: &execution.Failure{}}

// writes are all that is written after the first create, each prepared up to the write.
var writes = map[string]func(t *testing.T, w *world) (write func() error){
	"a change": func(t *testing.T, w *world) func() error {
		etag := w.create("e1")
		return func() error {
			_, err := w.db.Executions().Change(t.Context(), "e1", failing, etag)
			return err
		}
	},
	"another run": func(t *testing.T, w *world) func() error {
		etag, err := w.db.Executions().Change(t.Context(), "e1", failing, w.create("e1"))
		if err != nil {
			t.Fatal(err)
		}
		again := execution.Change{From: execution.Failed, Status: execution.Running, Reopened: &execution.Reopened{Run: 2}}
		return func() error {
			_, err := w.db.Executions().Reopen(t.Context(), "e1", again, execution.OutboxEntry("e1", "e1/run/2", 2), etag)
			return err
		}
	},
	"a join": func(t *testing.T, w *world) func() error {
		whole, entries, err := execution.NewOrchestration("e1", make([]execution.Part, 1), "sha256:00", time.Now().UTC())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.db.Executions().Create(t.Context(), whole, entries...); err != nil {
			t.Fatal(err)
		}
		joined, note, _ := execution.Unseen("e1", execution.Part{ExecutionID: "e1:0", Status: execution.Completed, Run: 1}, time.Now().UTC())
		return func() error {
			_, err := w.db.Executions().Join(t.Context(), "e1", joined, note)
			return err
		}
	},
	"the removal of an outbox entry": func(t *testing.T, w *world) func() error {
		w.create("e1")
		_, entry := sampleExecution("e1")
		return func() error { return w.db.Executions().Sent(t.Context(), entry) }
	},
	"the first count": func(t *testing.T, w *world) func() error {
		w.create("e1")
		first, _ := execution.Again(w.load("e1").Execution, nil, 0, time.Minute)
		return func() error { return w.db.Executions().Redispatch(t.Context(), first, "") }
	},
	"another count": func(t *testing.T, w *world) func() error {
		w.create("e1")
		first, _ := execution.Again(w.load("e1").Execution, nil, 0, time.Minute)
		if err := w.db.Executions().Redispatch(t.Context(), first, ""); err != nil {
			t.Fatal(err)
		}
		counted, err := w.db.Executions().Redispatched(t.Context(), "e1")
		if err != nil {
			t.Fatal(err)
		}
		return func() error { return w.db.Executions().Redispatch(t.Context(), first, counted.ETag) }
	},
	"a first item": func(t *testing.T, w *world) func() error {
		return func() error {
			_, err := w.db.Inventory().Begin(t.Context(), "sku-42", sold(receipt.OutcomeApplied), receipt.Item{Version: 10})
			return err
		}
	},
	"a receipt alone": func(t *testing.T, w *world) func() error {
		return func() error { return w.db.Inventory().Reject(t.Context(), "sku-42", sold(receipt.OutcomeStale)) }
	},
}

// Whatever is written: if its answer is lost, nobody sends it again but whoever has read
// back.
func TestEveryWriteWhoseAnswerIsLostIsInDoubtAndSentOnce(t *testing.T) { // K1, K2
	for name, prepared := range writes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				write := prepared(t, w)
				w.wire.forget()
				w.wire.cut(func(r *http.Request) (*http.Response, error) {
					if _, err := w.wire.next.Do(r); err != nil {
						t.Error(err)
					}
					return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)} // after which the SDK would
				})
				wantError(t, write(), message.ErrUnknown)
				w.wire.wantOperations(t, 1)
			})
		})
	}
}

func TestAReadIsKnownByItsLastAttempt(t *testing.T) { // K1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "read"}, Do: "answer", Status: 500, Times: 1})
		_, err := w.db.Claims().Record("82f3").Read(t.Context())
		wantError(t, err, message.ErrNotFound)
		w.wire.wantOperations(t, 2)
	})
}

func TestASuccessThatCannotBeReadIsUnknown(t *testing.T) { // K1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e, entry := sampleExecution("e1")
		for name, cut := range map[string]func(*http.Request) (*http.Response, error){
			"without an ETag": answer(201, "", ""), "not JSON": answer(200, "", "<html>"),
		} {
			w.wire.cut(cut)
			_, err := w.db.Executions().Create(t.Context(), e, entry)
			if !errors.Is(err, message.ErrUnknown) {
				t.Errorf("a batch answered %s is %v, want ErrUnknown", name, err)
			}
		}
		w.wire.cut(answer(201, "", ""))
		_, err := w.db.Claims().Record("82f3").Create(t.Context(), sample("82f3"))
		wantError(t, err, message.ErrUnknown)
	})
}

func TestABatchIsWhatItsFirstOwnFailureMeans(t *testing.T) { // K1
	for name, c := range map[string]struct {
		results string
		want    error
	}{
		"exists":    {`[{"statusCode":409},{"statusCode":424}]`, message.ErrExists},
		"entry":     {`[{"statusCode":424},{"statusCode":409}]`, message.ErrExists},
		"too large": {`[{"statusCode":424},{"statusCode":413}]`, message.ErrRefused},
		"throttled": {`[{"statusCode":429},{"statusCode":424}]`, message.ErrTransient},
		"no reason": {`[{"statusCode":424},{"statusCode":424}]`, message.ErrTransient},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.wire.cut(answer(207, "", c.results))
				e, entry := sampleExecution("e1")
				_, err := w.db.Executions().Create(t.Context(), e, entry)
				wantError(t, err, c.want)
			})
		})
	}
}

func TestTheCallersCancellationIsRecognised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.wire.cut(silent)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		_, err := w.db.Claims().Record("82f3").Create(ctx, sample("82f3"))
		wantError(t, err, message.ErrUnknown)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v does not say that it was cancelled", err)
		}
	})
}

func TestAStoredDocumentThatIsNoClaimIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for name, body := range map[string]string{
			"a wrong type": `{"id":"82f3","fence":"one","_ts":1}`, "no timestamp": `{"id":"82f3"}`, "no JSON": `nothing`,
		} {
			w.wire.cut(answer(200, "", body))
			if _, err := w.db.Claims().Record("82f3").Read(t.Context()); !errors.Is(err, message.ErrRefused) || errors.Is(err, message.ErrUnknown) {
				t.Errorf("a document with %s is %v, want ErrRefused", name, err)
			}
		}
	})
}
