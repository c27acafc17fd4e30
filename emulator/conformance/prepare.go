package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// plan is all that the process in the namespace needs to know: everything has
// been fetched and compiled.
type plan struct {
	Settings  settings
	Work      string // a folder that is removed at the end
	Emulator  string
	Test2json string
	Suites    []suite
	Scripts   string // folder of the second clients, "" without them
	Node      string
}

func readPlan(path string) (plan, error) {
	var p plan
	text, err := os.ReadFile(path)
	if err != nil {
		return p, fmt.Errorf("read what is prepared: %w", err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("read what is prepared: %w", err)
	}
	return p, nil
}

// prepare fetches and compiles, and returns the path of the plan.
func prepare(ctx context.Context, s settings, work string, stderr io.Writer) (string, error) {
	tools := toolchain{stderr: stderr}
	root, err := tools.output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", err
	}
	s.Results, err = filepath.Abs(s.Results)
	if err != nil {
		return "", fmt.Errorf("-results: %w", err)
	}
	if err := os.MkdirAll(s.Results, 0o755); err != nil {
		return "", fmt.Errorf("-results: %w", err)
	}
	p := plan{Settings: s, Work: work, Emulator: filepath.Join(work, "emulator")}
	if err := tools.run(ctx, root, "go", "build", "-o", p.Emulator, "./emulator"); err != nil {
		return "", err
	}
	if p.Test2json, err = tools.output(ctx, root, "go", "tool", "-n", "test2json"); err != nil {
		return "", err
	}
	for _, name := range []string{"azcosmos", "azservicebus"} { // the quick one first: -limit is for all of them
		if !s.wants(name) {
			continue
		}
		su, err := readSuite(name)
		if err != nil {
			return "", err
		}
		if err := su.choose(s.Run); err != nil {
			return "", err
		}
		if err := su.compile(ctx, tools, root, s.Results); err != nil {
			return "", fmt.Errorf("prepare %s: %w", name, err)
		}
		p.Suites = append(p.Suites, su)
	}
	if s.Run != "" && len(p.Suites) > 0 && !slices.ContainsFunc(p.Suites, func(s suite) bool { return len(s.Packages) > 0 }) {
		return "", fmt.Errorf("-run %s: no test on the lists has such a name", s.Run)
	}
	if s.wants("second") {
		if err := p.addSecondClients(ctx, tools); err != nil {
			return "", err
		}
	}
	return p.write()
}

func (p plan) write() (string, error) {
	text, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		return "", fmt.Errorf("write the plan: %w", err)
	}
	path := filepath.Join(p.Work, "plan.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("write the plan: %w", err)
	}
	return path, nil
}

// compile copies the suite's module out of the module cache, where nothing can be
// written, and compiles its tests there. The folder's name says of which module
// by which Go: one that is there already is what it would become again.
// (-trimpath gives files the module's name instead of the folder's.)
func (s *suite) compile(ctx context.Context, tools toolchain, root, results string) error {
	if len(s.Packages) == 0 {
		return nil
	}
	folder := filepath.Join(results, fmt.Sprintf("%s@%s-%s", s.Name, s.Version, runtime.Version()))
	if _, err := os.Stat(folder); err != nil {
		if err := s.build(ctx, tools, root, folder); err != nil {
			return err
		}
	}
	for _, p := range s.Packages {
		p.Dir = filepath.Join(folder, "src", p.Path)
		p.Binary = filepath.Join(folder, binaryName(p.Path))
	}
	return nil
}

func binaryName(path string) string {
	if path == "." {
		path = "root"
	}
	return strings.ReplaceAll(path, "/", "-") + ".test"
}

func (s *suite) build(ctx context.Context, tools toolchain, root, folder string) error {
	said, err := tools.output(ctx, root, "go", "mod", "download", "-json", s.Module+"@"+s.Version)
	if err != nil {
		return err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(said), &module); err != nil {
		return fmt.Errorf("read what go mod download says: %w", err)
	}
	all, err := readSuite(s.Name) // of every package, whatever was chosen
	if err != nil {
		return err
	}
	half, err := os.MkdirTemp(filepath.Dir(folder), "half-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(half) // it has another name when all went well
	if err := os.CopyFS(filepath.Join(half, "src"), os.DirFS(module.Dir)); err != nil {
		return fmt.Errorf("copy the module: %w", err)
	}
	for _, p := range all.Packages {
		err := tools.run(ctx, filepath.Join(half, "src"), "go", "test", "-c", "-trimpath",
			"-o", filepath.Join(half, binaryName(p.Path)), "./"+p.Path)
		if err != nil {
			return err
		}
	}
	if err := os.Chmod(half, 0o755); err != nil {
		return fmt.Errorf("open the folder to all: %w", err)
	}
	return os.Rename(half, folder)
}

// toolchain runs the programs that fetch and compile.
type toolchain struct{ stderr io.Writer }

// run repeats what the program says only if it fails.
func (t toolchain) run(ctx context.Context, dir string, command ...string) error {
	_, err := t.output(ctx, dir, command...)
	return err
}

func (t toolchain) output(ctx context.Context, dir string, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	// Without C, names are resolved by Go itself: alike on every machine.
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		_, _ = t.stderr.Write(append(stdout.Bytes(), stderr.Bytes()...))
		return "", fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return strings.TrimSpace(stdout.String()), nil
}
