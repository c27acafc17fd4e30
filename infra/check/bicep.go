package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

// bicep has Bicep files checked by what BICEPCHECK names, or by the compiler where
// one is installed. Without either they are not checked, and that is said.
func (r *report) bicep(ctx context.Context, stdout io.Writer) error {
	var files []string
	for _, pattern := range []string{"infra/*.bicep", "infra/modules/*.bicep"} {
		found, err := filepath.Glob(filepath.Join(r.root, pattern))
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return errors.New("there is no Bicep file")
	}
	checker := os.Getenv("BICEPCHECK")
	compiler, err := exec.LookPath("bicep")
	switch {
	case checker != "":
		return r.bicepBy(ctx, files, [][]string{append([]string{checker}, files...)})
	case err == nil:
		var commands [][]string
		for _, file := range files {
			commands = append(commands, []string{compiler, "lint", file})
		}
		return r.bicepBy(ctx, files, commands)
	}
	fmt.Fprintln(stdout, "bicep: NOT CHECKED (set BICEPCHECK to a checker that takes files, or install bicep)")
	return nil
}

// located is a line that is about a place in a file, as both checkers write it.
var located = regexp.MustCompile(`^(.+\.bicep)(?::\d+:\d+: |\(\d+,\d+\) : )`)

func (r *report) bicepBy(ctx context.Context, files []string, commands [][]string) error {
	for _, file := range files {
		r.file(r.relative(file))
	}
	for _, command := range commands {
		output, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		found := 0
		for line := range bytes.Lines(output) {
			if m := located.FindSubmatch(line); m != nil {
				r.problem(r.relative(string(m[1])), "%s", bytes.TrimSpace(line[len(m[1]):]))
				found++
			}
		}
		if failed, ok := errors.AsType[*exec.ExitError](err); ok && found == 0 {
			return fmt.Errorf("%s: %w\n%s", command[0], failed, output)
		} else if err != nil && !ok {
			return err
		}
	}
	return nil
}

func (r *report) relative(file string) string {
	relative, err := filepath.Rel(r.root, file)
	if err != nil || slices.Contains(filepath.SplitList(relative), "..") {
		return file
	}
	return relative
}
