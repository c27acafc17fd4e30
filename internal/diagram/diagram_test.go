package diagram_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"oneeffect/internal/claim"
	"oneeffect/internal/diagram"
	"oneeffect/internal/execution"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func after(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

// drawn is the drawing that this system is built after, as a timeline holds it.
func drawn() diagram.Timeline {
	return diagram.Timeline{
		ExecutionID: "82f3", Type: "customer.create", Status: execution.Completed, Run: 1, TraceID: "0af7651916cd43dd8448eb211c80319c",
		Claim: &diagram.Claim{
			Status: claim.Completed, Run: 1, Fence: 2, Owner: "worker-2/b/2", LeaseSeconds: 300, Keyed: true, Starts: 2, ResultRef: "/customers/1",
		},
		Dispatches: []diagram.Dispatch{{Run: 1, MessageID: "82f3", State: diagram.DispatchSent}},
		Entries: []diagram.Moment{
			{At: noon, Source: diagram.FromExecution, What: "created", By: "anonymous", To: execution.Running, Run: 1},
			{At: after(0.25), Source: diagram.FromClaim, What: "granted", Fence: 1, Owner: "worker-1/a/1", End: claim.EndExpired},
			{At: after(310), Source: diagram.FromClaim, What: "granted", Fence: 2, Owner: "worker-2/b/2", End: "completed"},
			{At: after(310.5), Source: diagram.FromExecution, What: "completed", From: execution.Running, To: execution.Completed, Run: 1, Fence: 2},
			{At: after(311), Source: diagram.Seen, What: diagram.NoOp, To: execution.Completed, Run: 1},
		},
	}
}

// said is each arrow as a line, those without a number too.
func said(d diagram.Diagram) []string {
	var lines []string
	for _, a := range d.Arrows {
		marks := string(a.Mark)
		if a.Inferred {
			marks += " inferred"
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%d %s>%s %s %s", a.Number, d.Lifelines[a.From].Name, d.Lifelines[a.To].Name, a.Label, marks)))
	}
	return lines
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The lifelines of the drawing, and its fourteen arrows between the same of them.
func TestTheDrawingIsDrawnArrowByArrow(t *testing.T) { // G1
	d := diagram.Of(drawn())
	equal(t, said(d), []string{
		"0 Orchestrator>Orchestrator created by anonymous · RUNNING · 82f3 to be sent",
		"1 Service Bus>worker-1 deliver taskExecutionId 82f3 · attempt 1",
		"2 worker-1>Idempotency store claim 82f3 · IN_PROGRESS · lease 5 min",
		"3 worker-1>Downstream system customer.create · Idempotency-Key: 82f3, if it came so far  inferred",
		"4 Downstream system>worker-1 an answer, if any: not recorded  inferred",
		"5 worker-1>worker-1 stopped before recording a result crash inferred",
		"6 Service Bus>worker-2 lock expired · redeliver 82f3 expired",
		"7 worker-2>Idempotency store read 82f3 → IN_PROGRESS, lease stale · take over, fence 2",
		"0 Idempotency store>Idempotency store fenced: what fence 1 writes now is refused fenced inferred",
		"8 worker-2>Downstream system customer.create · Idempotency-Key: 82f3",
		"9 Downstream system>worker-2 applied · /customers/1",
		"10 worker-2>Idempotency store mark COMPLETED · result /customers/1 success",
		"11 worker-2>Service Bus TaskCompleted · complete message",
		"12 Service Bus>Orchestrator completion for 82f3",
		"13 Orchestrator>Cosmos DB transition RUNNING → COMPLETED (ETag) success",
		"14 Cosmos DB>Orchestrator already COMPLETED → no-op, message settled duplicate",
	})
	var names []string
	for _, l := range d.Lifelines {
		names = append(names, l.Name)
	}
	equal(t, names, []string{"Service Bus", "worker-1", "worker-2", "Idempotency store", "Downstream system", "Orchestrator", "Cosmos DB"})
}

func TestATextDiagramHasLifelinesWhereTheyFitAndLinesWhereNot(t *testing.T) {
	d := diagram.Of(drawn())
	for columns, name := range map[int]string{0: "wide", 119: "wide", 118: "narrow"} {
		want, err := os.ReadFile("testdata/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if got := diagram.Text(d, columns); got != string(want) {
			t.Errorf("%d columns: got\n%s\nwant\n%s", columns, got, want)
		}
	}
}

// What each end of a grant, and each note, adds.
func TestEveryEndHasItsArrows(t *testing.T) { // G1
	keyless := func(c *diagram.Claim) { c.Keyed = false }
	for name, test := range map[string]struct {
		claim   func(*diagram.Claim)
		entries []diagram.Moment
		want    []string
	}{
		"the lease stands": {func(c *diagram.Claim) { c.Status, c.AgeSeconds = claim.InProgress, 10 }, []diagram.Moment{grant(1, "")},
			[]string{"3 Idempotency store>Idempotency store lease stands: another delivery is busy, and nothing runs twice busy"}},
		"granted after it was busy": {nil, []diagram.Moment{grant(1, claim.EndExpired), waited(2, "completed")},
			[]string{"6 Service Bus>worker-2 lock expired · redeliver 82f3 expired", "0 Idempotency store>Idempotency store busy: the lease stood for another 7 s, and nothing ran busy",
				"7 worker-2>Idempotency store read 82f3 → IN_PROGRESS, lease stale · take over, fence 2", "0 Idempotency store>Idempotency store fenced: what fence 1 writes now is refused fenced inferred",
				"8 worker-2>Downstream system customer.create · Idempotency-Key: 82f3", "9 Downstream system>worker-2 applied · /customers/1", "10 worker-2>Idempotency store mark COMPLETED · result /customers/1 success", "11 worker-2>Service Bus TaskCompleted · complete message"}},
		"granted at its time": {func(c *diagram.Claim) { c.Status, c.AgeSeconds = claim.InProgress, 10 }, []diagram.Moment{grant(1, "released"), waited(2, "")},
			[]string{"0 Idempotency store>Idempotency store busy: released, not before its time, which was 7 s away busy", "5 worker-2>Idempotency store read 82f3 → released · IN_PROGRESS, fence 2",
				"6 Idempotency store>Idempotency store lease stands: another delivery is busy, and nothing runs twice busy"}},
		"the lease is stale": {func(c *diagram.Claim) { c.Status, c.AgeSeconds = claim.InProgress, 400 }, []diagram.Moment{grant(1, "")},
			[]string{"3 worker-1>worker-1 silent for 6 min, lease 5 min: whoever comes next takes over crash inferred"}},
		"a call without a key has begun": {func(c *diagram.Claim) { c.Status, c.Keyed, c.CallStarted = claim.InProgress, false, true }, []diagram.Moment{grant(1, "")},
			[]string{"3 worker-1>Downstream system customer.create · a call has begun", "4 Idempotency store>Idempotency store lease stands: another delivery is busy, and nothing runs twice busy"}},
		"released, and waited for": {func(c *diagram.Claim) { c.Status, c.Released, c.NotBefore = claim.InProgress, true, after(30) }, []diagram.Moment{grant(1, "released")},
			[]string{"3 worker-1>Idempotency store release 82f3 · for another attempt, not before 12:00:30"}},
		"failed by its owner": {func(c *diagram.Claim) { c.Status, c.Fence = claim.Failed, 1 }, []diagram.Moment{grant(1, "failed: DownstreamRejected")},
			[]string{"3 worker-1>Downstream system customer.create · Idempotency-Key: 82f3", "4 Downstream system>worker-1 refused: not applied failure", "5 worker-1>Idempotency store mark FAILED · DownstreamRejected failure", "6 worker-1>Service Bus TaskFailed · dead-letter message failure"}},
		"failed, and nobody knows": {func(c *diagram.Claim) { keyless(c); c.Status, c.Fence = claim.Failed, 1 }, []diagram.Moment{grant(1, "failed: OutcomeUnknown")},
			[]string{"3 worker-1>Downstream system customer.create · without a key", "4 Downstream system>worker-1 no answer that tells whether it was applied failure", "5 worker-1>Idempotency store mark FAILED · OutcomeUnknown failure", "6 worker-1>Service Bus TaskFailed · dead-letter message failure"}},
		"failed before any call": {func(c *diagram.Claim) { c.Status, c.Fence = claim.Failed, 1 }, []diagram.Moment{grant(1, "failed: KeyWindowPassed")},
			[]string{"2 worker-1>Idempotency store claim 82f3 · IN_PROGRESS · lease 5 min", "3 worker-1>Idempotency store mark FAILED · KeyWindowPassed failure", "4 worker-1>Service Bus TaskFailed · dead-letter message failure"}},
		"failed for another reason": {func(c *diagram.Claim) { c.Status, c.Fence = claim.Failed, 1 }, []diagram.Moment{grant(1, "failed: AttemptsExhausted")},
			[]string{"3 worker-1>Downstream system customer.create · Idempotency-Key: 82f3, if it came so far  inferred", "4 Downstream system>worker-1 an answer, if any: not recorded  inferred", "5 worker-1>Idempotency store mark FAILED · AttemptsExhausted failure", "6 worker-1>Service Bus TaskFailed · dead-letter message failure"}},
		"failed by who came next": {func(c *diagram.Claim) {
			keyless(c)
			c.Status, c.Owner, c.CallStarted = claim.Failed, "worker-2/b/9", true
		}, []diagram.Moment{grant(1, "failed: OutcomeUnknown")},
			[]string{"3 worker-1>Downstream system customer.create · without a key, if it came so far  inferred", "4 Downstream system>worker-1 an answer, if any: not recorded  inferred", "5 worker-1>worker-1 stopped before recording a result crash inferred", "6 worker-2>Idempotency store read IN_PROGRESS, nobody's any more → FAILED · OutcomeUnknown failure"}},
		"resolved by an operator": {nil, []diagram.Moment{grant(1, "completed"), {Source: diagram.FromClaim, Fence: 2, Owner: "orchestrator/x/y", End: "resolved"},
			{At: after(9), Source: diagram.FromExecution, What: "resolved", By: "eve", From: execution.Failed, To: execution.Completed, Detail: "seen"}},
			[]string{"7 Operator>Orchestrator resolved by eve · seen decision", "8 Orchestrator>Idempotency store claim FAILED → COMPLETED · fence 2 decision", "9 Orchestrator>Cosmos DB transition FAILED → COMPLETED (ETag) success"}},
		"cancelled": {nil, []diagram.Moment{{At: noon, Source: diagram.FromExecution, What: "cancelled", By: "eve", From: execution.Running, To: execution.Cancelled}},
			[]string{"1 Operator>Orchestrator cancelled by eve decision", "2 Orchestrator>Cosmos DB transition RUNNING → CANCELLED (ETag) decision"}},
		"a late failure": {nil, []diagram.Moment{{At: noon, Source: diagram.FromExecution, What: "completed", From: execution.Running, To: execution.Completed}, {At: noon, Source: diagram.FromExecution, What: "failure after completion ignored", Detail: "OutcomeUnknown"}},
			[]string{"3 Service Bus>Orchestrator failure after completion ignored · OutcomeUnknown duplicate", "4 Cosmos DB>Orchestrator COMPLETED: state unchanged, message settled duplicate"}},
		"another result": {nil, []diagram.Moment{{At: noon, Source: diagram.Seen, What: diagram.Contradiction, To: execution.Completed}},
			[]string{"1 Cosmos DB>Orchestrator COMPLETED with another result: unchanged, event dead-lettered failure"}},
		"known to have been refused": {nil, []diagram.Moment{grant(1, claim.EndExpired), grant(2, "completed"), refused(1, "TaskCompleted"), {At: noon, Source: diagram.Seen, What: diagram.NoOp, To: execution.Completed}},
			[]string{"5 worker-1>worker-1 recorded no result before its lease ended expired", "6 Service Bus>worker-2 lock expired · redeliver 82f3 expired", "7 worker-2>Idempotency store read 82f3 → IN_PROGRESS, lease stale · take over, fence 2",
				"8 worker-2>Downstream system customer.create · Idempotency-Key: 82f3", "9 Downstream system>worker-2 applied · /customers/1", "10 worker-2>Idempotency store mark COMPLETED · result /customers/1 success", "11 worker-2>Service Bus TaskCompleted · complete message",
				"12 worker-1>Idempotency store write under fence 1 → refused: it is another's by now fenced", "13 worker-1>Service Bus TaskCompleted again · complete message duplicate", "14 Cosmos DB>Orchestrator already COMPLETED → no-op, message settled duplicate"}},
		"refused, under a grant that is not kept": {nil, []diagram.Moment{refused(3, "TaskFailed")},
			[]string{"1 a worker>Idempotency store write under fence 3 → refused: it is another's by now fenced", "2 a worker>Service Bus TaskFailed again · dead-letter message duplicate"}},
		"recovered": {nil, []diagram.Moment{{At: noon, Source: diagram.FromExecution, What: "recovered", From: execution.Failed, To: execution.Completed}},
			[]string{"1 Service Bus>Orchestrator completion for 82f3", "2 Orchestrator>Cosmos DB transition FAILED → COMPLETED (ETag): the claim is right success"}},
	} {
		t.Run(name, func(t *testing.T) {
			line := drawn()
			if test.claim != nil {
				test.claim(line.Claim)
			}
			line.Entries = test.entries
			got := said(diagram.Of(line))
			if len(got) < len(test.want) {
				t.Fatalf("%q", got)
			}
			equal(t, got[len(got)-len(test.want):], test.want)
		})
	}
}

func grant(fence int64, end string) diagram.Moment {
	return diagram.Moment{At: after(float64(fence)), Source: diagram.FromClaim, What: "granted", Fence: fence, Owner: fmt.Sprintf("worker-%d/a/%d", fence, fence), End: end}
}

// refused is what is known of a worker that was refused a write.
func refused(fence int64, event string) diagram.Moment {
	return diagram.Moment{At: noon, Source: diagram.Seen, What: diagram.Refused, Fence: fence, Detail: event}
}

// waited is a grant whose delivery had found the claim busy.
func waited(fence int64, end string) diagram.Moment {
	m := grant(fence, end)
	m.BusySeconds = 7
	return m
}

// The claim says how long the newest grant's lease is; the first one's may have been
// another, and the picture says that one's.
func TestTheLeaseOfTheFirstGrantIsItsOwn(t *testing.T) { // G1
	for name, test := range map[string]struct {
		leases []int // of the grants, as far as they are noted
		want   string
	}{
		"all alike":       {[]int{0, 0, 0}, "lease 5 min"},
		"another":         {[]int{10, 0, 0}, "lease 10 s"},
		"as of the next":  {[]int{0, 10, 0}, "lease 10 s"},
		"both are others": {[]int{20, 10, 0}, "lease 20 s"},
	} {
		line := drawn()
		line.Entries = nil
		for i, lease := range test.leases {
			m := grant(int64(i+1), claim.EndExpired)
			m.LeaseSeconds = lease
			line.Entries = append(line.Entries, m)
		}
		if label := diagram.Of(line).Arrows[1].Label; label != "claim 82f3 · IN_PROGRESS · "+test.want {
			t.Errorf("%s: %q, want %s", name, label, test.want)
		}
	}
}

// Text that fits on neither side of its mark stands above it, and neither lies over the
// other.
func TestARemarkAndItsMarkAreBothSeen(t *testing.T) {
	for n := 1; n <= 110; n += 3 {
		label := strings.Repeat("x", n)
		d := diagram.Diagram{Lifelines: []diagram.Lifeline{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Arrows: []diagram.Arrow{{From: 1, To: 1, Label: label}}}
		if text := diagram.Text(d, 0); !strings.Contains(text, label) || strings.Count(text, "•") != 1 {
			t.Errorf("%d characters:\n%s", n, text)
		}
	}
}

// A process that was started again is another one, under the same name.
func TestAProcessThatWasStartedAgainHasALifelineOfItsOwn(t *testing.T) {
	line := drawn()
	line.Entries[2].Owner = "worker-1/z/2"
	d := diagram.Of(line)
	if d.Lifelines[1].Name != "worker-1" || d.Lifelines[2].Name != "worker-1 (process 2)" {
		t.Errorf("%+v", d.Lifelines)
	}
}

func TestWhatWaitsIsRemarkedOn(t *testing.T) {
	line := diagram.Timeline{
		ExecutionID: "82f3", Dispatches: []diagram.Dispatch{{Run: 1, MessageID: "82f3", State: diagram.DispatchWaiting}},
		Redispatch: &diagram.Redispatch{Run: 1, Times: 2, AgeSeconds: 600},
	}
	equal(t, said(diagram.Of(line)), []string{
		"0 Orchestrator>Orchestrator nobody worked on run 1: sent again 2 times, 10 min ago last",
		"0 Orchestrator>Orchestrator 82f3 waits in the outbox",
	})
}

const hostile = "<script>alert(1)</script>\x1b[2J\u202e\n\"'&\xff"

// spoiled is a timeline in which everything that somebody else wrote is hostile.
func spoiled() diagram.Timeline {
	line := drawn()
	line.ExecutionID, line.Type, line.TraceID, line.Claim.ResultRef, line.Claim.Owner = hostile, hostile, hostile, hostile, hostile
	line.Claim.Steps = map[string]string{hostile: hostile}
	for i := range line.Entries {
		line.Entries[i].By, line.Entries[i].Detail, line.Entries[i].Owner = hostile, hostile, hostile+"/x/y"
	}
	line.Dispatches[0] = diagram.Dispatch{State: diagram.DispatchWaiting, MessageID: hostile}
	return line
}

func TestNothingHostileReachesATerminal(t *testing.T) { // G3
	for _, columns := range []int{0, 80} {
		for _, r := range diagram.Text(diagram.Of(spoiled()), columns) {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%U at %d columns", r, columns)
			}
		}
	}
}

func TestALongHistoryIsCutInTheMiddleAndSaysSo(t *testing.T) { // G2
	line := drawn()
	for run := 2; run <= execution.MaxRuns; run++ {
		line.Entries = append(line.Entries, diagram.Moment{At: noon, Source: diagram.FromExecution, What: "replayed", By: "eve", From: execution.Failed, To: execution.Running, Run: run})
	}
	d := diagram.Of(line)
	all := 16 + 2*(execution.MaxRuns-1)
	if len(d.Arrows) != 400 || d.Omitted != all-400 || d.Arrows[399].Number != all-2 {
		t.Errorf("%d arrows, %d left out, the last is %d; want 400 of %d", len(d.Arrows), d.Omitted, d.Arrows[399].Number, all)
	}
	for _, text := range []string{diagram.Text(d, 0), diagram.Text(d, 60)} {
		if !strings.Contains(text, fmt.Sprintf("… %d left out …", d.Omitted)) {
			t.Error("what is left out is not told")
		}
	}
}

// The SVG is well formed, has every arrow, and nothing hostile but as text.
func TestAnSVGHasEveryArrowAndNoForeignMarkup(t *testing.T) { // G3
	for name, line := range map[string]diagram.Timeline{"the drawing": drawn(), "hostile": spoiled()} {
		d := diagram.Of(line)
		svg := diagram.SVG(d)
		arrows := 0
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v in\n%s", name, err, svg)
			}
			element, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			if !slices.Contains([]string{"svg", "title", "desc", "defs", "marker", "path", "g", "line", "rect", "text"}, element.Name.Local) {
				t.Errorf("%s: element %s", name, element.Name.Local)
			}
			for _, a := range element.Attr {
				if a.Name.Local == "data-number" && a.Value == fmt.Sprint(d.Arrows[arrows].Number) {
					arrows++
				}
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "style" || a.Name.Local == "href" {
					t.Errorf("%s: attribute %s", name, a.Name.Local)
				}
			}
		}
		if arrows != len(d.Arrows) {
			t.Errorf("%s: %d of %d arrows in order", name, arrows, len(d.Arrows))
		}
	}
}
