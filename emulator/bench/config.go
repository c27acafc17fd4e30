package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
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
