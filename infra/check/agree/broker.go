package agree

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"oneeffect/infra/check/bicep"

	"sigs.k8s.io/yaml"
)

// entity is a queue, a topic or a subscription, by the names that Bicep and the
// official emulator both have for its settings.
type entity map[string]string

// settings that a kind of entity must state. What is not stated is somebody else's
// default.
var settings = map[string][]string{
	"queue":        {"lockDuration", "maxDeliveryCount", "defaultMessageTimeToLive", "deadLetteringOnMessageExpiration", "requiresDuplicateDetection", "duplicateDetectionHistoryTimeWindow", "requiresSession"},
	"topic":        {"defaultMessageTimeToLive", "requiresDuplicateDetection"},
	"subscription": {"lockDuration", "maxDeliveryCount", "defaultMessageTimeToLive", "deadLetteringOnMessageExpiration", "requiresSession"},
}

func kindOf(name string, queue string) string {
	switch {
	case name == queue:
		return "queue"
	case strings.Contains(name, "/"):
		return "subscription"
	}
	return "topic"
}

// bicepEntities are those of the namespace, by name; subscriptions as topic/name.
func (w *world) bicepEntities() map[string]entity { return entitiesIn(w.bicep[busFile]) }

func entitiesIn(f *bicep.File) map[string]entity {
	found := map[string]entity{}
	for _, kind := range []string{"queues", "topics", "topics/subscriptions"} {
		for _, d := range f.Resources("Microsoft.ServiceBus/namespaces/" + kind) {
			name := f.Text(d.Body, "name")
			if kind == "topics/subscriptions" {
				if topic := f.Symbol(f.Text(d.Body, "parent")); topic != nil {
					name = f.Text(topic.Body, "name") + "/" + name
				}
			}
			e := entity{}
			if properties := f.At(d.Body, "properties"); properties != nil {
				for i, key := range properties.Keys {
					e[key] = f.Resolve(properties.Nodes[i]).Text
				}
			}
			found[name] = e
		}
	}
	return found
}

// configEntities are those of the emulators.
func (w *world) configEntities() (map[string]entity, error) {
	var config object
	if err := yaml.Unmarshal([]byte(withoutComments(w.tree[configFile])), &config); err != nil {
		return nil, fmt.Errorf("%s: %w", configFile, err)
	}
	found := map[string]entity{}
	take := func(name string, from any) {
		e := entity{}
		properties, _ := at(from, "Properties").(map[string]any)
		for key := range properties {
			e[strings.ToLower(key[:1])+key[1:]] = text(properties, key)
		}
		found[name] = e
	}
	for _, namespace := range items(config, "UserConfig", "Namespaces") {
		for _, queue := range items(namespace, "Queues") {
			take(text(queue, "Name"), queue)
		}
		for _, topic := range items(namespace, "Topics") {
			take(text(topic, "Name"), topic)
			for _, subscription := range items(topic, "Subscriptions") {
				take(text(topic, "Name")+"/"+text(subscription, "Name"), subscription)
			}
		}
	}
	return found, nil
}

// withoutComments drops lines that are comments, which JSON has no word for.
func withoutComments(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "//") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// entities: broker and emulators have what the code names, and with the same
// settings, but for the time to live, which the official emulator limits to an hour.
func (w *world) entities() error {
	inBicep := w.bicepEntities()
	inConfig, err := w.configEntities()
	if err != nil {
		return err
	}
	facts := w.code.Facts
	coded := []string{facts.Queue}
	for topic, subscription := range facts.Subscriptions {
		coded = append(coded, topic, topic+"/"+subscription)
	}
	slices.Sort(coded)
	w.probes(inConfig)
	for file, has := range map[string]map[string]entity{busFile: inBicep, configFile: inConfig} {
		w.same(file, "the list of entities", strings.Join(slices.Sorted(maps.Keys(has)), " "), "internal/message", strings.Join(coded, " "))
		for _, name := range coded {
			kind := kindOf(name, facts.Queue)
			for _, key := range settings[kind] {
				value, ok := has[name][key]
				if !ok {
					w.problem(file, "%s does not say its %s", name, key)
				}
				switch key {
				case "deadLetteringOnMessageExpiration":
					w.same(file, key+" of "+name, value, "what the story relies on", "true")
				case "requiresSession":
					w.same(file, key+" of "+name, value, "what the receivers expect", "false")
				case "requiresDuplicateDetection":
					// A completion that is published again must arrive again.
					w.same(file, key+" of "+name, value, "the design", strconv.FormatBool(kind == "queue"))
				}
				if key != "defaultMessageTimeToLive" {
					w.same(busFile, key+" of "+name, inBicep[name][key], configFile, inConfig[name][key])
				}
			}
		}
	}
	for topic, subscription := range facts.Subscriptions {
		const ttl = "defaultMessageTimeToLive"
		w.same(busFile, ttl+" of "+topic, inBicep[topic][ttl], "its subscription", inBicep[topic+"/"+subscription][ttl])
		w.same(busFile, ttl+" of "+topic, inBicep[topic][ttl], "the queue", inBicep[facts.Queue][ttl])
		w.same(configFile, ttl+" of "+topic, inConfig[topic][ttl], "its subscription", inConfig[topic+"/"+subscription][ttl])
		w.same(configFile, ttl+" of "+topic, inConfig[topic][ttl], "the queue", inConfig[facts.Queue][ttl])
	}
	return nil
}

// probes: taskctl evidence run finds its own topic and database, and the rest of the
// story does not meet them.
func (w *world) probes(inConfig map[string]entity) {
	p := w.code.Facts.Probes
	f := w.bicep[evidenceFile]
	inBicep := entitiesIn(f)
	for name, kind := range map[string]string{p.Topic: "topic", p.Topic + "/" + p.Subscription: "subscription"} {
		for _, key := range settings[kind] {
			is, ok := inBicep[name][key]
			if !ok {
				w.problem(evidenceFile, "%s does not say its %s", name, key)
			}
			if key != "defaultMessageTimeToLive" {
				w.same(evidenceFile, key+" of "+name, is, configFile, inConfig[name][key])
			}
		}
		if lock, err := iso(inBicep[name]["lockDuration"]); kind == "subscription" && (err != nil || lock.String() != p.Lock) {
			w.same(evidenceFile, "lockDuration of "+name, lock.String(), "internal/evidence/probe", p.Lock)
		}
		delete(inConfig, name)
	}
	for _, d := range f.Resources("Microsoft.DocumentDB/databaseAccounts/sqlDatabases") {
		w.same(evidenceFile, "the database", f.Text(d.Body, "name"), "internal/evidence/probe", p.Database)
	}
	w.tables(evidenceFile)
}

// entitiesOf are those that a target's processes meet.
func (w *world) entitiesOf(t *target) (map[string]entity, string, error) {
	if t.real {
		return w.bicepEntities(), busFile, nil
	}
	entities, err := w.configEntities()
	return entities, configFile, err
}

var isoDuration = regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$`)

// iso reads a duration of ISO 8601, up to days.
func iso(text string) (time.Duration, error) {
	m := isoDuration.FindStringSubmatch(text)
	if m == nil || strings.Join(m[1:], "") == "" {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	var d time.Duration
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.Atoi(m[i+1]) // empty is none
		d += time.Duration(n) * unit
	}
	return d, nil
}

// listened is what a process takes its work from.
func (w *world) listened(process string) string {
	for _, n := range w.needed[process] {
		if n.what == "receive" && (strings.Contains(n.at, "/") || process == "worker") {
			return n.at
		}
	}
	return ""
}

// processes: what a process is told of the broker is as it is there, and every
// variable is one that it knows.
func (w *world) processes() error {
	for _, t := range w.targets {
		entities, file, err := w.entitiesOf(t)
		if err != nil {
			return err
		}
		for _, name := range Processes {
			p := t.processes[name]
			e := entities[w.listened(name)]
			lock, err := iso(e["lockDuration"])
			if err != nil {
				w.problem(file, "lockDuration of %s: %v", w.listened(name), err)
			}
			w.same(t.file, "the lock of "+name, w.lasting(p, "lock").String(), file, lock.String())
			w.variables(p)
		}
		deliveries, _ := w.setting(t.processes["worker"], "max-delivery")
		w.same(t.file, "max-delivery of worker", deliveries, file, entities[w.code.Facts.Queue]["maxDeliveryCount"])
		ttl, err := iso(entities[w.listened("projector")]["defaultMessageTimeToLive"])
		if err != nil {
			w.problem(file, "defaultMessageTimeToLive of %s: %v", w.listened("projector"), err)
		}
		w.same(t.file, "reservation-ttl of projector", w.lasting(t.processes["projector"], "reservation-ttl").String(), file, ttl.String())
		for _, flag := range []string{"lease", "challenger-margin", "keep"} {
			w.same(t.file, flag+" of orchestrator", w.lasting(t.processes["orchestrator"], flag).String(), "the worker's", w.lasting(t.processes["worker"], flag).String())
		}
	}
	return nil
}
