package agree

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// known are the variables that processes know besides those of their flags: the
// platform's, the SDKs', Go's.
var known = regexp.MustCompile(`^(AZURE_TOKEN_CREDENTIALS|AZURE_CLIENT_ID|SERVICEBUS_CONNECTION_STRING|COSMOS_KEY|OIDC_CLIENT_SECRET|GOMEMLIMIT|OTEL_[A-Z_]+)$`)

var placeholder = regexp.MustCompile(`\$\{([A-Z_]+)\}`)

// uncommented drops YAML comments: examples are no declarations.
func uncommented(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// variables: each is a flag's, or known, or one that handlers.yaml asks for.
func (w *world) variables(p *process) {
	file := p.target.file
	asked := map[string]bool{}
	if p.name == "worker" {
		for _, m := range placeholder.FindAllStringSubmatch(uncommented(w.tree["handlers.yaml"]), -1) {
			asked[m[1]] = true
			if p.environment[m[1]] == "" {
				w.problem(file, "%s has no %s, which handlers.yaml asks for", p.name, m[1])
			}
		}
	}
	prefix := "ONEEFFECT_" + strings.ToUpper(p.name) + "_"
	for _, variable := range slices.Sorted(maps.Keys(p.environment)) {
		flag, ours := strings.CutPrefix(variable, prefix)
		flag = strings.ToLower(strings.ReplaceAll(flag, "_", "-"))
		_, has := w.code.Flags[p.name][flag]
		webhook := p.name == "projector" && strings.HasPrefix(variable, "WEBHOOK_SECRET_")
		if ours && !has || !ours && !known.MatchString(variable) && !asked[variable] && !webhook {
			w.problem(file, "%s is told %s, which it does not know", p.name, variable)
		}
	}
	must := []string{prefix + "COSMOS_ENDPOINT", "SERVICEBUS_CONNECTION_STRING", "COSMOS_KEY"}
	if p.target.real {
		must = []string{prefix + "COSMOS_ENDPOINT", prefix + "SERVICEBUS_NAMESPACE", "AZURE_TOKEN_CREDENTIALS"}
		if p.name == "orchestrator" {
			must = append(must, prefix+"OIDC_ISSUER", prefix+"OIDC_AUDIENCE", prefix+"OIDC_CLIENT", prefix+"OIDC_SCOPE", prefix+"PAGE_URL")
		}
	}
	for _, variable := range must {
		if p.environment[variable] == "" {
			w.problem(file, "%s is not told %s", p.name, variable)
		}
	}
	if p.target.real && (p.environment["COSMOS_KEY"] != "" || p.environment["SERVICEBUS_CONNECTION_STRING"] != "") {
		w.problem(file, "%s is given a key, where identities are for", p.name)
	}
}

// alike: a process is told the same on both targets of Azure, but for where it
// signs in, how much memory it has, and who collects.
func (w *world) alike() error {
	apps, cluster := w.targets[0], w.target(azure)
	credentials := map[*target]string{apps: "ManagedIdentityCredential", cluster: "WorkloadIdentityCredential"}
	for _, name := range Processes {
		for t, must := range credentials {
			w.same(t.file, "AZURE_TOKEN_CREDENTIALS of "+name, t.processes[name].environment["AZURE_TOKEN_CREDENTIALS"], "the platform", must)
		}
		a, k := apps.processes[name], cluster.processes[name]
		for _, variable := range slices.Sorted(maps.Keys(union(a.environment, k.environment))) {
			switch variable {
			case "AZURE_TOKEN_CREDENTIALS", "AZURE_CLIENT_ID", "GOMEMLIMIT", "OTEL_EXPORTER_OTLP_ENDPOINT":
				continue
			}
			if strings.HasPrefix(variable, "WEBHOOK_SECRET_") {
				continue // a cluster has them in a secret
			}
			one, here := a.environment[variable]
			other, there := k.environment[variable]
			if here != there {
				w.problem(appsFile, "%s of %s is set on one target only (here: %v, %s: %v)", variable, name, here, azure, there)
			} else if one != other {
				w.same(appsFile, variable+" of "+name, one, azure, other)
			}
		}
		if a.environment["AZURE_CLIENT_ID"] == "" {
			w.problem(appsFile, "%s is not told AZURE_CLIENT_ID: it has two identities", name)
		}
		for _, t := range w.targets {
			w.same(t.file, "the time that "+name+" is given to stop", t.processes[name].termination.String(), appsFile, a.termination.String())
			w.same(t.file, "grace of "+name, w.lasting(t.processes[name], "grace").String(), appsFile, w.lasting(a, "grace").String())
		}
	}
	return nil
}

func union(a, b map[string]string) map[string]string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

func (w *world) target(file string) *target {
	for _, t := range w.targets {
		if t.file == file {
			return t
		}
	}
	return nil
}
