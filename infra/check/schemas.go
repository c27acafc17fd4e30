package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Where the schemas come from: what Kubernetes and KEDA publish, by the hash that Go
// computes of a module. They are converted here, and kept in a folder that git
// ignores.
var published = []struct {
	module, version, sum, path string
	convert                    func(folder, to string) error
}{
	{"k8s.io/kubernetes", "v1.37.2", "h1:A2VDEiObzkYqFTKhSsn0ZEb0RlLEXpHWj93gi2HqEwE=", "api/openapi-spec/swagger.json", convertSwagger},
	{"github.com/kedacore/keda/v2", "v2.21.0", "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=", "config/crd/bases", convertDefinitions},
}

// schemas is the folder of schemas in a cache, made if it is not there.
func schemas(ctx context.Context, cache string) (string, error) {
	name := "schemas"
	for _, p := range published {
		name += "-" + p.version
	}
	folder := filepath.Join(cache, name)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	// Of several that make it at once each has a folder of its own, and the first is kept.
	made, err := os.MkdirTemp(cache, name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(made) // gone already, when it was kept
	for _, p := range published {
		at, err := download(ctx, p.module, p.version, p.sum)
		if err != nil {
			return "", err
		}
		if err := p.convert(filepath.Join(at, p.path), made); err != nil {
			return "", fmt.Errorf("%s: %w", p.module, err)
		}
	}
	if err := os.Rename(made, folder); err != nil {
		if _, there := os.Stat(folder); there != nil {
			return "", err
		}
	}
	return folder, nil
}

// download has a module in the module cache, without this or any module requiring
// it, and says where.
func download(ctx context.Context, module, version, sum string) (string, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@"+version)
	command.Dir = os.TempDir()
	output, err := command.Output()
	var told struct{ Dir, Sum, Error string }
	if json.Unmarshal(output, &told) != nil || err != nil || told.Error != "" {
		return "", fmt.Errorf("go mod download %s@%s: %w %s", module, version, err, told.Error)
	}
	if told.Sum != sum {
		return "", fmt.Errorf("%s@%s has the hash %s, which is not the one known here, %s", module, version, told.Sum, sum)
	}
	return told.Dir, nil
}

type schema = map[string]any

// convertSwagger makes a strict schema of every kind: what is not in it is a mistake.
func convertSwagger(file, to string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var swagger struct{ Definitions map[string]schema }
	if err := json.Unmarshal(text, &swagger); err != nil {
		return err
	}
	for name, definition := range swagger.Definitions {
		strict(definition)
		switch {
		case strings.HasSuffix(name, ".IntOrString"), strings.HasSuffix(name, ".Quantity"):
			swagger.Definitions[name] = schema{"type": []any{"string", "number"}}
		case strings.HasSuffix(name, ".JSON"), strings.HasSuffix(name, ".RawExtension"), strings.HasSuffix(name, ".FieldsV1"):
			swagger.Definitions[name] = schema{}
		}
	}
	for name, definition := range swagger.Definitions {
		kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) != 1 {
			continue // options of requests, of every group
		}
		kind, _ := kinds[0].(map[string]any)
		reachable := map[string]schema{}
		reach(swagger.Definitions, name, reachable)
		whole := schema{"$ref": "#/definitions/" + name, "definitions": reachable}
		if err := write(to, kind["kind"], kind["group"], kind["version"], whole); err != nil {
			return err
		}
	}
	return nil
}

// strict refuses, in an object of known members, all others.
func strict(s schema) {
	if _, has := s["properties"]; has && s["additionalProperties"] == nil && s["x-kubernetes-preserve-unknown-fields"] != true {
		s["additionalProperties"] = false
	}
	for _, inner := range s {
		switch inner := inner.(type) {
		case map[string]any:
			strict(inner)
		case []any:
			for _, one := range inner {
				if one, ok := one.(map[string]any); ok {
					strict(one)
				}
			}
		}
	}
}

// reach collects a definition and all that it refers to.
func reach(all map[string]schema, name string, found map[string]schema) {
	if _, done := found[name]; done {
		return
	}
	found[name] = all[name]
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				reach(all, strings.TrimPrefix(ref, "#/definitions/"), found)
			}
			for _, inner := range v {
				look(inner)
			}
		case []any:
			for _, inner := range v {
				look(inner)
			}
		}
	}
	look(all[name])
}

// convertDefinitions makes a strict schema of every version of custom resources.
func convertDefinitions(folder, to string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("there are no definitions of custom resources")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var definition struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct{ OpenAPIV3Schema schema }
				}
			}
		}
		if err := yaml.Unmarshal(text, &definition); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, version := range definition.Spec.Versions {
			strict(version.Schema.OpenAPIV3Schema)
			if err := write(to, definition.Spec.Names.Kind, definition.Spec.Group, version.Name, version.Schema.OpenAPIV3Schema); err != nil {
				return err
			}
		}
	}
	return nil
}

// write keeps a schema under the name that kubeconform looks for.
func write(folder string, kind, group, version any, s schema) error {
	name := fmt.Sprint(kind)
	if first, _, _ := strings.Cut(fmt.Sprint(group), "."); first != "" {
		name += "-" + first
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, strings.ToLower(name+"-"+fmt.Sprint(version))+".json"), text, 0o644)
}
