package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// ledger is what the downstream has counted itself: the only place where effects are
// counted.
type ledger struct {
	Effects int     `json:"effects"`
	Entries []entry `json:"entries"`
}

// entry is one key's line of the ledger.
type entry struct {
	Path    string `json:"path"`
	Key     string `json:"key"`
	Calls   int    `json:"calls"`
	Effects int    `json:"effects"`
}

// ledger reads it.
func (s *system) ledger(ctx context.Context) (ledger, error) {
	answer, _, err := ask(ctx, http.DefaultClient, http.MethodGet, "http://"+s.downstream+"/ledger", nil)
	if err != nil {
		return ledger{}, err
	}
	var l ledger
	if err := json.Unmarshal(answer, &l); err != nil {
		return ledger{}, fmt.Errorf("read the ledger: %w", err)
	}
	return l, nil
}
