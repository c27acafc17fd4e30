package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"oneeffect/measure"
)

// The queues of config.json. None detects duplicates, which is a matter of its own.
const (
	queueWork  = "work"
	queueQuiet = "quiet"
	queueShort = "short"
	queueLong  = "long"
	queueVast  = "vast"
)

// sasKey is the emulator's default.
const sasKey = "SAS_KEY_VALUE"

//go:embed config.json
var config []byte

// writeConfig writes the entities' configuration where the emulator can read it.
func writeConfig(folder string) (path string, err error) {
	path = filepath.Join(folder, "config.json")
	if err := os.WriteFile(path, config, 0o666); err != nil {
		return "", fmt.Errorf("write the configuration: %w", err)
	}
	return path, nil
}

// start returns when the emulator is ready. The name is that of its profile.
func (b *bench) start(ctx context.Context, name string, flags ...string) (*measure.Server, error) {
	flags = append(flags, "-config", b.config,
		"-amqp", "127.0.0.1:0", "-cosmos", "127.0.0.1:0", "-downstream", "127.0.0.1:0", "-control", "127.0.0.1:0")
	if b.Profile != "" {
		flags = append(flags, "-cpuprofile", filepath.Join(b.Profile, name+"-server.pprof"))
	}
	return measure.Launch(ctx, nil, b.Emulator, flags...)
}
