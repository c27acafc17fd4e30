package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The operator's drill against a system of real processes, and against a store that
// does not look at conditions: the drill is worth something only if it can fail.
func TestTheZombieDrillSeesAFencedWriteAndOneEffect(t *testing.T) { // C4
	t.Parallel()
	bin := programs(t)
	for name, test := range map[string]struct {
		off    string // a rule of the emulators
		status int
		last   string
	}{
		"fenced":                          {"", 0, "zombie: 2 tasks, 2 effects, 2 writes fenced"},
		"a store that ignores conditions": {"cosmos.if-match/claims", 1, "zombie: 2 tasks, 2 effects, 0 writes fenced"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &crashing{bin: bin, folder: t.TempDir()}
			s := r.stage(called(t, "claim sent, answer lost / keyed / alive"), r.folder) // a whole system; the cell is not played
			defer s.leave()
			defer s.disconnect(t.Context())
			if err := s.prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			if test.off != "" {
				if err := s.events.switchOff(t.Context(), test.off); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "taskctl"), "drill", "zombie", "--cosmos-endpoint="+s.cosmosURL(),
				"--orchestrator-url=http://"+s.api, "--control-url=http://"+s.control, "--downstream-url=http://"+s.downstream)
			cmd.Env = append(os.Environ(), "SERVICEBUS_CONNECTION_STRING="+s.connectionString(), "TMPDIR="+t.TempDir())
			out, err := cmd.Output()
			status := 0
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				status = exit.ExitCode()
				t.Logf("stderr: %s", exit.Stderr)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if status != test.status || lines[len(lines)-1] != test.last {
				t.Errorf("exit status %d, printed\n%s", status, out)
			}
		})
	}
}
