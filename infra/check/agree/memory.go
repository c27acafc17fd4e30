package agree

import (
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// memory: wherever a Go program runs, its collector is told of the container's limit,
// and of a little less: what Go does not count is within that limit, too.
func (w *world) memory() error {
	if f := w.bicep[appsFile]; f != nil {
		for _, app := range f.Resources("Microsoft.App/containerApps") {
			container := f.At(app.Body, "properties", "template", "containers", "0")
			soft := ""
			for _, e := range f.Items(container, "env") {
				if f.Text(e, "name") == "GOMEMLIMIT" {
					soft = f.Text(e, "value")
				}
			}
			w.limits(appsFile, app.Symbol, f.Text(container, "resources", "memory"), soft)
		}
	}
	for name, objects := range w.overlays {
		for _, kind := range []string{"Deployment", "Job"} {
			for _, d := range find(objects, kind) {
				container := at(d, "spec", "template", "spec", "containers", "0")
				soft := ""
				for _, e := range items(container, "env") {
					if text(e, "name") == "GOMEMLIMIT" {
						soft = text(e, "value")
					}
				}
				w.limits(name, text(d, "metadata", "name"), text(container, "resources", "limits", "memory"), soft)
			}
		}
	}
	var file object
	if err := yaml.Unmarshal([]byte(w.tree[composeFile]), &file); err != nil {
		return fmt.Errorf("%s: %w", composeFile, err)
	}
	services, _ := at(file, "services").(map[string]any)
	for name, service := range services {
		hard := text(service, "mem_limit")
		if hard != "" {
			hard = strings.ToUpper(hard) + "i"
		}
		w.limits(composeFile, name, hard, text(service, "environment", "GOMEMLIMIT"))
	}
	return nil
}

// limits holds Go's limit to the container's.
func (w *world) limits(file, name, hard, soft string) {
	limit, err := amount(hard)
	if err != nil {
		w.problem(file, "memory of %s: %v", name, err)
		return
	}
	told, err := amount(strings.TrimSuffix(soft, "B"))
	if err != nil {
		w.problem(file, "GOMEMLIMIT of %s: %v", name, err)
		return
	}
	if told > limit*9/10 || told < limit*3/4 {
		w.problem(file, "GOMEMLIMIT of %s is %s: take between three quarters and nine tenths of its %s", name, soft, hard)
	}
}

func amount(text string) (int, error) {
	for suffix, unit := range map[string]int{"Gi": 1 << 30, "Mi": 1 << 20} {
		if n, ok := strings.CutSuffix(text, suffix); ok {
			number, err := strconv.Atoi(n)
			return number * unit, err
		}
	}
	return 0, fmt.Errorf("%q is no amount of memory: take Mi or Gi", text)
}
