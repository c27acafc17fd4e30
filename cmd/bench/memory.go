package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"oneeffect/measure"
)

// manyTasks are in flight at once where memory is looked at.
const manyTasks = 500

// hire starts the worker's program at a site.
func (b *bench) hire(ctx context.Context, s *site, flags ...string) (*measure.Server, error) {
	file := filepath.Join(b.work, "handlers.yaml")
	if err := os.WriteFile(file, []byte(handlers), 0o600); err != nil {
		return nil, fmt.Errorf("declare the handlers: %w", err)
	}
	flags = append([]string{"-id=bench", "-cosmos-endpoint=" + s.cosmosURL(), "-handlers=" + file}, flags...)
	return measure.Launch(ctx, s.environment(), b.worker, flags...)
}

// measureMemory looks at the worker's program while the downstream holds all its calls.
func (b *bench) measureMemory(ctx context.Context) (err error) {
	s, err := b.newSite(ctx, "memory")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	for _, rule := range []string{
		fmt.Sprintf(`{"name":"last","match":{"service":"downstream"},"do":"hold","nth":%d}`, manyTasks),
		`{"name":"all","match":{"service":"downstream"},"do":"hold"}`,
	} {
		if _, err := s.server.Ask(ctx, http.MethodPost, "/control/rules", rule); err != nil {
			return err
		}
	}
	w, err := b.hire(ctx, s, fmt.Sprintf("-slots=%d", manyTasks))
	if err != nil {
		return err
	}
	idle, err := w.Memory("VmRSS")
	if err == nil {
		err = s.fill(ctx, manyTasks, payload, false)
	}
	if err == nil {
		_, err = s.server.Ask(ctx, http.MethodGet, "/control/rules/last?for=reached&wait=15s", "")
	}
	var inFlight float64
	if err == nil {
		inFlight, err = w.Memory("VmRSS")
	}
	for _, rule := range []string{"last", "all"} { // what they hold goes on
		_, failed := s.server.Ask(ctx, http.MethodDelete, "/control/rules/"+rule, "")
		err = errors.Join(err, failed)
	}
	if err := errors.Join(err, w.Stop()); err != nil {
		return err
	}
	b.table.Row("worker's program: memory, idle", "MB", measure.Goal{}, "").Add(idle)
	b.table.Row(fmt.Sprintf("worker's program: memory, %d tasks in flight", manyTasks), "MB", measure.AtMost(150), "").Add(inFlight)
	return nil
}
