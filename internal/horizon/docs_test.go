package horizon

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/servicebus"
)

var rewrite = flag.Bool("rewrite", false, "write the generated section of docs/guarantees.md anew")

// The section of docs/guarantees.md that is generated stands between these lines.
const (
	document = "../../docs/guarantees.md"
	begin    = "<!-- begin: horizon, made by: go test ./internal/horizon -run Document -rewrite -->\n"
	end      = "<!-- end: horizon -->\n"
)

func TestTheDocumentHasTheTableAsItIs(t *testing.T) {
	read, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, opened := strings.Cut(string(read), begin)
	section, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("%s has no section between %q and %q", document, begin, end)
	}
	if want := "\n" + markdown() + "\n"; section != want {
		if *rewrite {
			if err := os.WriteFile(document, []byte(before+begin+want+end+after), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("the table in %s is not the one in internal/horizon: go test ./internal/horizon -run Document -rewrite", document)
	}
}

func TestEverySymbolOfTheTableIsExplained(t *testing.T) {
	table, legend, _ := strings.Cut(markdown(), "\n\n")
	for _, c := range clauses(Defaults()) {
		for _, s := range slices.Concat(c.left.symbols, c.right.symbols) {
			if !strings.Contains(legend, "| "+s.sign+" |") {
				t.Errorf("%s of %s is not explained", s.sign, c.formula())
			}
		}
		if formula := c.formula(); !strings.Contains(table, formula) {
			t.Errorf("%s is not in the table", formula)
		}
	}
}

// entitiesOfFile are the entities of a configuration of the official emulator, as
// settings whose names say where they stand.
func entitiesOfFile(t *testing.T, path string) Settings {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	read, err := servicebus.ReadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	s := Settings{Official: Constant("the official emulator", true)}
	for _, q := range read.Namespace.Queues {
		at := "config.json " + q.Name
		s.Tasks = Entity{
			Lock: Is(at+" LockDuration", q.LockDuration), MaxDelivery: Is(at+" MaxDeliveryCount", q.MaxDelivery),
			TTL:             Is(at+" DefaultMessageTimeToLive", q.TimeToLive),
			DeadLetter:      Is(at+" DeadLetteringOnMessageExpiration", q.DeadLetterExpired),
			DuplicateWindow: Is(at+" DuplicateDetectionHistoryTimeWindow", q.DuplicateWindow),
		}
		if !q.DetectDuplicates {
			t.Errorf("%s does not detect duplicates", at)
		}
	}
	for _, topic := range read.Namespace.Topics {
		if topic.DetectDuplicates {
			t.Errorf("config.json %s detects duplicates: an event that is published again must arrive", topic.Name)
		}
		for _, sub := range topic.Subscriptions {
			at := "config.json " + topic.Name + "/" + sub.Name
			e := Entity{
				Lock: Is(at+" LockDuration", sub.LockDuration), MaxDelivery: Is(at+" MaxDeliveryCount", sub.MaxDelivery),
				TTL:        Is(at+" DefaultMessageTimeToLive", min(sub.TimeToLive, topic.TimeToLive)),
				DeadLetter: Is(at+" DeadLetteringOnMessageExpiration", sub.DeadLetterExpired),
			}
			switch topic.Name {
			case "task-events":
				s.Events = e
			case "reservations":
				s.Reservations = e
			case "evidence": // of the probes alone: no relation speaks of it
			default:
				t.Errorf("config.json has a topic %s, which nobody knows", topic.Name)
			}
		}
	}
	return s
}

// The official emulator's configuration, with everything else as by default: every
// relation holds within that emulator's limits, and the entities are those that
// deployments get, but for times to live, which are an hour there at most.
func TestTheEmulatorsConfigurationFitsTheDefaults(t *testing.T) {
	file := entitiesOfFile(t, "../../emulator/config.json")
	s := Defaults()
	s.Official, s.Tasks, s.Events, s.Reservations = file.Official, file.Tasks, file.Events, file.Reservations
	violations, unchecked := Check(s)
	for _, v := range violations {
		t.Error(v)
	}
	for _, u := range unchecked {
		if !strings.Contains(u.Formula, "M_max") { // it has no such member
			t.Error(u)
		}
	}
	proposed := Defaults()
	proposed.Official = file.Official
	for _, difference := range Differences(file, proposed) {
		if !strings.Contains(difference, "DefaultMessageTimeToLive is 1h0m0s") {
			t.Error(difference)
		}
	}
}

// The check of the configuration can fail.
func TestAConfigurationThatDoesNotFitIsFoundOut(t *testing.T) {
	file := entitiesOfFile(t, "../../emulator/config.json")
	file.Worker = Defaults().Worker
	file.Tasks.MaxDelivery.Value = 9
	file.Tasks.Lock.Value = 6 * time.Minute
	file.Events.TTL.Value = 2 * time.Hour
	file.Reservations.DeadLetter.Value = false
	violations, _ := Check(file)
	if got, want := broken(violations), []string{"H1", "H10", "H12", "H18"}; !slices.Equal(got, want) {
		t.Errorf("broken are %v, want %v: %v", got, want, violations)
	}
	if got := Differences(file, Defaults()); len(got) < 4 || !strings.Contains(strings.Join(got, "\n"), "config.json tasks MaxDeliveryCount is 9, and tasks MaxDeliveryCount is 10") {
		t.Errorf("differences %q", got)
	}
}
