// Package page is what a browser shows of the orchestrator, at /.
//
//	/                     executions, live; filtered and searched
//	/executions/{id}      one of them: the sequence diagram of what happened, and what can be done
//	/dead-letters         with what a replay of each would come to, and the replay
//	/evidence/            what cmd has for it, if anything
//	/live                 server-sent events
//
// Pages are made on the server, from what the API answers: a page is the API's client
// in the same process, asks in the name of whoever looks, and can do no more than they
// may. Without scripts everything works but that the pages are not live.
//
//	P1  Nothing that a caller, a downstream or an operator wrote is anything but text
//	    in a page, and no page loads or runs anything but this package's own files.
//	P2  Whatever is changed is changed by the API, with its rules, under the version
//	    that was seen; its refusals are shown in its words. A page of another origin
//	    changes nothing.
//	P3  However many look, the store is asked once. There are at most MaxSubscribers; who
//	    does not keep up is dropped, comes again, and is told what it has missed, or to
//	    look anew. So is everybody when anything may have changed.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"oneeffect/internal/orchestrator"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

// Options are what a Page is told.
type Options struct {
	API            http.Handler // of package orchestrator
	Evidence       http.Handler // under /evidence/; nil: there is none
	SignOut        string       // path that ends a sign-in; "": nobody signs in here
	MaxSubscribers int          // browsers that are told of changes
	Log            *slog.Logger
}

// Page is the handler. Its Live has to run.
type Page struct {
	Live *Live

	o         Options
	templates *template.Template
	files     http.Handler
	version   string // of the assets: their digest, which is part of their paths
}

// New makes a page in front of an API.
func New(o Options) (*Page, error) {
	assets, err := fs.Sub(assetFiles, "assets")
	if err != nil {
		return nil, err
	}
	templates, err := template.New("").Funcs(functions).ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	version, err := digest(assets)
	if err != nil {
		return nil, err
	}
	return &Page{o: o, templates: templates, files: http.FileServerFS(assets), version: version, Live: newLive(o.MaxSubscribers)}, nil
}

// digest is of all files together.
func digest(files fs.FS) (string, error) {
	all := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		fmt.Fprintf(all, "%q%q", name, text)
		return err
	})
	return hex.EncodeToString(all.Sum(nil)[:8]), err
}

// Handler is the API with the page before it.
func (p *Page) Handler() http.Handler { return orchestrator.OwnOrigin(http.HandlerFunc(p.route)) }

// route finds the page of a path. What is no page's is the API's, and so is / to
// whoever does not ask for HTML.
func (p *Page) route(w http.ResponseWriter, r *http.Request) {
	look := r.Method == http.MethodGet || r.Method == http.MethodHead
	post := r.Method == http.MethodPost
	path := r.URL.EscapedPath()
	rest, ofExecution := strings.CutPrefix(path, "/executions/")
	id, action, acts := strings.Cut(rest, "/")
	switch {
	case path == "/" && look && wantsHTML(r):
		p.list(w, r)
	case ofExecution && look && !acts:
		p.execution(w, r, id)
	case ofExecution && post && (action == "cancel" || action == "replay" || action == "resolve"):
		p.act(w, r, id, action)
	case path == lettersPath && look:
		p.letters(w, r)
	case path == "/live" && look:
		p.Live.serve(w, r)
	case strings.HasPrefix(path, "/assets/") && look:
		p.asset(w, r)
	case strings.HasPrefix(path, "/evidence/") && look && p.o.Evidence != nil:
		http.StripPrefix("/evidence", p.o.Evidence).ServeHTTP(w, r)
	default:
		p.o.API.ServeHTTP(w, r)
	}
}

// wantsHTML reports whether a browser asks.
func wantsHTML(r *http.Request) bool {
	return strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/html")
}

// policy lets a page run this package's script, use its style, ask this origin and
// nothing else; not even the script can make markup from text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// secure are the headers of every page.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// asset is a file that a browser may keep: another one has another path.
func (p *Page) asset(w http.ResponseWriter, r *http.Request) {
	version, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/assets/"), "/")
	if version != p.version || !fs.ValidPath(name) || name == "." {
		p.o.API.ServeHTTP(w, r)
		return
	}
	secure(w.Header())
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	http.StripPrefix("/assets/"+version, p.files).ServeHTTP(w, r)
}

// frame is what all pages have around their own.
type frame struct {
	Title    string
	Assets   string // where its files are
	Who      string // who is signed in; "": nobody has to be
	Operates bool   // may cancel, replay and resolve
	Evidence bool
	SignOut  string
	Here     string // the page in the navigation
	Live     uint64 // up to which change the page shows
	Problem  *problem
	Now      time.Time
}

func (p *Page) frame(r *http.Request, title, here string) frame {
	who := orchestrator.PrincipalOf(r.Context())
	f := frame{Title: title, Assets: "/assets/" + p.version, Operates: who.May(orchestrator.Operate), Evidence: p.o.Evidence != nil, Here: here, Now: time.Now().UTC()}
	if who.Name != orchestrator.Anonymous {
		f.Who, f.SignOut = who.Name, p.o.SignOut
	}
	return f
}

// show answers with a page. It is made whole before anything is sent.
func (p *Page) show(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	var page strings.Builder
	if err := p.templates.ExecuteTemplate(&page, name, data); err != nil {
		p.o.Log.LogAttrs(r.Context(), slog.LevelError, "page not made", slog.String("page", name), slog.Any("err", err))
		orchestrator.WriteProblem(w, orchestrator.StoreRefused, "the page cannot be made; the log of this process says why")
		return
	}
	secure(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(page.String())) // the peer may be gone: nothing to do about it
}

// fail shows a problem as a page of its own.
func (p *Page) fail(w http.ResponseWriter, r *http.Request, here string, err error) {
	refused, ok := errors.AsType[*problem](err)
	if !ok {
		p.o.Log.LogAttrs(r.Context(), slog.LevelError, "page not made", slog.String("path", r.URL.Path), slog.Any("err", err))
		refused = &problem{Status: http.StatusInternalServerError, Title: http.StatusText(http.StatusInternalServerError), Detail: "the API's answer cannot be read; the log of this process says why"}
	}
	f := p.frame(r, refused.Title, here)
	f.Problem = refused
	p.show(w, r, refused.Status, "problem.html", f)
}
