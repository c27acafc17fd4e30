package agree

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Processes are ours that are deployed.
var Processes = []string{"worker", "orchestrator", "projector"}

// Code is what the programs say of themselves.
type Code struct {
	Flags map[string]map[string]string // by process: a flag's default, by name
	Facts Facts

	// Horizon says which relations are violated by settings, and which cannot be
	// checked with them.
	Horizon func(settings any) (Verdict, error)
}

// Facts are what infra/facts tells.
type Facts struct {
	Queue         string
	Subscriptions map[string]string
	Containers    []struct {
		ID, Key string
		TTL     int
		Indexed []string
	}
	Probes struct{ Topic, Subscription, Database, Lock string }
}

// Verdict is what infra/facts says of settings.
type Verdict struct{ Violations, Unchecked []string }

// Ask builds the programs into a folder and asks them.
func Ask(ctx context.Context, root, folder string) (Code, error) {
	build := exec.CommandContext(ctx, "go", "build", "-o", folder+string(filepath.Separator), "./cmd/worker", "./cmd/orchestrator", "./cmd/projector", "./infra/facts")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return Code{}, fmt.Errorf("build what is deployed: %w\n%s", err, output)
	}
	code := Code{Flags: map[string]map[string]string{}}
	for _, name := range Processes {
		usage, err := exec.CommandContext(ctx, filepath.Join(folder, name), "-h").CombinedOutput()
		if err != nil {
			return code, fmt.Errorf("%s -h: %w\n%s", name, err, usage)
		}
		code.Flags[name] = flagsOf(string(usage))
		if len(code.Flags[name]) == 0 {
			return code, fmt.Errorf("%s -h names no flag:\n%s", name, usage)
		}
	}
	facts := filepath.Join(folder, "facts")
	told, err := exec.CommandContext(ctx, facts).Output()
	if err != nil {
		return code, fmt.Errorf("facts: %w", err)
	}
	if err := json.Unmarshal(told, &code.Facts); err != nil {
		return code, fmt.Errorf("facts: %w", err)
	}
	var answers sync.Map // by question: most that is asked was asked before
	code.Horizon = func(settings any) (Verdict, error) {
		var verdict Verdict
		asked, err := json.Marshal(settings)
		if err != nil {
			return verdict, err
		}
		if known, ok := answers.Load(string(asked)); ok {
			return known.(Verdict), nil
		}
		command := exec.CommandContext(ctx, facts, "-horizon", filepath.Join(root, "handlers.yaml"))
		command.Stdin = bytes.NewReader(asked)
		answer, err := command.Output()
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			return verdict, fmt.Errorf("facts -horizon: %w: %s", err, failed.Stderr)
		} else if err != nil {
			return verdict, err
		}
		if err := json.Unmarshal(answer, &verdict); err != nil {
			return verdict, err
		}
		answers.Store(string(asked), verdict)
		return verdict, nil
	}
	return code, nil
}

var (
	flagLine    = regexp.MustCompile(`^  -([a-z-]+)`)
	flagDefault = regexp.MustCompile(`\(default (.*)\)$`)
)

// flagsOf reads what package flag prints.
func flagsOf(usage string) map[string]string {
	flags := map[string]string{}
	name := ""
	for line := range strings.Lines(usage) {
		line = strings.TrimRight(line, "\n")
		if m := flagLine.FindStringSubmatch(line); m != nil {
			name = m[1]
			flags[name] = ""
		}
		if m := flagDefault.FindStringSubmatch(line); m != nil && name != "" {
			flags[name] = strings.Trim(m[1], `"`)
		}
	}
	return flags
}

// Temporary is a folder for Ask, and the function that removes it.
func Temporary() (string, func(), error) {
	folder, err := os.MkdirTemp("", "infra-check")
	return folder, func() { os.RemoveAll(folder) }, err
}
