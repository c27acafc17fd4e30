package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"oneeffect/infra/check/agree"
)

// copied is a report about a copy of the repository's files, to be broken.
func copied(t *testing.T) *report {
	t.Helper()
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := agree.Read(source)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for name, content := range tree {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &report{root: root, cache: filepath.Join(source, ".local", "infra"), files: map[string]bool{}}
}

// exchange changes one text in a file of the copy. It must be there.
func (r *report) exchange(t *testing.T, name, old, new string) {
	t.Helper()
	path := filepath.Join(r.root, name)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), old) {
		t.Fatalf("%s has no %q", name, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(content), old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestEachKindOfFileIsCaughtWhenItIsBroken(t *testing.T) {
	type part func(*report, context.Context, io.Writer) error
	for name, test := range map[string]struct {
		check          part
		file, old, new string
		want           string
	}{
		"a field that no manifest has":       {(*report).manifests, "infra/k8s/base/worker.yaml", "serviceAccountName:", "serviceAcountName:", "serviceAcountName"},
		"a field of another type":            {(*report).manifests, "infra/k8s/base/worker.yaml", "replicas: 2", "replicas: two", "want integer"},
		"a field that must be there":         {(*report).manifests, "infra/k8s/base/worker.yaml", "  selector:\n    matchLabels:\n      app.kubernetes.io/name: worker\n  strategy", "  strategy", "selector"},
		"a provider that KEDA does not know": {(*report).manifests, "infra/k8s/overlays/azure/scaling.yaml", "azure-workload", "azure-workloads", "provider"},
		"a field that KEDA does not know":    {(*report).manifests, "infra/k8s/overlays/azure/scaling.yaml", "minReplicaCount", "minReplicas", "minReplicas"},
		"an overlay that does not render":    {(*report).manifests, "infra/k8s/overlays/emulator/kustomization.yaml", "- path: worker.yaml", "- path: workers.yaml", "kustomize"},
		"an instruction that none is":        {(*report).dockerfile, "Dockerfile", "\nCOPY . .", "\nCOPYY . .", "unknown instruction"},
		"a relative work folder":             {(*report).dockerfile, "Dockerfile", "WORKDIR /app", "WORKDIR app", "WorkdirRelativePath"},
		"a secret in an image":               {(*report).dockerfile, "Dockerfile", "USER 65532:65532", "ENV COSMOS_KEY=abc", "SecretsUsedInArgOrEnv"},
		"a key that compose does not know":   {(*report).compose, "infra/compose.yaml", "stop_grace_period", "stop_grace", "stop_grace"},
		"a service that is not there":        {(*report).compose, "infra/compose.yaml", "[servicebus, cosmos]", "[servicebus, cosmos-db]", "cosmos-db"},
		"the emulators' file":                {(*report).compose, "emulator/compose.yaml", "    image:", "    imagine:", "imagine"},
		"a context that no workflow has":     {(*report).workflows, ".github/workflows/ci.yml", "${{ github.ref }}", "${{ githop.ref }}", "githop"},
		"a key that no workflow has":         {(*report).workflows, ".github/workflows/ci.yml", "timeout-minutes", "timeout-minute", "timeout-minute"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := copied(t)
			if err := test.check(r, t.Context(), io.Discard); err != nil || len(r.problems) > 0 {
				t.Fatalf("before it is broken: %v %v", err, r.problems)
			}
			r.exchange(t, test.file, test.old, test.new)
			if err := test.check(r, t.Context(), io.Discard); err != nil {
				t.Fatal(err)
			}
			for _, p := range r.problems {
				if strings.Contains(p.Text, test.want) {
					return
				}
			}
			t.Errorf("not caught: %v, want one about %q", r.problems, test.want)
		})
	}
}

// A check that was left out, for want of a program, is said.
func TestWorkflowsWithoutShellcheckAreSaidToBe(t *testing.T) {
	r := copied(t)
	t.Setenv("PATH", t.TempDir())
	var out strings.Builder
	if err := r.workflows(t.Context(), &out); err != nil || !strings.Contains(out.String(), "shellcheck: NOT CHECKED") {
		t.Errorf("without shellcheck: %v, %q", err, out.String())
	}
}

// What checks Bicep is another program: what it says becomes problems of files, and
// without one the files do not count.
func TestBicepIsCheckedByWhateverIsThere(t *testing.T) {
	r := copied(t)
	fake := filepath.Join(t.TempDir(), "checker")
	script := "#!/bin/sh\nfor f in \"$@\"; do grep -n disableLocalAut: \"$f\" | sed \"s|^\\([0-9]*\\).*|$f:\\1:1: unknown property|\"; done\n! grep -q disableLocalAut: \"$@\"\n"
	if err := os.WriteFile(fake, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	checkers := map[string]string{"a checker": fake}
	if real := os.Getenv("BICEPCHECK"); real != "" {
		checkers["BICEPCHECK"] = real
	} else if _, err := exec.LookPath("bicep"); err != nil {
		t.Log("neither BICEPCHECK nor bicep is here: only how their answer is read was tried")
	}
	for name, checker := range checkers {
		t.Setenv("BICEPCHECK", checker)
		r.problems, r.files = nil, map[string]bool{}
		if err := r.bicep(t.Context(), io.Discard); err != nil || len(r.problems) > 0 || len(r.files) < 10 {
			t.Errorf("%s: %v, %v, %d files", name, err, r.problems, len(r.files))
		}
	}
	r.exchange(t, "infra/modules/cosmos.bicep", "disableLocalAuth:", "disableLocalAut:")
	for name, checker := range checkers {
		t.Setenv("BICEPCHECK", checker)
		r.problems = nil
		if err := r.bicep(t.Context(), io.Discard); err != nil || len(r.problems) != 1 || r.problems[0].File != "infra/modules/cosmos.bicep" {
			t.Errorf("%s: %v, %v, want one about cosmos.bicep", name, err, r.problems)
		}
	}
	t.Setenv("BICEPCHECK", "/nowhere/checker")
	if err := r.bicep(t.Context(), io.Discard); err == nil {
		t.Error("a checker that is not there went unnoticed")
	}
	t.Setenv("BICEPCHECK", "")
	t.Setenv("PATH", t.TempDir())
	var out strings.Builder
	r.problems, r.files = nil, map[string]bool{}
	if err := r.bicep(t.Context(), &out); err != nil || len(r.files) > 0 || !strings.Contains(out.String(), "bicep: NOT CHECKED") {
		t.Errorf("without a checker: %v, %d files, %q", err, len(r.files), out.String())
	}
}
