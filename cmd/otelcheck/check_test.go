package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sample is what one run of `make otel-check` has captured, cleaned: otelcheck -keep.
func sample(t *testing.T) []envelope {
	t.Helper()
	all, err := readFile("testdata/envelopes.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWhatWasCapturedIsComplete(t *testing.T) {
	all := sample(t)
	found := examine(all)
	for _, p := range found.problems {
		t.Error(p)
	}
	if found.envelopes != len(all) || found.operations != 1 {
		t.Errorf("%s", found.summary())
	}
}

// A check that cannot fail shows nothing: whatever is taken away must be missed.
func TestNothingCanBeTakenAwayUnnoticed(t *testing.T) {
	all := sample(t)
	missed := func(what string, without []envelope) {
		t.Helper()
		if found := examine(without); len(found.problems) == 0 {
			t.Errorf("without %s: %s", what, found.summary())
		}
	}
	i := slices.IndexFunc(all, func(e envelope) bool {
		return e.Data.BaseData.Name == "POST /v1/executions" && e.Data.BaseData.Properties["oneeffect.task"] == task
	})
	operation := all[i].operation()
	spans := 0
	for i, e := range all {
		b := e.Data.BaseData
		switch {
		case e.isSpan() && e.operation() == operation && e.instance() != killed:
			spans++
			missed("the span "+b.Name+" of "+e.instance(), slices.Delete(slices.Clone(all), i, i+1))
		case e.Data.BaseType == "ExceptionData":
			missed("the exception", slices.Delete(slices.Clone(all), i, i+1))
		}
	}
	if spans < 20 {
		t.Errorf("the operation has %d spans: too few to mean anything", spans)
	}
	for role, names := range metrics {
		for _, name := range names {
			missed(name+" of "+role, slices.DeleteFunc(slices.Clone(all), func(e envelope) bool {
				return e.role() == role && e.Data.BaseType == "MetricData" && e.Data.BaseData.Metrics[0].Name == name
			}))
		}
	}
	missed("lines of the log", slices.DeleteFunc(slices.Clone(all), func(e envelope) bool { return e.Data.BaseType == "MessageData" }))
}

func TestAnythingWrongWithASpanIsNoticed(t *testing.T) {
	for what, spoil := range map[string]func(*envelope){
		"no links": func(e *envelope) { delete(e.Data.BaseData.Properties, "_MS.links") },
		"broken links": func(e *envelope) {
			if e.links() != nil {
				e.Data.BaseData.Properties["_MS.links"] = "["
			}
		},
		"no target":        func(e *envelope) { e.Data.BaseData.Target = "" },
		"no type":          func(e *envelope) { e.Data.BaseData.Type = "" },
		"no source":        func(e *envelope) { e.Data.BaseData.Source = "" },
		"no role":          func(e *envelope) { delete(e.Tags, "ai.cloud.role") },
		"no instance":      func(e *envelope) { delete(e.Tags, "ai.cloud.roleInstance") },
		"another parent":   func(e *envelope) { e.Tags["ai.operation.parentId"] = "0000000000000001" },
		"no disposition":   func(e *envelope) { delete(e.Data.BaseData.Properties, "messaging.servicebus.disposition_status") },
		"another instance": func(e *envelope) { e.Tags["ai.cloud.roleInstance"] = killed },
	} {
		all := sample(t)
		for i := range all {
			spoil(&all[i])
		}
		if found := examine(all); len(found.problems) == 0 {
			t.Errorf("%s: %s", what, found.summary())
		}
	}
}

func TestAnOperationMoreIsCounted(t *testing.T) {
	all := sample(t)
	i := slices.IndexFunc(all, func(e envelope) bool { return e.Data.BaseData.Properties["oneeffect.claim"] == "takeover" })
	all[i].Tags["ai.operation.id"] = "00000000000000000000000000000001"
	delete(all[i].Data.BaseData.Properties, "_MS.links")
	if found := examine(all); found.operations != 2 || len(found.problems) == 0 {
		t.Errorf("%s", found.summary())
	}
}

// The program says it by its last line and its exit status.
func TestTheProgramFailsWhenOneSpanIsRemoved(t *testing.T) {
	all := sample(t)
	whole, less := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "less")
	write := func(name string, all []envelope) {
		var text bytes.Buffer
		for _, e := range all {
			if err := json.NewEncoder(&text).Encode(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(whole, all)
	i := slices.IndexFunc(all, func(e envelope) bool { return e.Data.BaseData.Name == "complete tasks" && e.isSpan() })
	write(less, slices.Delete(slices.Clone(all), i, i+1))
	last := func(file string) (string, error) {
		var out strings.Builder
		err := run(t.Context(), []string{"-read", file}, &out, &out)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		return lines[len(lines)-1], err
	}
	if line, err := last(whole); err != nil || !strings.HasSuffix(line, " envelopes, 1 operation, 0 missing") {
		t.Errorf("%v, %s", err, line)
	}
	if line, err := last(less); err == nil || !strings.HasSuffix(line, " envelopes, 1 operation, 1 missing") {
		t.Errorf("%v, %s", err, line)
	}
}
