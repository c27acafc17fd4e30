package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"oneeffect/cmd/internal/process"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The colours, as terminals know them.
const (
	bold  = "1"
	red   = "31"
	green = "32"
)

// painter colours text if it goes to a terminal and nobody objects
// (https://no-color.org).
func painter(to io.Writer, env process.Environment) func(colour, text string) string {
	f, ok := to.(*os.File)
	if ok && env.Get("NO_COLOR") == "" && env.Get("TERM") != "dumb" {
		if about, err := f.Stat(); err == nil && about.Mode()&os.ModeCharDevice != 0 {
			return func(colour, text string) string { return "\x1b[" + colour + "m" + text + "\x1b[0m" }
		}
	}
	return func(_, text string) string { return text }
}

// format is how results are printed.
type format string

const (
	asTable format = "table"
	asJSON  format = "json"
)

// Set, String and Type make it a flag's value.
func (f *format) Set(text string) error {
	switch format(text) {
	case asTable, asJSON:
		*f = format(text)
		return nil
	}
	return fmt.Errorf("%q: give table or json", text)
}

func (f *format) String() string { return cmp.Or(string(*f), string(asTable)) }

// Type names the kind of value in the usage.
func (*format) Type() string { return "table|json" }

// print writes a result: rows for people, or v for programs.
func (a *app) print(v any, header []string, rows [][]string) error {
	if a.output == asJSON {
		if err := json.MarshalWrite(a.stdout, v, jsontext.WithIndent("  "), json.Deterministic(true)); err != nil {
			return err
		}
		_, err := fmt.Fprintln(a.stdout)
		return err
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	if len(header) > 0 {
		fmt.Fprintln(table, strings.Join(header, "\t"))
	}
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}
