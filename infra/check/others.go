package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	composecli "github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	digest "github.com/opencontainers/go-digest"
	"github.com/rhysd/actionlint"
)

// nothing is what is known of an image that nobody asks a registry for.
type nothing struct{}

func (nothing) ResolveImageConfig(_ context.Context, name string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	config := []byte(`{"architecture":"amd64","os":"linux","config":{}}`)
	return name, digest.FromBytes(config), config, nil
}

// dockerfile runs the checks of docker build --check.
func (r *report) dockerfile(ctx context.Context, _ io.Writer) error {
	const name = "Dockerfile"
	text, err := os.ReadFile(filepath.Join(r.root, name))
	if err != nil {
		return err
	}
	r.file(name)
	r.file(".dockerignore")
	results, err := dockerfile2llb.DockerfileLint(ctx, text, dockerfile2llb.ConvertOpt{
		MetaResolver: nothing{},
		SourceMap:    &llb.SourceMap{Filename: name, Language: "Dockerfile", Data: text, Definition: &llb.Definition{}},
	})
	if err != nil {
		return err
	}
	for _, warning := range results.Warnings {
		line := 0
		if ranges := warning.Location.GetRanges(); len(ranges) > 0 {
			line = int(ranges[0].GetStart().GetLine())
		}
		r.problem(name, "line %d: %s: %s", line, warning.RuleName, warning.Detail)
	}
	if results.Error != nil {
		r.problem(name, "%s", results.Error.Message)
	}
	return nil
}

// compose loads the compose file with what it includes, by the loader and the schema
// of Docker's own.
func (r *report) compose(ctx context.Context, _ io.Writer) error {
	for _, name := range []string{"infra/compose.yaml", "emulator/compose.yaml"} {
		r.file(name)
		options, err := composecli.NewProjectOptions([]string{filepath.Join(r.root, name)},
			composecli.WithEnv([]string{"ACCEPT_EULA=Y", "MSSQL_SA_PASSWORD=only-for-this-check-1"}))
		if err != nil {
			return err
		}
		project, err := options.LoadProject(ctx)
		if err != nil {
			r.problem(name, "%v", err)
			continue
		}
		if len(project.Services) == 0 {
			return fmt.Errorf("%s has no service", name)
		}
	}
	return nil
}

// workflows runs actionlint, with shellcheck on what they run where that is
// installed.
func (r *report) workflows(_ context.Context, stdout io.Writer) error {
	files, err := filepath.Glob(filepath.Join(r.root, ".github", "workflows", "*.yml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("there is no workflow")
	}
	shellcheck, err := exec.LookPath("shellcheck")
	if err != nil {
		shellcheck = ""
		fmt.Fprintln(stdout, "shellcheck: NOT CHECKED, what workflows run (install shellcheck)")
	}
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{Shellcheck: shellcheck, WorkingDir: r.root})
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, file := range files {
		r.file(r.relative(file))
	}
	found, err := linter.LintFiles(files, nil)
	if err != nil {
		return err
	}
	for _, e := range found {
		r.problem(r.relative(e.Filepath), "%d:%d: %s", e.Line, e.Column, e.Message)
	}
	return nil
}
