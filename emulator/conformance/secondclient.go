package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

//go:embed js/*.mjs js/package.json js/package-lock.json
var scripts embed.FS

// addSecondClient installs what package-lock.json names, exactly, and the scripts
// beside it. The folder's name says which: one that is there already is complete.
func (p *plan) addSecondClient(ctx context.Context, tools toolchain) error {
	node, err := find("node", "nodejs")
	if err != nil {
		return err
	}
	if _, err := find("npm", "npm"); err != nil {
		return err
	}
	lock, err := scripts.ReadFile("js/package-lock.json")
	if err != nil {
		return fmt.Errorf("read the second client's dependencies: %w", err)
	}
	folder := filepath.Join(p.Settings.Results, fmt.Sprintf("second-client-%.6x", sha256.Sum256(lock)))
	if _, err := os.Stat(folder); err != nil {
		if err := install(ctx, tools, folder); err != nil {
			return fmt.Errorf("install the second client: %w", err)
		}
	}
	if err := copyScripts(folder, "*.mjs"); err != nil {
		return err
	}
	p.Node, p.Script = node, filepath.Join(folder, "main.mjs")
	return nil
}

func install(ctx context.Context, tools toolchain, folder string) error {
	half, err := os.MkdirTemp(filepath.Dir(folder), "half-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(half) // it has another name when all went well
	if err := copyScripts(half, "*.json"); err != nil {
		return err
	}
	err = tools.run(ctx, half, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	if err != nil {
		return err
	}
	return os.Rename(half, folder)
}

func copyScripts(folder, pattern string) error {
	names, err := fs.Glob(scripts, "js/"+pattern)
	if err != nil {
		return fmt.Errorf("copy the scripts: %w", err)
	}
	for _, name := range names {
		text, err := scripts.ReadFile(name)
		if err != nil {
			return fmt.Errorf("copy the scripts: %w", err)
		}
		if err := os.WriteFile(filepath.Join(folder, path.Base(name)), text, 0o644); err != nil {
			return fmt.Errorf("copy the scripts: %w", err)
		}
	}
	return nil
}

// runSecondClient runs the checks of the second client against a fresh emulator.
// Their lines are passed on, and counted here.
func (p plan) runSecondClient(ctx context.Context, r *report) error {
	g, err := p.serviceBusRig()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(p.Settings.Results, "second.log"))
	if err != nil {
		return fmt.Errorf("keep what the emulator says: %w", err)
	}
	defer log.Close()
	e, err := startEmulator(ctx, p.Emulator, g.flags, log)
	if err != nil {
		return err
	}
	err = p.runScript(ctx, r)
	return errors.Join(err, e.stop())
}

// scriptLimit is how long all checks together may take.
const scriptLimit = 4 * time.Minute

func (p plan) runScript(ctx context.Context, r *report) error {
	ctx, cancel := context.WithTimeoutCause(ctx, scriptLimit, fmt.Errorf("the checks took longer than %v", scriptLimit))
	defer cancel()
	node := exec.CommandContext(ctx, p.Node, p.Script)
	node.Env = append(os.Environ(),
		"SERVICEBUS_CONNECTION_STRING="+connectionString("RootManageSharedAccessKey"),
		"NODE_EXTRA_CA_CERTS="+p.authority())
	node.Stderr = os.Stderr
	node.WaitDelay = 5 * time.Second
	output, err := node.StdoutPipe()
	if err == nil {
		err = node.Start()
	}
	if err != nil {
		return fmt.Errorf("start node: %w", err)
	}
	said, readErr := r.secondClient(output)
	if err := errors.Join(readErr, node.Wait()); err != nil && r.second.failed == 0 {
		return errors.Join(err, context.Cause(ctx))
	}
	if want := "second client: " + r.second.String(); said != want && ctx.Err() == nil {
		return fmt.Errorf("its last line is %q, and its lines count as %q", said, want)
	}
	return context.Cause(ctx)
}

// secondClient passes the script's lines on and counts them. It returns the last.
func (r *report) secondClient(output io.Reader) (last string, err error) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		last = lines.Text()
		switch {
		case strings.HasPrefix(last, "ok   "):
			r.second.add(true)
			if !r.verbose {
				continue
			}
		case strings.HasPrefix(last, "FAIL "):
			r.second.add(false)
		}
		fmt.Fprintln(r.out, last)
	}
	return last, lines.Err()
}
