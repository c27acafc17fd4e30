package agree

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ports: where a process listens is where it is asked, by everybody.
func (w *world) ports() error {
	for _, t := range w.targets {
		for _, name := range Processes {
			p := t.processes[name]
			flag := "listen"
			if name == "worker" {
				flag = "probes" // nobody else asks a worker
			}
			if _, has := w.code.Flags[name][flag]; !has {
				if len(p.ports)+len(p.probes) > 0 {
					w.problem(t.file, "%s is asked at %v and listens nowhere", name, p.ports)
				}
				continue
			}
			address, as := w.setting(p, flag)
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				w.problem(t.file, "%s of %s: %v", as, name, err)
				continue
			}
			for _, asked := range p.ports {
				w.same(t.file, "the port of "+name, strconv.Itoa(asked), as, port)
			}
			for _, probe := range slices.Sorted(maps.Keys(p.probes)) {
				w.same(t.file, "the port of "+name+"'s probe "+probe, strconv.Itoa(p.probes[probe]), as, port)
			}
			if t.file == composeFile {
				continue // host network, no probes
			}
			if loopback := host == "127.0.0.1"; loopback && len(p.probes) > 0 {
				w.problem(t.file, "%s listens at %s, where no probe reaches it", name, address)
			} else if !loopback {
				for _, must := range []string{"Liveness/livez", "Readiness/readyz", "Startup/livez"} {
					if _, has := p.probes[must]; !has {
						w.problem(t.file, "%s has no probe %s", name, must)
					}
				}
			}
			if flag == "listen" {
				w.policies(t, name, port)
			}
		}
	}
	return nil
}

// policies: what a network policy opens on a process is its port, and its service
// leads there.
func (w *world) policies(t *target, name, port string) {
	objects := w.overlays[t.file]
	if policy := named(objects, "NetworkPolicy", name+"-called"); policy != nil {
		w.same(t.file, "the port that is open on "+name, text(policy, "spec", "ingress", "0", "ports", "0", "port"), "its address", port)
	} else if len(objects) > 0 {
		w.problem(t.file, "no network policy opens %s", name)
	}
	if service := named(objects, "Service", name); service != nil {
		w.same(t.file, "the port of the service "+name, text(service, "spec", "ports", "0", "port"), "its address", port)
	}
	if !strings.Contains(w.tree["Dockerfile"], "EXPOSE "+port+"\nENTRYPOINT [\"/app/"+name+"\"]") {
		w.problem("Dockerfile", "the image of %s does not expose %s", name, port)
	}
}

// emulators: where processes look for emulators and collector, those are.
func (w *world) emulators() error {
	for _, overlay := range Overlays {
		objects := w.overlays[overlay]
		open := map[string]bool{}
		for _, service := range find(objects, "Service") {
			host := text(service, "metadata", "name")
			deployment := named(objects, "Deployment", host)
			listening := map[string]string{}
			for _, port := range items(deployment, "spec", "template", "spec", "containers", "0", "ports") {
				listening[text(port, "name")] = text(port, "containerPort")
			}
			for _, port := range items(service, "spec", "ports") {
				open[host+":"+text(port, "port")] = true
				w.same(overlay, "what the port "+text(port, "port")+" of "+host+" leads to", listening[text(port, "targetPort")], "its service", text(port, "port"))
			}
		}
		for _, d := range slices.Concat(find(objects, "Deployment"), find(objects, "Job")) {
			container := at(d, "spec", "template", "spec", "containers", "0")
			for _, e := range items(container, "env") {
				w.reachable(overlay, text(d, "metadata", "name"), text(e, "name"), text(e, "value"), open)
			}
			for _, argument := range items(container, "args") {
				_, address, ok := strings.Cut(text(argument), "=0.0.0.0:")
				if ok && !open[text(d, "metadata", "name")+":"+address] {
					w.problem(overlay, "%s listens at %s, and no service leads there", text(d, "metadata", "name"), address)
				}
			}
		}
		w.egress(overlay)
	}
	w.composed()
	return nil
}

// reachable: a URL without a full stop in its host is one of our services.
func (w *world) reachable(overlay, who, variable, value string, open map[string]bool) {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || strings.Contains(u.Hostname(), ".") {
		return
	}
	if !open[u.Host] {
		w.problem(overlay, "%s of %s is %s, and no service is there", variable, who, value)
	}
}

// egress: pods may go where their variables send them.
func (w *world) egress(overlay string) {
	allowed := map[string]bool{}
	for _, policy := range find(w.overlays[overlay], "NetworkPolicy") {
		for _, rule := range items(policy, "spec", "egress") {
			for _, port := range items(rule, "ports") {
				allowed[text(port, "port")] = true
			}
		}
	}
	must := []string{"443", "5671", "4318", "53"} // HTTPS, AMQP over TLS, OTLP, names
	if overlay == emulator {
		must = []string{"5672", "8081", "8082", "53"}
	}
	for _, port := range must {
		if !allowed[port] {
			w.problem(overlay, "no network policy lets anybody out to port %s", port)
		}
	}
}

// composed: the addresses of the compose file are those of its own downstream and of
// the official emulators' file that it includes.
func (w *world) composed() {
	compose := w.tree[composeFile]
	included := w.tree["emulator/compose.yaml"]
	for variable, at := range map[string]string{"COSMOS_ENDPOINT": "127.0.0.1:8081", "the broker's port": "127.0.0.1:5672"} {
		if !strings.Contains(included, `"`+at+`:`) {
			w.problem("emulator/compose.yaml", "%s is not at %s, where %s says", variable, at, composeFile)
		}
	}
	t := w.target(composeFile)
	for _, name := range Processes {
		endpoint := t.processes[name].environment["ONEEFFECT_"+strings.ToUpper(name)+"_COSMOS_ENDPOINT"]
		w.same(composeFile, "where "+name+" looks for the store", endpoint, "emulator/compose.yaml", "http://127.0.0.1:8081")
	}
	for _, variable := range []string{"CRM_URL", "PRINT_URL"} {
		u, err := url.Parse(t.processes["worker"].environment[variable])
		if err != nil || !strings.Contains(compose, `"-downstream", "`+u.Host+`"`) {
			w.problem(composeFile, "%s is not where the downstream listens", variable)
		}
	}
}
