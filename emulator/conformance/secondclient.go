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

// addSecondClients installs what package-lock.json names, exactly, and the scripts
// beside it. The folder's name says which: one that is there already is complete.
func (p *plan) addSecondClients(ctx context.Context, tools toolchain) error {
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
	p.Node, p.Scripts = node, folder
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

// secondClient is a script of checks, and what they need.
type secondClient struct {
	title  string // of its last line
	script string
	log    string
	env    []string
	flags  []string // of the emulator
}

// secondClients are a client of each service.
func (p plan) secondClients() ([]secondClient, error) {
	g, err := p.serviceBusRig()
	if err != nil {
		return nil, err
	}
	trust := "NODE_EXTRA_CA_CERTS=" + p.authority()
	return []secondClient{
		{
			title: "second client", script: "main.mjs", log: "second.log", flags: g.flags,
			env: []string{trust, "SERVICEBUS_CONNECTION_STRING=" + connectionString("RootManageSharedAccessKey")},
		}, {
			title: "second client of Cosmos DB", script: "cosmos.mjs", log: "second-cosmos.log", flags: p.cosmosFlags(),
			env: []string{trust, "COSMOS_ENDPOINT=https://localhost:" + cosmosPort + "/", "COSMOS_KEY=" + cosmosKey},
		},
	}, nil
}

// runSecondClients runs the checks of each second client against a fresh emulator.
// Their lines are passed on, and counted here.
func (p plan) runSecondClients(ctx context.Context, r *report) error {
	clients, err := p.secondClients()
	if err != nil {
		return err
	}
	for _, c := range clients {
		if err := p.runSecondClient(ctx, r, c); err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
	}
	return nil
}

func (p plan) runSecondClient(ctx context.Context, r *report, c secondClient) error {
	log, err := os.Create(filepath.Join(p.Settings.Results, c.log))
	if err != nil {
		return fmt.Errorf("keep what the emulator says: %w", err)
	}
	defer log.Close()
	e, err := startEmulator(ctx, p.Emulator, c.flags, log)
	if err != nil {
		return err
	}
	err = p.runScript(ctx, r, c)
	return errors.Join(err, e.stop())
}

// scriptLimit is how long all checks together may take.
const scriptLimit = 4 * time.Minute

func (p plan) runScript(ctx context.Context, r *report, c secondClient) error {
	ctx, cancel := context.WithTimeoutCause(ctx, scriptLimit, fmt.Errorf("the checks took longer than %v", scriptLimit))
	defer cancel()
	node := exec.CommandContext(ctx, p.Node, filepath.Join(p.Scripts, c.script))
	node.Env = append(os.Environ(), c.env...)
	node.Stderr = os.Stderr
	node.WaitDelay = 5 * time.Second
	output, err := node.StdoutPipe()
	if err == nil {
		err = node.Start()
	}
	if err != nil {
		return fmt.Errorf("start node: %w", err)
	}
	counted, said, readErr := r.secondClient(c.title, output)
	if err := errors.Join(readErr, node.Wait()); err != nil && counted.failed == 0 {
		return errors.Join(err, context.Cause(ctx))
	}
	if want := c.title + ": " + counted.String(); said != want && ctx.Err() == nil {
		return fmt.Errorf("its last line is %q, and its lines count as %q", said, want)
	}
	return context.Cause(ctx)
}

// secondClient passes a script's lines on and counts them. It returns the last, too.
func (r *report) secondClient(title string, output io.Reader) (counted *count, last string, err error) {
	counted = r.countOf(r.seconds, title)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		last = lines.Text()
		switch {
		case strings.HasPrefix(last, "ok   "):
			counted.add(true)
			if !r.verbose {
				continue
			}
		case strings.HasPrefix(last, "FAIL "):
			counted.add(false)
		}
		fmt.Fprintln(r.out, last)
	}
	return counted, last, lines.Err()
}
