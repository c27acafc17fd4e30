package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"oneeffect/cmd/internal/process"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The colours, as terminals know them.
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// painter colours text if it goes to a terminal and nobody objects
// (https://no-color.org).
func painter(to io.Writer, env process.Environment) func(colour, text string) string {
	if _, there := terminal(to); there && env.Get("NO_COLOR") == "" && env.Get("TERM") != "dumb" {
		return func(colour, text string) string {
			if colour == "" || text == "" {
				return text
			}
			return "\x1b[" + colour + "m" + text + "\x1b[0m"
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
		return a.printJSON(v, jsontext.WithIndent("  "))
	}
	if len(header) > 0 {
		rows = append([][]string{header}, rows...)
	}
	_, err := io.WriteString(a.stdout, aligned(rows))
	return err
}

// printJSON writes a document and ends its line.
func (a *app) printJSON(v any, o ...json.Options) error {
	text, err := json.Marshal(v, append(o, json.Deterministic(true))...)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(append(text, '\n'))
	return err
}

// gap is what stands between two columns.
const gap = 2

// aligned puts cells under each other. Colours take no room.
func aligned(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-width(cell)+gap))
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// width is how many columns a cell takes.
func width(cell string) int {
	n := utf8.RuneCountInString(cell)
	for rest := cell; ; {
		begin := strings.Index(rest, "\x1b[")
		if begin < 0 {
			return n
		}
		length := strings.IndexByte(rest[begin:], 'm') + 1
		if length == 0 {
			return n
		}
		n -= length
		rest = rest[begin+length:]
	}
}

// plain makes one line of printable text of what callers, downstreams and operators
// wrote: a terminal is told nothing by it.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// clock is a time for people, who compare it with logs: UTC.
func clock(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02 15:04:05.000Z")
}

// progress is a line on stderr that says how far a long work has come. Where somebody
// looks it is one line, written over; else nothing is said, and what is done stands in
// the result.
type progress struct {
	to   io.Writer
	seen bool
	last string
}

func (a *app) progress() *progress {
	_, there := terminal(a.stderr)
	return &progress{to: a.stderr, seen: there && a.env.Get("TERM") != "dumb"}
}

// say replaces what was said before.
func (p *progress) say(form string, args ...any) {
	line := fmt.Sprintf(form, args...)
	if !p.seen || line == p.last {
		return
	}
	p.last = line
	fmt.Fprintf(p.to, "\r\x1b[K%s", line)
}

// clear makes room for a line of the result.
func (p *progress) clear() {
	if p.last != "" {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.last = ""
	}
}
