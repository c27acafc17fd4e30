package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	cosmosemulator "oneeffect/emulator/cosmos"
	"oneeffect/emulator/inprocess"
	brokeremulator "oneeffect/emulator/servicebus"
	"oneeffect/emulator/servicebus/broker"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
	"oneeffect/internal/preflight"
	"oneeffect/internal/servicebus"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

const connectionString = "Endpoint=sb://bus.example;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"

// endpoints numbers the accounts: the SDK remembers what it knows of each for all
// clients of a process.
var endpoints atomic.Int64

// world is both emulators, with the product's containers, and a queue "probes".
type world struct {
	t       *testing.T
	hub     *control.Hub
	options preflight.Options
}

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub := control.New()
		store := cosmosemulator.New(hub, cosmosemulator.Options{})
		bus, err := brokeremulator.New(hub, brokeremulator.Config{Namespace: broker.Config{Queues: []broker.QueueConfig{{
			Name: "probes", LockDuration: preflight.LockFor, MaxDelivery: preflight.MaxDelivery, TimeToLive: time.Hour,
			DeadLetterExpired: true, DetectDuplicates: true, DuplicateWindow: 20 * time.Second,
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		management := inprocess.Transport(bus.Admin())
		t.Cleanup(func() {
			management.Close()
			hub.Close()
			if err := store.Close(); err != nil {
				t.Error(err)
			}
			if err := bus.Close(); err != nil {
				t.Error(err)
			}
		})
		w := &world{t: t, hub: hub, options: preflight.Options{
			Store: cosmos.Options{
				Endpoint: fmt.Sprintf("http://preflight-%d.test:8081/", endpoints.Add(1)), Key: cosmosemulator.EmulatorKey,
				ApplicationID: "preflight", Transport: store.Transport(),
			},
			Broker: servicebus.Options{
				ConnectionString: connectionString, ApplicationID: "preflight", Management: management,
				NewConn: func(ctx context.Context) (net.Conn, error) { return bus.Dial(ctx) },
			},
		}}
		db, err := cosmos.Open(w.options.Store)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, w)
	})
}

// run returns the verdicts by their probes' names.
func (w *world) run() map[string]preflight.Verdict {
	w.t.Helper()
	all, err := preflight.Run(w.t.Context(), w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	verdicts := map[string]preflight.Verdict{}
	for _, v := range all {
		if v.Probe == "" || v.Reliance == "" || v.Sent == "" || v.Expected == "" || v.Seen == "" {
			w.t.Errorf("a verdict that does not say everything: %+v", v)
		}
		verdicts[v.Probe] = v
	}
	if len(verdicts) != len(all) || len(all) < 12 {
		w.t.Errorf("%d verdicts of %d probes, want a dozen at least", len(all), len(verdicts))
	}
	return verdicts
}

// fail are the probes that do not hold.
func fail(verdicts map[string]preflight.Verdict) (names []string) {
	for name, v := range verdicts {
		if !v.Holds {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestEmulatorsThatKeepTheRulesPass(t *testing.T) { // F1 F2 F3
	inWorld(t, func(t *testing.T, w *world) {
		for _, queue := range []string{"", "probes"} {
			w.options.Queue = queue
			for name, v := range w.run() {
				if !v.Holds {
					t.Errorf("%s: expected %s; seen: %s", name, v.Expected, v.Seen)
				}
			}
		}
		synctest.Wait()
		items := 0
		for _, e := range w.hub.Events(0) {
			switch {
			case e.Service == "cosmos" && e.Status == http.StatusCreated && e.Operation == "create" && e.Entity == "inventory":
				items++
			case e.Service == "cosmos" && e.Operation == "create" && e.Entity != "" && e.Entity != "inventory" && e.Client == "preflight" && e.Key == "item":
				t.Errorf("an item in %s", e.Entity)
			case e.Service == "servicebus" && e.Kind == "enqueued" && e.Entity != "probes" && !strings.HasPrefix(e.Entity, "preflight-"):
				t.Errorf("a message in %s", e.Entity)
			}
		}
		if items == 0 {
			t.Error("no item was made")
		}
		w.wantNothingLeft(2)
	})
}

// The probes that wait have their items and their queue at that moment.
func TestARunThatIsInterruptedLeavesNothing(t *testing.T) { // F3
	inWorld(t, func(t *testing.T, w *world) {
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := preflight.Run(ctx, w.options)
			ended <- err
		}()
		time.Sleep(time.Second)
		if left := w.left(); !slices.Contains(left, "item other of ttl") || !slices.Contains(left, "its queue") {
			t.Errorf("before the interrupt there is %q, want items and a queue", left)
		}
		interrupt()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		w.wantNothingLeft(1)
	})
}

// wantNothingLeft fails if something is left of the runs, which are so many.
func (w *world) wantNothingLeft(runs int) {
	w.t.Helper()
	if n := len(w.nonces()); n != runs {
		w.t.Errorf("%d runs have sent a message, want %d", n, runs)
	}
	if left := w.left(); len(left) > 0 {
		w.t.Errorf("it has left %q", left)
	}
}

// nonces are what the runs put into every name: each message's ends with it.
func (w *world) nonces() (all []string) {
	for _, e := range w.hub.Events(0) {
		if id, ok := strings.CutPrefix(e.Key, "preflight-"); ok && e.Kind == "enqueued" {
			all = append(all, id[strings.LastIndex(id, "-")+1:])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// left is what there is of the runs at this moment: items, and queues of their own.
func (w *world) left() (found []string) {
	w.t.Helper()
	key, err := azcosmos.NewKeyCredential(w.options.Store.Key)
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(w.options.Store.Endpoint, key, &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: w.options.Store.Transport}})
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	items, err := client.NewContainer(cosmos.DefaultDatabase, "inventory")
	if err != nil {
		w.t.Fatal(err)
	}
	manager, err := servicebus.Manage(w.options.Broker)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, nonce := range w.nonces() {
		for _, probe := range []string{"batch-if-match", "batch-rollback", "racing-creates", "if-match", "conditional-patch", "ttl", "session", "clock"} {
			for _, id := range []string{"item", "receipt", "sibling", "other"} {
				_, err := items.ReadItem(w.t.Context(), azcosmos.NewPartitionKeyString("preflight."+nonce+"."+probe), id, nil)
				if refused, ok := errors.AsType[*azcore.ResponseError](err); ok && refused.StatusCode == http.StatusNotFound {
					continue
				}
				found = append(found, "item "+id+" of "+probe)
			}
		}
		if _, err := manager.Queue(w.t.Context(), "preflight-"+nonce); err == nil {
			found = append(found, "its queue")
		}
	}
	return found
}

// Each rule that is relied on is broken, and its probe says so.
func TestEveryBrokenRuleFailsItsProbe(t *testing.T) { // F1
	for off, want := range map[string]string{
		"cosmos.if-match":                "batch-if-match",
		"cosmos.batch-atomic":            "batch-rollback",
		"cosmos.create-once":             "racing-creates",
		"cosmos.check-and-write":         "racing-creates",
		"cosmos.new-etag":                "if-match",
		"cosmos.patch-condition":         "conditional-patch",
		"cosmos.ttl":                     "ttl",
		"cosmos.ttl-item":                "ttl",
		"cosmos.ttl-read":                "ttl",
		"cosmos.ttl-write":               "ttl",
		"cosmos.session-read":            "session",
		"cosmos.session-rises":           "session",
		"cosmos.timestamp":               "clock",
		"cosmos.one-clock":               "clock",
		"servicebus.lock-expiry":         "lock-expiry",
		"servicebus.lock-lost":           "lock-expiry",
		"servicebus.lock-renewal":        "lock-renewal",
		"servicebus.delivery-count":      "delivery-count",
		"servicebus.abandon-counted":     "delivery-count",
		"servicebus.max-delivery":        "delivery-count",
		"servicebus.dead-letter-reason":  "delivery-count",
		"servicebus.lock-expiry-counted": "lock-expiry-counted",
		"servicebus.duplicate-detection": "duplicate-window",
		"servicebus.schedule":            "scheduled-copy",
		"servicebus.count-from-zero":     "delivery-count",
	} {
		t.Run(off, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if err := w.hub.Switch(off, true); err != nil {
					t.Fatal(err)
				}
				switch off {
				case "cosmos.session-read": // there must be a past to be shown
					if err := w.hub.SetLag("inventory", control.Lag{Duration: control.Duration(time.Hour)}); err != nil {
						t.Fatal(err)
					}
				case "cosmos.one-clock": // and another clock
					w.hub.Jump(time.Hour)
				}
				verdicts := w.run()
				if v, asked := verdicts[want]; v.Holds || !asked {
					t.Errorf("%s holds, or is no probe: %s", want, v.Seen)
				}
				t.Logf("fail: %v; %s: %s", fail(verdicts), want, verdicts[want].Seen)
			})
		})
	}
}

// If-Match is ignored: every probe that is about it says so.
func TestEveryProbeOfAConditionNoticesThatItIsIgnored(t *testing.T) { // F1
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.hub.Switch("cosmos.if-match", true); err != nil {
			t.Fatal(err)
		}
		if got, want := fail(w.run()), []string{"batch-if-match", "conditional-patch", "if-match"}; !slices.Equal(got, want) {
			t.Errorf("%v fail, want %v", got, want)
		}
	})
}

// What cannot be asked does not hold.
func TestAnEndpointThatCannotBeAskedFailsEveryProbeOfIt(t *testing.T) { // F1 F2 F4
	for name, test := range map[string]struct {
		change func(w *world)
		want   string
		failed int
	}{
		"no right to manage": {func(w *world) {
			w.arm(control.Rule{Match: control.Match{Service: "servicebus", Operation: "admin-create"}, Do: "answer", Status: http.StatusUnauthorized})
		}, "without the right to manage the namespace, name a queue for the probes", 7},
		"the product's own queue": {func(w *world) { w.options.Queue = "tasks" }, "is the product's own", 7},
		"a queue that somebody uses": {func(w *world) {
			w.options.Queue = "probes"
			w.send("probes", "somebody's")
		}, "queue probes is not empty", 7},
		"a queue that is not there": {func(w *world) { w.options.Queue = "nowhere" }, "could not be found", 7},
		"a broker that takes no dead letters": {func(w *world) {
			w.arm(control.Rule{Match: control.Match{Service: "servicebus", Operation: "dead-letter"}, Do: "silence"})
		}, "not known: ", 1},
		"a store that refuses": {func(w *world) {
			w.arm(control.Rule{Match: control.Match{Service: "cosmos", Entity: "inventory"}, Do: "answer", Status: http.StatusForbidden})
		}, "not known: ", 8},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				test.change(w)
				verdicts := w.run()
				if got := fail(verdicts); len(got) != test.failed {
					t.Errorf("%v fail, want %d", got, test.failed)
				}
				for _, e := range w.hub.Events(0) {
					if e.Key == "somebody's" && e.Kind != "enqueued" {
						t.Errorf("somebody's message is %s", e.Kind)
					}
				}
				for _, name := range fail(verdicts) {
					if v := verdicts[name]; !strings.Contains(v.Seen, test.want) && v.Probe != "racing-creates" {
						t.Errorf("%s: %s, want %q in it", name, v.Seen, test.want)
					}
				}
			})
		})
	}
}

// send sends a message that is none of the probes'.
func (w *world) send(queue, id string) {
	w.t.Helper()
	bus, err := servicebus.Dial(w.options.Broker)
	if err != nil {
		w.t.Fatal(err)
	}
	sender, err := bus.Sender(queue)
	if err == nil {
		err = sender.Send(w.t.Context(), message.Message{ID: id})
	}
	if err := errors.Join(err, bus.Close(w.t.Context())); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) arm(r control.Rule) {
	w.t.Helper()
	if _, err := w.hub.Arm(r); err != nil {
		w.t.Fatal(err)
	}
}
