package agree

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"oneeffect/infra/check/bicep"

	"sigs.k8s.io/yaml"
)

var (
	stage     = regexp.MustCompile(`(?m)^FROM .* AS ([a-z]+)$`)
	from      = regexp.MustCompile(`(?m)^(?:COPY --from=|FROM )([a-z]+)(?: |$)`)
	goImage   = regexp.MustCompile(`golang:([0-9.]+)-`)
	goVersion = regexp.MustCompile(`go-version: "([0-9.]+)"`)
	stamped   = regexp.MustCompile(`-X oneeffect/([a-z/]+)\.([a-z]+)=`)
	built     = regexp.MustCompile(`\./((?:cmd/)?[a-z]+)\b`)
	collector = regexp.MustCompile(`image: '?(\S*opentelemetry-collector\S*?)'?\n`)
)

// images: who names an image names one that the Dockerfile makes.
func (w *world) images() error {
	dockerfile := w.tree["Dockerfile"]
	made := map[string]bool{}
	for _, m := range stage.FindAllStringSubmatch(dockerfile, -1) {
		made[m[1]] = true
	}
	for _, m := range from.FindAllStringSubmatch(dockerfile, -1) {
		if !made[m[1]] {
			w.problem("Dockerfile", "files are copied from %s, which is no stage", m[1])
		}
	}
	for _, t := range w.targets {
		for name, p := range t.processes {
			image, ours := strings.CutPrefix(p.image, "oneeffect/")
			image, _, _ = strings.Cut(image, ":")
			if (ours || t.file == composeFile || t.file == appsFile) && !made[image] {
				w.problem(t.file, "%s runs the image %q, which the Dockerfile does not make", name, p.image)
			}
			if slices.Contains(Processes, name) {
				w.same(t.file, "the image of "+name, image, "its name", name)
			}
		}
	}
	w.programs(dockerfile)
	return w.services(made)
}

// programs: the Dockerfile stamps and builds what there is, with the Go of the workflows.
func (w *world) programs(dockerfile string) {
	if m := stamped.FindStringSubmatch(dockerfile); m == nil || !strings.Contains(w.text(m[1]), "var "+m[2]+" string") {
		w.problem("Dockerfile", "the version is stamped nowhere: %v", m)
	}
	_, packages, _ := strings.Cut(dockerfile, "-o /out/")
	packages, _, _ = strings.Cut(packages, "\n\n")
	for _, m := range built.FindAllStringSubmatch(packages, -1) {
		if m[1] != "emulator" && w.text(m[1]) == "" {
			w.problem("Dockerfile", "%s is built, and is no package", m[1])
		}
	}
	builder := goImage.FindStringSubmatch(dockerfile)
	for name, content := range w.tree {
		for _, m := range goVersion.FindAllStringSubmatch(content, -1) {
			if path.Dir(name) == ".github/workflows" && (builder == nil || m[1] != builder[1]) {
				w.problem(name, "go-version is %s, and the Dockerfile builds with %v", m[1], builder)
			}
		}
	}
}

// collectors: both targets run the collector that was verified, and send to where it listens.
func (w *world) collectors() error {
	var images []string
	for _, name := range []string{appsFile, azure + "/collector.yaml"} {
		if m := collector.FindStringSubmatch(w.tree[name]); m != nil {
			images = append(images, m[1])
		}
	}
	if len(images) != 2 || images[0] != images[1] {
		w.problem(appsFile, "the collector's images are %v: one, on both targets", images)
		return nil
	}
	_, version, _ := strings.Cut(images[0], ":")
	if !strings.Contains(w.tree["infra/collector/go.mod"], "exporter/azuremonitorexporter v"+version+"\n") {
		w.problem(appsFile, "the collector is %s, and another version was verified in infra/collector", version)
	}
	var config object
	if err := yaml.Unmarshal([]byte(w.tree["infra/collector/config.yaml"]), &config); err != nil {
		return fmt.Errorf("infra/collector/config.yaml: %w", err)
	}
	listens := text(config, "receivers", "otlp", "protocols", "http", "endpoint") // ${env:NAME:-address}
	for _, port := range []string{text(named(w.overlays[azure], "Service", "collector"), "spec", "ports", "0", "port"), w.collectorPort()} {
		if !strings.HasSuffix(strings.TrimSuffix(listens, "}"), ":"+port) {
			w.problem("infra/collector/config.yaml", "it listens at %s for OTLP by HTTP, and processes send to %s", listens, port)
		}
	}
	return nil
}

// collectorPort is where the environment's ingress leads to.
func (w *world) collectorPort() string {
	f := w.bicep[appsFile]
	if d := f.Symbol("collector"); d != nil {
		return f.Text(d.Body, "properties", "configuration", "ingress", "targetPort")
	}
	return ""
}

// services: azd deploys the processes that Bicep has made places for.
func (w *world) services(made map[string]bool) error {
	var azd object
	if err := yaml.UnmarshalStrict([]byte(w.tree["azure.yaml"]), &azd); err != nil {
		return fmt.Errorf("azure.yaml: %w", err)
	}
	services, _ := at(azd, "services").(map[string]any)
	names := strings.Join(slices.Sorted(maps.Keys(services)), " ")
	sorted := slices.Sorted(slices.Values(Processes))
	w.same("azure.yaml", "the list of services", names, "the processes", strings.Join(sorted, " "))
	for name, service := range services {
		w.same("azure.yaml", "the image of "+name, text(service, "docker", "target"), "its name", name)
		if !made[text(service, "docker", "target")] {
			w.problem("azure.yaml", "the Dockerfile does not make %s", text(service, "docker", "target"))
		}
		if !strings.Contains(w.tree[appsFile], "'azd-service-name': '"+name+"'") {
			w.problem(appsFile, "no app is tagged azd-service-name %s, which azure.yaml deploys", name)
		}
		parameter := "${SERVICE_" + strings.ToUpper(name) + "_IMAGE_NAME}"
		if !strings.Contains(w.tree["infra/main.parameters.json"], parameter) {
			w.problem("infra/main.parameters.json", "no parameter takes %s, which azd sets", parameter)
		}
	}
	return nil
}

// text is all Go that a folder has, but for tests.
func (w *world) text(folder string) string {
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w.tree)) {
		if path.Dir(name) == folder && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			all.WriteString(w.tree[name])
		}
	}
	return all.String()
}

var (
	output     = regexp.MustCompile(`([a-zA-Z]+)!?\.outputs\.([a-zA-Z]+)`)
	identifier = regexp.MustCompile(`\$\{([a-zA-Z]+)[.}]`)
)

// modules: what the compiler would say of names, where there is no compiler: every
// name is declared, every parameter used, and modules take and give what is asked.
func (w *world) modules() error {
	for name, f := range w.bicep {
		declared := map[string]bool{}
		for _, names := range []map[string]*bicep.Node{f.Parameters, f.Variables} {
			for n := range names {
				declared[n] = true
				if strings.Count(w.tree[name], n) < 2 {
					w.problem(name, "%s is declared and not used", n)
				}
			}
		}
		for _, d := range f.Declarations {
			declared[d.Symbol] = true
		}
		visit := func(n *bicep.Node) {
			root, _, _ := strings.Cut(n.Text, ".")
			used := []string{}
			if n.Kind == "name" {
				used = append(used, root)
			}
			if n.Kind == "string" {
				for _, m := range identifier.FindAllStringSubmatch(n.Text, -1) {
					used = append(used, m[1])
				}
			}
			for _, u := range used {
				if !declared[u] {
					w.problem(name, "line %d: %s is not declared", n.Line, u)
				}
			}
		}
		f.Walk(visit)
		for _, d := range f.Declarations {
			if d.Module {
				w.module(name, f, d)
			}
		}
		for _, m := range output.FindAllStringSubmatch(w.tree[name], -1) {
			d := f.Symbol(m[1])
			if d == nil || !d.Module {
				continue
			}
			if of := w.bicep[path.Join(path.Dir(name), d.Type)]; of != nil && of.Outputs[m[2]] == nil {
				w.problem(name, "%s has no output %s", d.Type, m[2])
			}
		}
	}
	return nil
}

func (w *world) module(name string, f *bicep.File, d bicep.Declaration) {
	of := w.bicep[path.Join(path.Dir(name), d.Type)]
	if of == nil {
		w.problem(name, "the module %s is missing", d.Type)
		return
	}
	given := map[string]bool{}
	if params := f.At(d.Body, "params"); params != nil {
		for _, key := range params.Keys {
			given[key] = true
			if _, has := of.Parameters[key]; !has {
				w.problem(name, "%s has no parameter %s", d.Type, key)
			}
		}
	}
	for key, initial := range of.Parameters {
		if initial == nil && !given[key] {
			w.problem(name, "%s is not given %s", d.Type, key)
		}
	}
}

// parameters: azd gives what main.bicep takes, and the overlay's settings are what
// main.bicep puts out.
func (w *world) parameters() error {
	const file, given = "infra/main.bicep", "infra/main.parameters.json"
	main := w.bicep[file]
	var parameters struct{ Parameters map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(w.tree[given]), &parameters); err != nil {
		return fmt.Errorf("%s: %w", given, err)
	}
	for name := range parameters.Parameters {
		if _, has := main.Parameters[name]; !has {
			w.problem(given, "main.bicep has no parameter %s", name)
		}
	}
	for name, initial := range main.Parameters {
		if _, has := parameters.Parameters[name]; !has && initial == nil {
			w.problem(given, "main.bicep asks for %s", name)
		}
	}
	var abbreviations map[string]string
	if err := json.Unmarshal([]byte(w.tree["infra/abbreviations.json"]), &abbreviations); err != nil {
		return fmt.Errorf("infra/abbreviations.json: %w", err)
	}
	for _, m := range regexp.MustCompile(`\babbreviations\.([a-zA-Z]+)\b`).FindAllStringSubmatch(w.tree[file], -1) {
		if m[1] != "json" && abbreviations[m[1]] == "" {
			w.problem("infra/abbreviations.json", "there is none for %s", m[1])
		}
	}
	for line := range strings.Lines(w.tree[azure+"/settings.env"]) {
		key, _, ok := strings.Cut(line, "=")
		if ok && main.Outputs[key] == nil && !strings.Contains(w.tree[given], "${"+key+"}") {
			w.problem(azure+"/settings.env", "%s is neither an output of main.bicep nor a variable of its parameters", key)
		}
	}
	return nil
}

var (
	ourName = regexp.MustCompile(`oneeffect\.[a-z_.]+[a-z]`)
	reasons = regexp.MustCompile(`'([A-Z][a-z]+(?:[A-Z][a-z]+)+)'`)
)

// names: alerts and workbook ask for metrics, attributes and reasons that the code
// has.
func (w *world) names() error {
	var code strings.Builder
	for name, content := range w.tree {
		if strings.HasPrefix(name, "internal/") && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			code.WriteString(content)
		}
	}
	for _, name := range []string{"infra/modules/alerts.bicep", "infra/workbook.json"} {
		found := ourName.FindAllString(w.tree[name], -1)
		if len(found) == 0 {
			w.problem(name, "asks for nothing of ours")
		}
		for _, n := range found {
			if !strings.Contains(code.String(), `"`+n+`"`) {
				w.problem(name, "%s is named nowhere in internal/", n)
			}
		}
	}
	f := w.bicep["infra/modules/alerts.bicep"]
	constants, err := w.constants()
	if err != nil {
		return err
	}
	for _, d := range f.Resources("Microsoft.Insights/scheduledQueryRules") {
		query := f.Text(d.Body, "properties", "criteria", "allOf", "0", "query")
		for _, m := range reasons.FindAllStringSubmatch(query, -1) {
			if constants[m[1]] != m[1] {
				w.problem(f.Name, "%s: %s is no reason of internal/message", d.Symbol, m[1])
			}
		}
		if d.Symbol == "noHeartbeat" {
			for _, p := range Processes {
				if !strings.Contains(query, "'"+p+"'") {
					w.problem(f.Name, "nobody listens for the heart of %s", p)
				}
			}
		}
	}
	for _, d := range f.Resources("Microsoft.Insights/metricAlerts") {
		if d.Symbol != "deadLetters" {
			continue
		}
		watched := map[string]bool{}
		for _, n := range f.Items(d.Body, "properties", "criteria", "allOf", "0", "dimensions", "0", "values") {
			watched[n.Text] = true
		}
		for name := range w.bicepEntities() {
			if !strings.Contains(name, "/") && !watched[name] {
				w.problem(f.Name, "dead letters of %s are not watched", name)
			}
		}
	}
	return nil
}
