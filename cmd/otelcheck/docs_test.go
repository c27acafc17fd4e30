package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tables are what a query asks, and which envelopes they are made of.
var tables = map[string]string{
	"requests": "RequestData", "dependencies": "RemoteDependencyData", "exceptions": "ExceptionData", "traces": "MessageData", "customMetrics": "MetricData",
}

// columns are those of the tables, and what an envelope has in each.
var columns = map[string]func(envelope) string{
	"timestamp":          func(e envelope) string { return e.Time },
	"operation_Id":       envelope.operation,
	"operation_ParentId": envelope.parent,
	"cloud_RoleName":     envelope.role,
	"cloud_RoleInstance": envelope.instance,
	"type":               func(e envelope) string { return e.Data.BaseData.Type },
	"target":             func(e envelope) string { return e.Data.BaseData.Target },
	"duration":           func(e envelope) string { return e.Data.BaseData.Duration },
	"message":            func(e envelope) string { return e.Data.BaseData.Message },
	"resultCode":         func(e envelope) string { return e.Data.BaseData.ResultCode + e.Data.BaseData.ResponseCode },
	"name": func(e envelope) string {
		for _, m := range e.Data.BaseData.Metrics {
			return m.Name
		}
		return e.Data.BaseData.Name
	},
	"value": func(e envelope) string {
		if len(e.Data.BaseData.Metrics) > 0 {
			return "a number"
		}
		return ""
	},
	"success": func(e envelope) string {
		if e.Data.BaseData.Success != nil {
			return "yes or no"
		}
		return ""
	},
}

// language is what the queries use of Kusto's own words.
var language = strings.Fields(`let toscalar where top by asc desc project order summarize union and or in bin
	tostring toint todouble isnotempty ago count countif sum avg max percentile dcount arg_max take_any false customDimensions`)

var (
	fence     = regexp.MustCompile("(?s)```kusto\n(.*?)```")
	dimension = regexp.MustCompile(`customDimensions\["([^"]+)"\]`)
	text      = regexp.MustCompile(`"([^"]*)"`)
	defined   = regexp.MustCompile(`([A-Za-z_][A-Za-z_0-9]*) = `)
	word      = regexp.MustCompile(`[A-Za-z_][A-Za-z_0-9]*`)
	timespan  = regexp.MustCompile(`\b\d+[dhms]\b`)
)

// Every query asks for columns and dimensions that were captured, in the tables that
// it asks, and compares with names that exist.
func TestQueriesAskForWhatIsThere(t *testing.T) {
	doc, err := os.ReadFile("../../docs/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	queries := fence.FindAllStringSubmatch(string(doc), -1)
	if len(queries) != 10 {
		t.Fatalf("%d queries, and ten questions", len(queries))
	}
	all := sample(t)
	for i, q := range queries {
		for _, complaint := range complaints(q[1], all) {
			t.Errorf("question %d: %s", i+1, complaint)
		}
	}
}

func complaints(query string, all []envelope) (wrong []string) {
	var asked []envelope // what is in the tables that the query names
	for _, e := range all {
		for table, base := range tables {
			if e.Data.BaseType == base && regexp.MustCompile(`\b`+table+`\b`).MatchString(query) {
				asked = append(asked, e)
			}
		}
	}
	has := func(of func(envelope) string) bool {
		return slices.ContainsFunc(asked, func(e envelope) bool { return of(e) != "" })
	}
	for _, m := range dimension.FindAllStringSubmatch(query, -1) {
		if !has(func(e envelope) string { return e.Data.BaseData.Properties[m[1]] }) {
			wrong = append(wrong, "nothing that was captured has the dimension "+m[1])
		}
	}
	rest := dimension.ReplaceAllString(query, "customDimensions")
	for _, m := range text.FindAllStringSubmatch(rest, -1) {
		said := slices.ContainsFunc(asked, func(e envelope) bool {
			for _, of := range columns {
				if of(e) == m[1] {
					return true
				}
			}
			for _, value := range e.Data.BaseData.Properties {
				if value == m[1] {
					return true
				}
			}
			return false
		})
		if !said {
			wrong = append(wrong, "nothing that was captured says "+m[1])
		}
	}
	own := map[string]bool{}
	for _, m := range defined.FindAllStringSubmatch(rest, -1) {
		own[m[1]] = true
	}
	for _, w := range word.FindAllString(timespan.ReplaceAllString(text.ReplaceAllString(rest, ""), ""), -1) {
		_, isTable := tables[w]
		column, isColumn := columns[w]
		switch {
		case isTable, own[w] && !isColumn, slices.Contains(language, w):
		case !isColumn:
			wrong = append(wrong, w+" is no column, and no word of the language that is known here")
		case !has(column):
			wrong = append(wrong, "nothing that was captured has the column "+w)
		}
	}
	return wrong
}

func TestAQueryForWhatIsNotThereIsNoticed(t *testing.T) {
	for query, want := range map[string]string{
		`requests | where tostring(customDimensions["oneeffect.nobody"]) == "82f3"`: "dimension oneeffect.nobody",
		`requests | project target`:                                "the column target",
		`requests | project customer`:                              "customer is no column",
		`customMetrics | where name == "oneeffect.worker.nothing"`: "says oneeffect.worker.nothing",
	} {
		if got := complaints(query, sample(t)); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: %q, want %s", query, got, want)
		}
	}
}

// Every name of ours that the code gives to telemetry is explained, and nothing is
// explained that the code does not have.
func TestEveryNameIsExplained(t *testing.T) {
	name := regexp.MustCompile("[\"`](oneeffect\\.[a-z_.]+)[\"`]")
	read := func(path string, into map[string]bool) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllStringSubmatch(string(content), -1) {
			into[m[1]] = true
		}
	}
	code, docs := map[string]bool{}, map[string]bool{}
	for _, folder := range []string{"worker", "orchestrator", "projector", "servicebus", "cosmos", "downstream"} {
		files, err := filepath.Glob("../../internal/" + folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				read(file, code)
			}
		}
	}
	read("../../docs/tracing.md", docs)
	for n := range code {
		if !docs[n] {
			t.Errorf("docs/tracing.md does not explain %s", n)
		}
	}
	for n := range docs {
		if !code[n] && n != "oneeffect.worker" { // a role
			t.Errorf("docs/tracing.md explains %s, which no code has", n)
		}
	}
	if len(code) < 30 {
		t.Errorf("the code has %d names: too few to have been read", len(code))
	}
}
