package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"oneeffect/internal/cosmos"
	"oneeffect/internal/horizon"
	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"

	"github.com/spf13/cobra"
)

// doctorBound is how long all the reading may take.
const doctorBound = 2 * time.Minute

func (a *app) doctor() *cobra.Command {
	var config string
	c := &cobra.Command{
		Use: "doctor", Short: "Hold entities and containers to the relations that must hold", Args: cobra.NoArgs,
		Long: `Read how the entities of the broker and the containers of the store are set up, and
hold them to the relations of docs/guarantees.md (H1 to H28), with the durations that
the processes' flags default to. A relation that does not hold is said with its numbers
and with what to change. Nothing is changed.

It needs the right to manage the Service Bus namespace, and to read in Cosmos DB.
With --config it looks at a configuration of the official emulator instead, and at
nothing else.`,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), doctorBound)
			defer cancel()
			look := a.examine
			if config != "" {
				look = func(context.Context) (patient, error) { return examineFile(config) }
			}
			p, err := look(ctx)
			if err != nil {
				return err
			}
			return a.diagnose(p)
		},
	}
	c.Flags().StringVar(&config, "config", "", "a Config.json of the official emulator, for example emulator/config.json")
	return c
}

// patient is what the doctor looks at.
type patient struct {
	settings  horizon.Settings
	unrelated []finding // what no relation is about
	looked    []string
}

// finding is one line of the diagnosis.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // holds, broken, unknown
	Says   string `json:"says"`
	Remedy string `json:"remedy,omitzero"`
}

const (
	healthy = "holds"
	ill     = "broken"
	unknown = "unknown"
)

// entities are those that the system has, and what must be true of each besides the relations.
var entities = []struct {
	topic, name string // no topic: a queue
	duplicates  bool   // whether it detects duplicates
	sessions    bool   // whether it may require sessions
	in          func(*horizon.Settings) *horizon.Entity
}{
	{"", message.Tasks, true, false, func(s *horizon.Settings) *horizon.Entity { return &s.Tasks }},
	{message.TaskEvents, message.Orchestrator, false, false, func(s *horizon.Settings) *horizon.Entity { return &s.Events }},
	{message.Reservations, message.Inventory, false, true, func(s *horizon.Settings) *horizon.Entity { return &s.Reservations }},
}

// examine reads the real entities and containers.
func (a *app) examine(ctx context.Context) (patient, error) {
	if err := errors.Join(a.CheckBroker(), a.CheckStore()); err != nil {
		return patient{}, usage(err, "give both endpoints, or neither for the emulators of this machine")
	}
	o, err := a.BrokerOptions()
	if err != nil {
		return patient{}, usage(err, "set AZURE_TOKEN_CREDENTIALS, or SERVICEBUS_CONNECTION_STRING")
	}
	manager, err := servicebus.Manage(o)
	if err != nil {
		return patient{}, usage(err, "correct --servicebus-namespace or SERVICEBUS_CONNECTION_STRING")
	}
	p := patient{settings: horizon.Defaults()}
	for _, want := range entities {
		var e servicebus.Entity
		if want.topic == "" {
			e, err = manager.Queue(ctx, want.name)
		} else {
			e, err = manager.Subscription(ctx, want.topic, want.name)
		}
		name := strings.TrimPrefix(want.topic+"/"+want.name, "/")
		if errors.Is(err, message.ErrNotFound) {
			p.missing(name)
			continue
		}
		if err != nil {
			return patient{}, met(a.BrokerHost(), err)
		}
		p.entity(want.duplicates, want.sessions, want.in(&p.settings), e)
	}
	db, err := a.store()
	if err != nil {
		return patient{}, err
	}
	defer db.Close()
	seen, err := db.Observe(ctx)
	if err != nil {
		return patient{}, met(a.Endpoint, err)
	}
	p.database(seen)
	return p, nil
}

// examineFile reads a configuration of the official emulator.
func examineFile(path string) (patient, error) {
	f, err := os.Open(path)
	if err != nil {
		return patient{}, file(err)
	}
	defer f.Close()
	declared, err := servicebus.Declared(f)
	if err != nil {
		return patient{}, usage(err, "correct "+path)
	}
	p := patient{settings: horizon.Defaults()}
	p.settings.Official = horizon.Constant("the official emulator", true)
	p.settings.Store = horizon.Store{}
	for _, want := range entities {
		name := strings.TrimPrefix(want.topic+"/"+want.name, "/")
		if e, ok := declared[name]; ok {
			p.entity(want.duplicates, want.sessions, want.in(&p.settings), e)
		} else {
			p.missing(name)
		}
	}
	return p, nil
}

func (p *patient) missing(name string) {
	p.unrelated = append(p.unrelated, finding{name, ill, "is missing", "create it"})
}

// tell notes something that no relation is about.
func (p *patient) tell(name, what string, is, must bool, otherwise string) {
	f := finding{Check: name, State: healthy, Says: fmt.Sprintf("%s is %s", what, onOff(is))}
	if is != must {
		f.State, f.Says = ill, f.Says+", else: "+otherwise
		f.Remedy = "make it anew with " + what + " " + onOff(must)
	}
	p.unrelated = append(p.unrelated, f)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// standardMessage is what the tiers allow that do not tell it.
const standardMessage = 256 << 10

// entity puts what was read of one into the settings.
func (p *patient) entity(duplicates, sessions bool, into *horizon.Entity, e servicebus.Entity) {
	p.looked = append(p.looked, e.Name)
	*into = horizon.Entity{
		Lock: horizon.Is(e.Name+" LockDuration", e.Lock), MaxDelivery: horizon.Is(e.Name+" MaxDeliveryCount", e.MaxDelivery),
		TTL: horizon.Is(e.Name+" DefaultMessageTimeToLive", e.TTL), DeadLetter: horizon.Is(e.Name+" DeadLetteringOnMessageExpiration", e.DeadLetterExpired),
		MaxMessage: horizon.Is(e.Name+" MaxMessageSizeInKilobytes", cmp.Or(e.MaxMessage, standardMessage)),
	}
	if e.DetectsDuplicates {
		into.DuplicateWindow = horizon.Is(e.Name+" DuplicateDetectionHistoryTimeWindow", e.DuplicateWindow)
	}
	if duplicates {
		p.tell(e.Name, "RequiresDuplicateDetection", e.DetectsDuplicates, true, "what the relay sends twice is worked on twice (cost only)")
	} else {
		p.tell(e.Name, "RequiresDuplicateDetection", e.DetectsDuplicates, false, "an event that is published again after a lost answer is dropped, and never seen")
	}
	if !sessions {
		p.tell(e.Name, "RequiresSession", e.RequiresSession, false, "messages are sent without a session, and the broker refuses them")
	}
	p.tell(e.Name, "ForwardTo", e.Forwards, false, "messages go on to another entity")
	p.tell(e.Name, "Status ReceiveDisabled", e.DisabledForReceive, false, "nobody receives from it")
}

// database puts what was read of the store into the settings.
func (p *patient) database(o cosmos.Observed) {
	p.looked = append(p.looked, cosmos.Containers()...)
	expires := func(container string) bool { _, on := o.Expires[container]; return on }
	executions, on := o.Expires["executions"]
	if !on {
		executions = forEver
	}
	skew := p.settings.Store.Skew
	p.settings.Store = horizon.Store{
		Skew: skew, KeepExecutions: horizon.Is("executions defaultTtl", executions),
		ClaimTTL: horizon.Is("claims defaultTtl", expires("claims")), InventoryTTL: horizon.Is("inventory defaultTtl", expires("inventory")),
		WebhookTTL:     horizon.Is("webhooks defaultTtl", expires("webhooks")),
		MultipleWrites: horizon.Is("enableMultipleWriteLocations", o.ManyWriters),
		Session:        horizon.Is("defaultConsistencyLevel Session (it is "+o.Consistency+")", o.Session),
	}
	if len(o.Differences) == 0 {
		p.unrelated = append(p.unrelated, finding{Check: "containers", State: healthy, Says: "are as the product's table says"})
		return
	}
	for _, difference := range o.Differences {
		p.unrelated = append(p.unrelated, finding{"containers", ill, difference.Error(), "taskctl setup --help"})
	}
}

// forEver is how long something is kept that never expires.
const forEver = 100 * 365 * 24 * time.Hour

// diagnose holds the patient to every relation and prints what comes of it.
func (a *app) diagnose(p patient) error {
	violations, unchecked := horizon.Check(p.settings)
	findings := p.unrelated
	for _, r := range horizon.Relations() {
		f := finding{Check: r.Name, State: healthy, Says: r.Words}
		for _, u := range unchecked {
			if u.Relation == r.Name {
				f = finding{Check: r.Name, State: unknown, Says: u.String()}
			}
		}
		findings = append(findings, f)
		for _, v := range violations {
			if v.Relation != r.Name {
				continue
			}
			if findings[len(findings)-1].State != ill {
				findings = findings[:len(findings)-1]
			}
			findings = append(findings, finding{r.Name, ill, fmt.Sprintf("%s %s %s, else %s", v.Left, v.Must, v.Right, v.Else), v.Remedy})
		}
	}
	paint := painter(a.stdout, a.env)
	rows := make([][]string, len(findings))
	var bad []error
	for i, f := range findings {
		colour := green
		if f.State == ill {
			colour = red
			bad = append(bad, fmt.Errorf("%s: %s: %s", f.Check, f.Says, f.Remedy))
		}
		rows[i] = []string{f.Check, paint(colour, f.State), f.Says}
	}
	if err := a.print(findings, []string{"CHECK", "STATE", "SAYS"}, rows); err != nil {
		return err
	}
	line := fmt.Sprintf("doctor: %d checks of %d entities and containers, %d broken", len(findings), len(p.looked), len(bad))
	if a.output != asJSON {
		fmt.Fprintln(a.stdout, line)
	}
	if len(bad) == 0 {
		return nil
	}
	return failed(errors.Join(append([]error{errors.New(line)}, bad...)...), "change what is listed; docs/guarantees.md has the relations")
}
