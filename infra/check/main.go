// Command check looks at everything in infra/, and at what belongs to it: Bicep,
// Kubernetes manifests, Dockerfile, compose files, workflows, and whether they agree
// with each other and with the code. It is a module of its own, so that what it
// takes to check is no dependency of the product.
//
//	go -C infra/check run .
//
// The last line counts the files that were checked, and what is wrong with them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"oneeffect/infra/check/agree"
)

// bound is of the whole check, with whatever programs it runs: at first they have much
// to build and to download.
const bound = 15 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("the check is bounded to %v", bound))
	defer cancel()
	root := flag.String("root", "../..", "the repository")
	flag.Parse()
	problems, err := run(ctx, *root, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "infra-check:", err)
	}
	if err != nil || problems > 0 {
		os.Exit(1)
	}
}

// report collects what was looked at and what was found.
type report struct {
	root     string
	cache    string // where schemas are kept
	files    map[string]bool
	problems []agree.Problem
}

// file says that a file, by its path from the root, is checked.
func (r *report) file(name string) { r.files[filepath.ToSlash(name)] = true }

func (r *report) problem(name, format string, args ...any) {
	r.problems = append(r.problems, agree.Problem{File: filepath.ToSlash(name), Text: fmt.Sprintf(format, args...)})
}

func run(ctx context.Context, root string, stdout io.Writer) (int, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return 0, err
	}
	r := &report{root: root, cache: filepath.Join(root, ".local", "infra"), files: map[string]bool{}}
	for _, part := range []struct {
		name  string
		check func(context.Context, io.Writer) error
	}{
		{"bicep", r.bicep}, {"manifests", r.manifests}, {"Dockerfile", r.dockerfile}, {"compose", r.compose}, {"workflows", r.workflows},
		{"agreement", r.agreement},
	} {
		start, files, problems := time.Now(), len(r.files), len(r.problems)
		if err := part.check(ctx, stdout); err != nil {
			return 0, fmt.Errorf("%s: %w", part.name, errors.Join(err, context.Cause(ctx)))
		}
		fmt.Fprintf(stdout, "%s: %d more files, %d problems, %.1f s\n", part.name, len(r.files)-files, len(r.problems)-problems, time.Since(start).Seconds())
	}
	for _, p := range r.problems {
		fmt.Fprintln(stdout, p)
	}
	fmt.Fprintf(stdout, "infra-check: %d files, %d problems\n", len(r.files), len(r.problems))
	return len(r.problems), nil
}

// agreement holds the files together, and to the code.
func (r *report) agreement(ctx context.Context, _ io.Writer) error {
	folder, remove, err := agree.Temporary()
	if err != nil {
		return err
	}
	defer remove()
	code, err := agree.Ask(ctx, r.root, folder)
	if err != nil {
		return err
	}
	tree, err := agree.Read(r.root)
	if err != nil {
		return err
	}
	rendered := map[string][]byte{}
	for _, overlay := range agree.Overlays {
		if rendered[overlay], err = render(tree, overlay); err != nil {
			return err
		}
	}
	problems, err := agree.Check(tree, code, rendered)
	r.problems = append(r.problems, problems...)
	for _, name := range []string{
		"azure.yaml", "handlers.yaml", "emulator/config.json", "infra/main.parameters.json", "infra/abbreviations.json", "infra/workbook.json",
		"infra/k8s/overlays/azure/settings.env",
	} {
		r.file(name)
	}
	return err
}
