package agree

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"oneeffect/infra/check/bicep"

	"sigs.k8s.io/yaml"
)

const (
	appsFile     = "infra/modules/containerapps.bicep"
	busFile      = "infra/modules/servicebus.bicep"
	storeFile    = "infra/modules/cosmos.bicep"
	evidenceFile = "infra/modules/evidence.bicep"
	aksFile      = "infra/modules/aks.bicep"
	configFile   = "emulator/config.json"
	composeFile  = "infra/compose.yaml"
	azure        = "infra/k8s/overlays/azure"
	emulator     = "infra/k8s/overlays/emulator"
)

// Overlays are those that are rendered.
var Overlays = []string{azure, emulator}

// target is a place where the processes run.
type target struct {
	file      string
	real      bool // Azure, and not emulators
	processes map[string]*process
}

// process is one of ours in one place.
type process struct {
	target      *target
	name        string
	environment map[string]string // what refers to something else is in <>
	termination time.Duration
	probes      map[string]int // paths, with ports
	ports       []int          // of container and ingress
	image       string
	cooldowns   []time.Duration // of the scaler
	scaled      map[string]string
}

func (w *world) readTargets() error {
	apps, err := w.containerApps()
	if err != nil {
		return err
	}
	w.targets = []*target{apps}
	for _, name := range slices.Sorted(maps.Keys(w.overlays)) {
		t, err := w.overlay(name)
		if err != nil {
			return err
		}
		w.targets = append(w.targets, t)
	}
	composed, err := w.compose()
	if err != nil {
		return err
	}
	w.targets = append(w.targets, composed)
	for _, t := range w.targets {
		for _, name := range Processes {
			if t.processes[name] == nil {
				return fmt.Errorf("%s: there is no %s", t.file, name)
			}
		}
	}
	return nil
}

func (w *world) containerApps() (*target, error) {
	f := w.bicep[appsFile]
	if f == nil {
		return nil, fmt.Errorf("%s is missing", appsFile)
	}
	t := &target{file: appsFile, real: true, processes: map[string]*process{}}
	for _, d := range f.Resources("Microsoft.App/containerApps") {
		if !slices.Contains(Processes, d.Symbol) {
			continue
		}
		template := f.At(d.Body, "properties", "template")
		container := f.At(template, "containers", "0")
		seconds, err := strconv.Atoi(f.Text(template, "terminationGracePeriodSeconds"))
		if err != nil {
			return nil, fmt.Errorf("%s: terminationGracePeriodSeconds of %s: %w", appsFile, d.Symbol, err)
		}
		p := &process{
			target: t, name: d.Symbol, environment: map[string]string{}, probes: map[string]int{},
			termination: time.Duration(seconds) * time.Second, image: f.Text(container, "name"),
			scaled: map[string]string{},
		}
		for _, e := range f.Items(container, "env") {
			value := f.At(e, "value")
			if value == nil || value.Kind != "string" {
				p.environment[f.Text(e, "name")] = "<>"
			} else {
				p.environment[f.Text(e, "name")] = value.Text
			}
		}
		for _, probe := range f.Items(container, "probes") {
			p.probes[f.Text(probe, "type")+f.Text(probe, "httpGet", "path")] = number(f.Text(probe, "httpGet", "port"))
		}
		if port := f.Text(d.Body, "properties", "configuration", "ingress", "targetPort"); port != "" {
			p.ports = append(p.ports, number(port))
		}
		scale := f.At(template, "scale")
		p.cooldowns = []time.Duration{time.Duration(number(f.Text(scale, "cooldownPeriod"))) * time.Second}
		p.scale(f, f.At(scale, "rules", "0", "custom", "metadata"))
		t.processes[d.Symbol] = p
	}
	return t, nil
}

func (p *process) scale(f *bicep.File, metadata *bicep.Node) {
	if metadata == nil {
		return
	}
	for i, key := range metadata.Keys {
		p.scaled[key] = f.Resolve(metadata.Nodes[i]).Text
	}
	delete(p.scaled, "namespace")
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

func (w *world) overlay(name string) (*target, error) {
	objects := w.overlays[name]
	t := &target{file: name, real: name == azure, processes: map[string]*process{}}
	for _, d := range find(objects, "Deployment") {
		container := at(d, "spec", "template", "spec", "containers", "0")
		p := &process{
			target: t, name: text(d, "metadata", "name"), environment: map[string]string{}, probes: map[string]int{},
			termination: time.Duration(number(text(d, "spec", "template", "spec", "terminationGracePeriodSeconds"))) * time.Second,
			image:       text(container, "image"), scaled: map[string]string{},
		}
		for _, e := range items(container, "env") {
			value := text(e, "value")
			if key := text(e, "valueFrom", "configMapKeyRef", "key"); key != "" {
				settings := named(objects, "ConfigMap", text(e, "valueFrom", "configMapKeyRef", "name"))
				if at(settings, "data", key) == nil {
					w.problem(name, "%s takes %s from the settings, which have none", p.name, key)
				}
				value = "<>"
			} else if at(e, "valueFrom") != nil {
				value = "<>"
			}
			p.environment[text(e, "name")] = value
		}
		ports := map[string]int{}
		for _, port := range items(container, "ports") {
			ports[text(port, "name")] = number(text(port, "containerPort"))
			p.ports = append(p.ports, ports[text(port, "name")])
		}
		for key, kind := range map[string]string{"startupProbe": "Startup", "livenessProbe": "Liveness", "readinessProbe": "Readiness"} {
			if probe := at(container, key, "httpGet"); probe != nil {
				port, ok := ports[text(probe, "port")]
				if !ok {
					port = number(text(probe, "port"))
				}
				p.probes[kind+text(probe, "path")] = port
			}
		}
		if scaled := named(objects, "ScaledObject", p.name); scaled != nil {
			p.cooldowns = []time.Duration{
				time.Duration(number(text(scaled, "spec", "cooldownPeriod"))) * time.Second,
				time.Duration(number(text(scaled, "spec", "advanced", "horizontalPodAutoscalerConfig", "behavior", "scaleDown", "stabilizationWindowSeconds"))) * time.Second,
			}
			metadata, _ := at(scaled, "spec", "triggers", "0", "metadata").(map[string]any)
			for key := range metadata {
				if key != "namespace" {
					p.scaled[key] = text(metadata, key)
				}
			}
		}
		t.processes[p.name] = p
	}
	return t, nil
}

func (w *world) compose() (*target, error) {
	var file object
	if err := yaml.Unmarshal([]byte(w.tree[composeFile]), &file); err != nil {
		return nil, fmt.Errorf("%s: %w", composeFile, err)
	}
	t := &target{file: composeFile, processes: map[string]*process{}}
	services, _ := at(file, "services").(map[string]any)
	for name, service := range services {
		p := &process{target: t, name: name, environment: map[string]string{}, image: text(service, "build", "target"), scaled: map[string]string{}}
		environment, _ := at(service, "environment").(map[string]any)
		for key := range environment {
			p.environment[key] = text(environment, key)
		}
		if grace := text(service, "stop_grace_period"); grace != "" {
			var err error
			if p.termination, err = time.ParseDuration(grace); err != nil {
				return nil, fmt.Errorf("%s: stop_grace_period of %s: %w", composeFile, name, err)
			}
		}
		t.processes[name] = p
	}
	return t, nil
}

// setting is what a process has for a flag in one place, and what it is called
// there: by a variable, or by default.
func (w *world) setting(p *process, flag string) (value, name string) {
	name = "ONEEFFECT_" + strings.ToUpper(p.name+"_"+strings.ReplaceAll(flag, "-", "_"))
	if value, ok := p.environment[name]; ok {
		return value, name
	}
	value, ok := w.code.Flags[p.name][flag]
	if !ok {
		w.problem(p.target.file, "%s has no flag -%s", p.name, flag)
	}
	return value, "the default of -" + flag
}

func (w *world) lasting(p *process, flag string) time.Duration {
	value, name := w.setting(p, flag)
	d, err := time.ParseDuration(value)
	if err != nil && value != "" {
		w.problem(p.target.file, "%s of %s: %v", name, p.name, err)
	}
	return d
}
