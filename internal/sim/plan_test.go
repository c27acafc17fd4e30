package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/control"
)

// How long things go wrong, and how long after that everything may take to end.
const (
	chaos    = 15 * time.Minute
	patience = 3 * time.Hour
)

// brisk is the pace of the simulation: the relations of the diagram's numbers, and
// more of them in a quarter of an hour.
var brisk = pace{
	lock: time.Minute, lease: time.Minute, publish: 15 * time.Second, grace: 40 * time.Second,
	reconcileAge: 3 * time.Minute, reconcilePeriod: time.Minute, relayAge: 25 * time.Second, relayPeriod: 30 * time.Second,
	replaySettle: 3 * time.Minute,
}

// simHandlers are what its workers can do. The key of customer.brief is soon taken to
// be forgotten.
const simHandlers = `
- type: customer.create
  request: { method: POST, url: "http://crm.example/customers", timeout: 10s }
  idempotency: { honoured: true, header: Idempotency-Key, form: bare, window: 24h, inProgress: 409, replayedHeader: Idempotent-Replayed }
  result: /id
  retry: { attempts: 5, backoff: 1s..15s }
- type: customer.brief
  request: { method: POST, url: "http://crm.example/customers", timeout: 10s }
  idempotency: { honoured: true, header: Idempotency-Key, form: bare, window: 17m, inProgress: 409, replayedHeader: Idempotent-Replayed }
  result: /id
  retry: { attempts: 5, backoff: 1s..15s }
- type: letter.print
  request: { method: POST, url: "http://print.example/letters", timeout: 10s }
  idempotency: { honoured: false }
- type: customer.move
  retry: { attempts: 5, backoff: 1s..15s }
  steps:
    - name: invoice
      request: { url: "http://crm.example/customers", timeout: 10s }
      idempotency: { honoured: true, window: 24h, inProgress: 409, replayedHeader: Idempotent-Replayed }
    - name: address
      request: { url: "http://crm.example/customers", timeout: 10s }
      idempotency: { honoured: true, window: 24h, inProgress: 409, replayedHeader: Idempotent-Replayed }
- type: customer.welcome
  steps:
    - name: customer
      request: { url: "http://crm.example/customers", timeout: 10s }
      idempotency: { honoured: true, window: 24h, inProgress: 409, replayedHeader: Idempotent-Replayed }
    - name: letter
      request: { url: "http://print.example/letters", timeout: 10s }
      idempotency: { honoured: false }
- type: customer.greet
  steps:
    - name: letter
      request: { url: "http://print.example/letters", timeout: 10s }
      idempotency: { honoured: false }
    - name: customer
      request: { url: "http://crm.example/customers", timeout: 10s }
      idempotency: { honoured: true, window: 24h, inProgress: 409, replayedHeader: Idempotent-Replayed }
`

// What happens from outside and is no fault, or hardly.
const (
	submits    = "a request"
	resubmits  = "a request comes again"
	copies     = "a task's message comes again"
	resends    = "a task is sent again by its id"
	tellsAgain = "an event comes again"
	forges     = "another payload under the same id"
	garbage    = "a message that nobody can read"
	cancels    = "an operator cancels"
	attends    = "an operator looks at what has failed"
	stocks     = "an event about stock"
)

// step is one thing that happens from outside. Those that are droppable are what a
// history that fails is made shorter by.
type step struct {
	At        time.Duration
	For       time.Duration `json:",omitempty"`
	Kind      string
	Fault     bool          `json:",omitempty"` // one of the faults, which are counted
	Droppable bool          `json:",omitempty"`
	Target    string        `json:",omitempty"` // a process, an execution
	Body      string        `json:",omitempty"`
	Rule      *control.Rule `json:",omitempty"`
	Jump      time.Duration `json:",omitempty"`
	Entity    string        `json:",omitempty"`
	N         int           `json:",omitempty"`
}

// wrongClock is what is wrong with a process's clock from the beginning.
type wrongClock struct {
	Skew  time.Duration
	Drift int // millionths that its monotonic clock is slow
}

// plan is all that a seed fixes: who runs, what is asked for, what goes wrong. It
// does not fix the scheduler.
type plan struct {
	Seed                               uint64
	Workers, Orchestrators, Projectors int
	Slots                              int
	Clocks                             map[string]wrongClock
	Steps                              []step
	Tasks                              map[string]string // execution → type
	Stock                              []stockPlan
}

// stockPlan is one event about stock, under its transport's id.
type stockPlan struct {
	Transport string
	SKU       string
	Key       string
	Version   int64
	Quantity  int64 // or stock, of a count
	Count     bool
}

func planOf(seed uint64) plan {
	p := plan{Seed: seed, Clocks: map[string]wrongClock{}, Tasks: map[string]string{}}
	c := &choice{Rand: rand.New(rand.NewPCG(seed, 0x0e)), plan: &p}
	c.theme = themes[c.IntN(len(themes))]
	p.Workers, p.Orchestrators, p.Projectors = 2+c.IntN(4), 1+c.IntN(3), 1+c.IntN(3)
	if c.IntN(4) > 0 { // most histories are of few processes: the rest costs time
		p.Workers, p.Orchestrators, p.Projectors = 2+c.IntN(2), 1+c.IntN(2), 1+c.IntN(2)
	}
	p.Slots = 1 + c.IntN(4)
	for _, process := range p.processes() {
		if c.IntN(2) == 0 {
			p.Clocks[process] = wrongClock{Skew: c.time(-10*time.Minute, 10*time.Minute), Drift: c.IntN(501)}
		}
	}
	c.requests()
	c.stock()
	for range 14 + c.IntN(28) {
		s := c.fault()
		s.Droppable = true
		p.Steps = append(p.Steps, s)
	}
	slices.SortStableFunc(p.Steps, func(a, b step) int { return cmp.Compare(a.At, b.At) })
	return p
}

// A history that failed is found again by its seed.
func TestASeedFixesItsPlan(t *testing.T) {
	for n := range uint64(50) {
		p := planOf(n)
		if !reflect.DeepEqual(p, planOf(n)) {
			t.Errorf("seed %d makes two plans", n)
		}
		if reflect.DeepEqual(p.Steps, planOf(n+1).Steps) {
			t.Errorf("seeds %d and %d make one plan", n, n+1)
		}
	}
}

func (p *plan) processes() (all []string) {
	for _, of := range []struct {
		name string
		n    int
	}{{"worker", p.Workers}, {"orchestrator", p.Orchestrators}, {"projector", p.Projectors}} {
		for i := range of.n {
			all = append(all, fmt.Sprintf("%s-%d", of.name, i+1))
		}
	}
	return all
}

// process is one of those that run; workers more often than others.
func (c *choice) process() string {
	all := c.plan.processes()
	if c.IntN(2) == 0 {
		return all[c.IntN(c.plan.Workers)]
	}
	return all[c.IntN(len(all))]
}

func (c *choice) add(s step) { c.plan.Steps = append(c.plan.Steps, s) }

var taskTypes = []string{
	"customer.create", "customer.create", "customer.create", "letter.print", "letter.print", "letter.print",
	"customer.brief", "customer.move", "customer.welcome", "customer.greet", "customer.greet",
}

// requests are executions, and what befalls each of them.
func (c *choice) requests() {
	for n := range 6 + c.IntN(7) {
		id := fmt.Sprintf("e%d", n)
		at := c.time(0, 12*time.Minute)
		body := fmt.Sprintf(`{"executionId":%q,%s}`, id, c.task(id))
		ids := []string{id}
		if c.IntN(8) == 0 {
			ids = nil
			var parts []string
			for i := range 2 + c.IntN(2) {
				part := fmt.Sprintf("%s:%d", id, i)
				ids = append(ids, part)
				parts = append(parts, "{"+c.task(part)+"}")
			}
			body = fmt.Sprintf(`{"executionId":%q,"tasks":[%s]}`, id, strings.Join(parts, ","))
		}
		c.add(step{At: at, Kind: submits, Target: id, Body: body})
		if c.IntN(4) == 0 {
			c.add(step{At: at + c.time(0, 2*time.Minute), Kind: resubmits, Target: id, Body: body, Droppable: true})
		}
		if c.IntN(6) == 0 {
			c.add(step{At: at + c.time(0, 3*second)<<c.IntN(6), Kind: cancels, Target: id, Droppable: true})
		}
		for _, task := range ids {
			c.befalls(task, at)
		}
	}
	c.add(step{At: c.time(0, chaos), Kind: garbage, Droppable: true})
	for at := c.time(3*time.Minute, 6*time.Minute); at < chaos; at += c.time(2*time.Minute, 4*time.Minute) {
		c.add(step{At: at, Kind: attends, Droppable: true, N: c.IntN(3)})
	}
}

func (c *choice) task(id string) string {
	kind := taskTypes[c.IntN(len(taskTypes))]
	c.plan.Tasks[id] = kind
	fail := ""
	if c.IntN(10) == 0 {
		fail = fmt.Sprintf(`,"fail":%d`, []int{400, 422, 500, 503}[c.IntN(4)])
	}
	return fmt.Sprintf(`"type":%q,"payload":{"for":%q%s}`, kind, id, fail)
}

func (c *choice) befalls(task string, at time.Duration) {
	for _, what := range []struct {
		kind string
		of   int
		most time.Duration
	}{
		{copies, 3, 3 * time.Minute}, {copies, 4, 30 * second}, {resends, 6, 8 * time.Minute}, {tellsAgain, 5, 6 * time.Minute},
		{forges, 6, 4 * time.Minute}, {cancels, 14, 2 * time.Minute},
	} {
		if c.IntN(what.of) == 0 {
			c.add(step{At: min(at+c.time(0, what.most), chaos), Kind: what.kind, Target: task, Droppable: true})
		}
	}
}

// stock is one sku or two, whose events come in any order, again, late, with other
// content, and not at all.
func (c *choice) stock() {
	for s := range 1 + c.IntN(2) {
		sku := fmt.Sprintf("sku-%d", s)
		begun := c.time(0, time.Minute)
		c.event(stockPlan{SKU: sku, Key: "inventory:" + sku + ":count:1", Version: 1, Quantity: 100, Count: true}, begun)
		at := begun
		for v := int64(2); v < 6+c.Int64N(6); v++ {
			e := stockPlan{SKU: sku, Key: fmt.Sprintf("inventory:%s:r:%d", sku, v), Version: v, Quantity: 1 + c.Int64N(5)}
			at = min(at+c.time(0, 100*second), chaos-time.Minute)
			c.event(e, at+c.time(0, 40*second))
			if c.IntN(3) == 0 {
				c.event(e, at+c.time(0, 2*time.Minute))
			}
			if c.IntN(6) == 0 { // another event of the same version
				other := e
				other.Key += ":other"
				c.event(other, at+c.time(0, 2*time.Minute))
			}
			if c.IntN(8) == 0 {
				e.Quantity += 10
				c.event(e, at+c.time(0, 2*time.Minute))
			}
		}
		if c.IntN(3) == 0 {
			c.event(stockPlan{SKU: sku, Key: "inventory:" + sku + ":count:2", Version: 40, Quantity: 55, Count: true}, chaos-time.Minute)
		}
	}
	if c.IntN(2) == 0 {
		c.event(stockPlan{SKU: "nobody", Key: "inventory:nobody:r:7", Version: 7, Quantity: 1}, c.time(0, 10*time.Minute))
	}
}

func (c *choice) event(e stockPlan, at time.Duration) {
	e.Transport = fmt.Sprintf("stock-%d", len(c.plan.Stock))
	c.plan.Stock = append(c.plan.Stock, e)
	c.add(step{At: min(at, chaos), Kind: stocks, N: len(c.plan.Stock) - 1})
}
