package horizon

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// broken are the names of the relations that do not hold.
func broken(violations []Violation) []string {
	var names []string
	for _, v := range violations {
		names = append(names, v.Relation)
	}
	return distinct(names)
}

// everySetting visits all settings, by name.
func everySetting(s *Settings, visit func(name string, value reflect.Value)) {
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch {
		case v.Kind() == reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case v.Kind() == reflect.Struct && v.FieldByName("Value").IsValid():
			visit(v.FieldByName("Name").String(), v)
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		}
	}
	walk(reflect.ValueOf(s).Elem())
}

func TestTheDefaultsHoldAndNothingOfThemIsUnknown(t *testing.T) {
	violations, unchecked := Check(Defaults())
	for _, v := range violations {
		t.Error(v)
	}
	for _, u := range unchecked {
		t.Error(u)
	}
	names := map[string]bool{}
	s := Defaults()
	everySetting(&s, func(name string, _ reflect.Value) {
		if names[name] {
			t.Errorf("two settings are called %q", name)
		}
		names[name] = true
	})
}

func TestTheTableHasEveryRelationOnceInItsOrder(t *testing.T) {
	for i, r := range Relations() {
		if want := fmt.Sprintf("H%d", i+1); r.Name != want || oracle[want] == nil {
			t.Errorf("row %d is %s, want %s, and an oracle for it", i, r.Name, want)
		}
	}
	if n := len(Relations()); n != len(oracle) || n != 28 {
		t.Errorf("%d relations, %d oracles, want 28", n, len(oracle))
	}
}

// alone has, for every relation, changes of the defaults that break it and no other.
var alone = map[string][]func(*Settings){
	"H1": {
		func(s *Settings) {
			s.Events.Lock.Value, s.Orchestrator.LockRenewal.Value = 301*time.Second, time.Second
		},
		func(s *Settings) {
			s.Reservations.Lock.Value, s.Projector.LockRenewal.Value = 4*time.Second, time.Second
		},
		func(s *Settings) { s.Worker.LockRenewal.Value = 101 * time.Second },
	},
	"H2": {func(s *Settings) { s.Worker.ChallengerMargin.Value = 4 * time.Second }},
	"H3": {func(s *Settings) { s.Worker.OwnerMargin.Value = 300 * time.Millisecond }},
	"H4": {func(s *Settings) { s.Worker.Renewal.Value = 141 * time.Second }},
	"H5": {func(s *Settings) { s.Worker.Renewal.Value = 19 * time.Second }},
	"H6": {func(s *Settings) {
		s.Handlers[0].Call.Value, s.Worker.Grace.Value, s.Worker.Termination.Value = 281*time.Second, 400*time.Second, 400*time.Second
		s.Orchestrator.UnknownReplayAge.Value = time.Hour
		s.Worker.Cooldown.Value = time.Hour
	}},
	"H7":  {func(s *Settings) { s.Worker.BusyWait.Value = 15 * time.Second }, func(s *Settings) { s.Worker.BusyWait.Value = 280 * time.Second }},
	"H8":  {func(s *Settings) { s.Worker.Buffered.Value = 281 * time.Second }},
	"H9":  {func(s *Settings) { s.Worker.PublishTimeout.Value = 141 * time.Second }},
	"H10": {func(s *Settings) { s.Worker.MaxAttempts.Value = 9 }, func(s *Settings) { officially(s); s.Events.MaxDelivery.Value = 11 }},
	"H11": {func(s *Settings) { s.Worker.Keep.Value = 22 * day }},
	"H12": {func(s *Settings) { s.Tasks.TTL.Value = 22 * day }, func(s *Settings) { s.Events.DeadLetter.Value = false }},
	"H13": {func(s *Settings) { s.Handlers[0].KeyWindow.Value = time.Hour }},
	"H14": {func(s *Settings) { s.Orchestrator.ReplayAge.Value = 22 * day }},
	"H15": {func(s *Settings) { s.Orchestrator.UnknownReplayAge.Value = 20 * time.Minute }},
	"H16": {func(s *Settings) { s.Store.KeepExecutions.Value = 40 * day }, func(s *Settings) { s.Worker.Keep.Value = 91 * day }},
	"H17": {func(s *Settings) { s.Orchestrator.SendTimeout.Value = 30 * time.Second }, func(s *Settings) { s.Orchestrator.RelayPeriod.Value = 135 * time.Second }},
	"H18": {
		func(s *Settings) { s.Tasks.DuplicateWindow.Value = 8 * day },
		func(s *Settings) { officially(s); s.Tasks.DuplicateWindow.Value = 6 * time.Minute },
		func(s *Settings) { officially(s); s.Events.TTL.Value = 2 * time.Hour },
	},
	"H19": {func(s *Settings) { s.Orchestrator.ReconcileAge.Value = 6 * time.Minute }, func(s *Settings) { s.Orchestrator.ReconcilePeriod.Value = 16 * time.Minute }},
	"H20": {func(s *Settings) { s.Events.TTL.Value = 16 * time.Minute }},
	"H21": {func(s *Settings) { s.Orchestrator.Reconciler.Value = false; s.Orchestrator.Outage.Value = time.Hour }},
	"H22": {func(s *Settings) { s.Projector.KeepReceipts.Value = 34 * day }, func(s *Settings) { s.Projector.WebhookRetry.Value = 60 * day }},
	"H23": {
		func(s *Settings) { s.Worker.Grace.Value = 64 * time.Second },
		func(s *Settings) {
			s.Handlers[0].Call.Value = 66 * time.Second
			s.Orchestrator.UnknownReplayAge.Value = time.Hour
		},
		func(s *Settings) { s.Orchestrator.Grace.Value = 25 * time.Second },
		func(s *Settings) { s.Projector.Termination.Value = 89 * time.Second },
		func(s *Settings) { s.Worker.Termination.Value = 601 * time.Second },
	},
	"H24": {func(s *Settings) { s.Worker.Cooldown.Value = 5 * time.Minute }},
	"H25": {func(s *Settings) { s.Handlers[0].BackoffMax.Value = 999 * time.Millisecond }},
	"H26": {func(s *Settings) { s.Handlers[0].Attempts.Value = 18 }},
	"H27": {
		func(s *Settings) { s.ExecutionID.Value, s.MessageIDSuffix.Value = 97, 27 },
		func(s *Settings) { s.MessageIDSuffix.Value = 33 },
		func(s *Settings) { s.Orchestrator.MaxMessage.Value = 250 << 10 },
		func(s *Settings) { s.Handlers[1].Result.Value = 2 << 20 },
	},
	"H28": {
		func(s *Settings) { s.Store.ClaimTTL.Value = false },
		func(s *Settings) { s.Store.MultipleWrites.Value = true },
		func(s *Settings) { s.Store.Session.Value = false },
	},
}

// officially has the entities of the official emulator, within its limits.
func officially(s *Settings) {
	s.Official.Value = true
	for _, e := range []*Entity{&s.Tasks, &s.Events, &s.Reservations} {
		e.TTL.Value = time.Hour
	}
}

func TestEveryRelationIsBrokenAloneByASettingOfItsOwn(t *testing.T) {
	for _, r := range Relations() {
		if len(alone[r.Name]) == 0 {
			t.Errorf("%s: nothing breaks it", r.Name)
		}
		for i, mutate := range alone[r.Name] {
			s := Defaults()
			mutate(&s)
			violations, unchecked := Check(s)
			if got := broken(violations); !slices.Equal(got, []string{r.Name}) {
				t.Errorf("%s, change %d: broken are %v: %v", r.Name, i, got, violations)
			}
			if len(unchecked) > 0 {
				t.Errorf("%s, change %d: not checked: %v", r.Name, i, unchecked)
			}
		}
	}
}

// bases are settings that hold, and together make every clause apply.
func bases() []Settings {
	official, unreconciled, eager := Defaults(), Defaults(), Defaults()
	officially(&official)
	unreconciled.Orchestrator.Reconciler.Value = false
	for _, p := range []*Process{&eager.Worker.Process, &eager.Orchestrator.Process, &eager.Projector.Process} {
		p.LockRenewal.Value = time.Second
	}
	return []Settings{Defaults(), official, unreconciled, eager}
}

// border finds, between a number with which a relation holds and one with which
// it does not, the two neighbours where that changes.
func border(holds func(int64) bool, good, bad int64) (int64, int64) {
	for good-bad > 1 || bad-good > 1 {
		middle := good + (bad-good)/2
		if holds(middle) {
			good = middle
		} else {
			bad = middle
		}
	}
	return good, bad
}

// Every relation is driven over its border by every setting that can, up and down.
// Where it is by the oracle, the last number that holds and the first that does
// not are neighbours, and Check must say the same of both.
func TestEveryRelationHoldsUpToItsBorderAndNotBeyond(t *testing.T) {
	crossed := map[string]bool{} // by formula
	for _, base := range bases() {
		for name, holds := range oracle {
			everySetting(&base, func(setting string, v reflect.Value) {
				value := v.FieldByName("Value")
				if value.Kind() == reflect.Bool {
					return
				}
				before := value.Int()
				defer value.SetInt(before)
				with := func(n int64) bool {
					value.SetInt(n)
					return holds(base)
				}
				far := int64(400 * day)
				if value.Type() != reflect.TypeFor[time.Duration]() {
					far = 1 << 22 // counts multiply durations
				}
				for _, bad := range []int64{0, far} {
					if with(bad) {
						continue
					}
					last, first := border(with, before, bad)
					value.SetInt(last)
					if violations, _ := Check(base); slices.Contains(broken(violations), name) {
						t.Errorf("%s does not hold with %s = %d, and should", name, setting, last)
					}
					value.SetInt(first)
					still := true
					for _, c := range clauses(base) {
						if c.applies && !c.holds() {
							crossed[c.formula()], still = true, still && c.relation != name
						}
					}
					if still {
						t.Errorf("%s holds with %s = %d, and should not", name, setting, first)
					}
				}
			})
		}
	}
	for _, c := range clauses(Defaults()) {
		if c.op != equal && !crossed[c.formula()] {
			t.Errorf("%s: no setting leads over the border of %s", c.relation, c.formula())
		}
	}
}

func TestAnySettingsAreJudgedAsByTheOracle(t *testing.T) { // R1, R3
	const seed = 28
	random := rand.New(rand.NewPCG(seed, seed))
	seen := map[string]int{}
	for range 300 {
		s := Defaults()
		everySetting(&s, func(_ string, v reflect.Value) {
			switch value := v.FieldByName("Value"); {
			case random.IntN(6) > 0:
			case value.Kind() == reflect.Bool:
				value.SetBool(!value.Bool())
			default:
				percent := []int64{0, 50, 90, 99, 101, 110, 200, 300}
				value.SetInt(value.Int() * percent[random.IntN(len(percent))] / 100)
			}
		})
		violations, _ := Check(s)
		got := broken(violations)
		for name, holds := range oracle {
			if slices.Contains(got, name) == holds(s) {
				t.Fatalf("%s: violated %v, holds by the oracle %v, with %+v", name, !holds(s), holds(s), s)
			}
			if !holds(s) {
				seen[name]++
			}
		}
	}
	for name := range oracle {
		if seen[name] == 0 {
			t.Errorf("%s never failed: the settings are not random enough", name)
		}
	}
}

// A setting that is not known breaks nothing and passes nothing.
func TestWhatIsNotKnownIsReportedAsNotChecked(t *testing.T) { // R2
	violations, unchecked := Check(Settings{})
	if len(violations) > 0 {
		t.Errorf("broken by nothing: %v", violations)
	}
	for _, r := range Relations() {
		if !slices.ContainsFunc(unchecked, func(u Unchecked) bool { return u.Relation == r.Name }) {
			t.Errorf("%s passes with nothing known", r.Name)
		}
	}
	for name, mutations := range alone { // the violation is known only while all of it is
		if name == "H12" || name == "H28" {
			continue // several settings break them, each by itself
		}
		s := Defaults()
		mutations[0](&s)
		violations, _ := Check(s)
		tried := 0
		everySetting(&s, func(setting string, v reflect.Value) {
			if setting == "" || !strings.Contains(" "+violations[0].Left+" "+violations[0].Right, " "+setting+" ") {
				return
			}
			tried++
			v.FieldByName("Name").SetString("")
			defer v.FieldByName("Name").SetString(setting)
			_, unchecked := Check(s)
			if !slices.ContainsFunc(unchecked, func(u Unchecked) bool { return u.Relation == name }) {
				t.Errorf("%s is not reported as unchecked without %s", name, setting)
			}
		})
		if tried == 0 {
			t.Errorf("%s: no setting is named in %v", name, violations[0])
		}
	}
}

func TestAViolationSaysNumbersReasonAndRemedyInTheOwnersWords(t *testing.T) { // R1
	s := Defaults()
	s.Worker.Renewal = Is("-renewal", 141*time.Second)
	s.Worker.StoreTimeout = Is("-store-timeout", 10*time.Second)
	s.Worker.Keep = Is("config.json keep", 22*day)
	s.Store.Session.Value = false
	violations, _ := Check(s)
	want := []string{
		"H4: 2 × -renewal 2m21s + -store-timeout 10s = 4m52s must be at most -lease 5m less -owner-margin 10s = 4m50s, else one slow answer loses the lease: lower -renewal, -store-timeout or -owner-margin; or raise -lease",
		"H11: config.json keep 528h must be at least the life of a task 504h + the longest story of keyed 1h32m40s + 24h = 529h32m40s, else a claim is forgotten while a message of it lives: a second effect: lower -max-attempts or keyed retry.backoff; or raise config.json keep",
		"H11: config.json keep 528h must be at least the life of a task 504h + the longest story of keyless 52m40s + 24h = 528h52m40s, else a claim is forgotten while a message of it lives: a second effect: lower -max-attempts; or raise config.json keep",
		"H28: defaultConsistencyLevel off must be on, else a process does not see what it wrote: switch on defaultConsistencyLevel",
	}
	if len(violations) != len(want) {
		t.Fatalf("%d violations: %v", len(violations), violations)
	}
	for i, v := range violations {
		if v.Error() != want[i] {
			t.Errorf("%v\nwant %s", v, want[i])
		}
	}
}

// What a remedy names can be changed, and changing it helps.
func TestEveryRemedyHelps(t *testing.T) {
	for name, mutations := range alone {
		for i, mutate := range mutations {
			s := Defaults()
			mutate(&s)
			violations, _ := Check(s)
			v := violations[0]
			if v.Remedy == "" && name != "H1" && name != "H8" && name != "H27" { // constants alone are at fault there
				t.Errorf("%s, change %d: no remedy", name, i)
			}
			helped := v.Remedy == ""
			everySetting(&s, func(setting string, field reflect.Value) {
				if setting == "" || !strings.Contains(v.Remedy, setting) {
					return
				}
				value := field.FieldByName("Value")
				if value.Kind() == reflect.Bool {
					value.SetBool(!value.Bool())
					left, _ := Check(s)
					helped = helped || !slices.Contains(broken(left), name)
					value.SetBool(!value.Bool())
					return
				}
				before := value.Int()
				defer value.SetInt(before)
				for _, n := range []int64{0, before / 2, before * 9 / 10, before*11/10 + 1, before * 2, before * 24} {
					value.SetInt(n)
					left, _ := Check(s)
					helped = helped || !slices.Contains(broken(left), name)
				}
			})
			if !helped {
				t.Errorf("%s, change %d: nothing that %q names helps", name, i, v.Remedy)
			}
		}
	}
}

func TestTheLockThatAMessageShows(t *testing.T) {
	lock := Is("-lock", 5*time.Minute)
	for _, test := range []struct {
		what   string
		lock   Duration
		atMost time.Duration
		want   bool
	}{
		{"a fresh message under the lock that was told", lock, 5 * time.Minute, false},
		{"one that lay in the queue for an hour", lock, 65 * time.Minute, false},
		{"nodes whose clocks differ", lock, 270 * time.Second, false},
		{"more than they may", lock, 270*time.Second - 1, true},
		{"a lock of a minute", lock, time.Minute, true},
		{"a lock of a minute after four in the queue: it cannot be told", lock, 5 * time.Minute, false},
		{"no stamps", lock, 0, false},
		{"no setting", Duration{}, time.Minute, false},
	} {
		v, wrong := ObservedLock(test.lock, test.atMost)
		if wrong != test.want {
			t.Errorf("%s: wrong %v, want %v", test.what, wrong, test.want)
		}
		if text := v.Error(); wrong && (!strings.HasPrefix(text, "H1: -lock 5m must be the LockDuration") || !strings.Contains(text, "at most "+short(test.atMost.Round(time.Millisecond)))) {
			t.Errorf("%s: %q", test.what, text)
		}
	}
}
