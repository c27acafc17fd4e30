package main

import (
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"oneeffect/cmd/internal/access"
	"oneeffect/internal/orchestrator"
	"oneeffect/internal/page"
)

// site is the API with the page before it.
func (s settings) site(o *orchestrator.Orchestrator, signOut string, log *slog.Logger) (*page.Page, error) {
	options := page.Options{API: o.API(), MaxSubscribers: s.subscribers, SignOut: signOut, Log: log}
	if s.evidence != "" {
		shelf, err := openShelf(s.evidence)
		if err != nil {
			return nil, err
		}
		options.Evidence = shelf
	}
	p, err := page.New(options)
	if err != nil {
		return nil, err
	}
	o.Changed = p.Live.Publish
	return p, nil
}

// signOut is where a browser's sign-in ends, if there are any.
func (s settings) signOut() string {
	if s.access.Client == "" {
		return ""
	}
	return access.SignOut
}

// shelf serves the runs in a folder of evidence, those of the crash matrix among
// them: the page of each, and what it is made of. Nothing else that may be there is
// served, and nothing outside it.
type shelf struct {
	runs  fs.FS
	files http.Handler
}

// evidencePolicy lets a run's page have the style that is in it, and nothing else.
const evidencePolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-top-navigation-by-user-activation"

// evidenceFiles are what a run writes.
var evidenceFiles = []string{"index.html", "records.jsonl", "manifest.json", "record.schema.json"}

func openShelf(dir string) (*shelf, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("-evidence: %w (make evidence writes such a folder)", err)
	}
	return &shelf{root.FS(), http.FileServerFS(root.FS())}, nil
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", evidencePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	name := strings.TrimPrefix(r.URL.Path, "/")
	run, file := path.Split(name)
	switch {
	case name == "":
		s.list(w)
	case fs.ValidPath(strings.TrimSuffix(run, "/")) && !strings.Contains(strings.TrimSuffix(run, "/"), "/") && (file == "" || slices.Contains(evidenceFiles, file)):
		if file == "" || file == "index.html" {
			s.page(w, strings.TrimSuffix(run, "/"))
			return
		}
		h.Set("Content-Type", "text/plain; charset=utf-8")
		s.files.ServeHTTP(w, r)
	default:
		orchestrator.WriteProblem(w, orchestrator.NoSuchResource, "no such evidence: the runs are at /evidence/")
	}
}

// page is that of one run.
func (s *shelf) page(w http.ResponseWriter, run string) {
	text, err := fs.ReadFile(s.runs, path.Join(run, "index.html"))
	if errors.Is(err, fs.ErrNotExist) {
		orchestrator.WriteProblem(w, orchestrator.NoSuchResource, "no such run: those that there are stand at /evidence/")
		return
	}
	if err != nil {
		orchestrator.WriteProblem(w, orchestrator.Unavailable, "the folder of evidence cannot be read")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(text)
}

// maxRuns bounds the list: the newest.
const maxRuns = 200

type evidenceRun struct {
	Name string
	At   time.Time
}

// list is of the runs, the newest first.
func (s *shelf) list(w http.ResponseWriter) {
	entries, err := fs.ReadDir(s.runs, ".")
	if err != nil {
		orchestrator.WriteProblem(w, orchestrator.Unavailable, "the folder of evidence cannot be read")
		return
	}
	var runs []evidenceRun
	for _, entry := range entries {
		if info, err := fs.Stat(s.runs, path.Join(entry.Name(), "index.html")); entry.IsDir() && err == nil {
			runs = append(runs, evidenceRun{entry.Name(), info.ModTime().UTC()})
		}
	}
	slices.SortFunc(runs, func(a, b evidenceRun) int { return b.At.Compare(a.At) })
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = shelfPage.Execute(w, runs[:min(len(runs), maxRuns)]) // the peer may be gone: nothing to do about it
}

var shelfPage = template.Must(template.New("shelf").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><title>Evidence · oneeffect</title>
<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:1.5em auto;max-width:50em;padding:0 1em}</style></head>
<body><main><p><a href="/">Executions</a></p><h1>Evidence</h1>
{{if .}}<ul>{{range .}}<li><a href="{{.Name}}/">{{.Name}}</a>, {{.At.Format "2006-01-02 15:04:05"}}</li>{{end}}</ul>
{{else}}<p>There is none yet: <code>make evidence</code> and <code>make crash</code> write it.</p>{{end}}</main></body></html>
`))
