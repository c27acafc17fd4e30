package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a run of evidence has written is shown, and nothing else that is there.
func TestEvidenceIsShownAndNothingBesideIt(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"runs/one/index.html": "<p>one", "runs/one/records.jsonl": "{}\n", "runs/one/secret.txt": "secret", "runs/half/records.jsonl": "{}\n", "runs/note.html": "note", "beside/index.html": "secret",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../beside", filepath.Join(dir, "runs/linked")); err != nil {
		t.Fatal(err)
	}
	shelf, err := openShelf(filepath.Join(dir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/": `<a href="one/">one</a>`, "/one/": "<p>one", "/one/index.html": "<p>one", "/one/records.jsonl": "{}",
		"/one/secret.txt": "404", "/half/": "404", "/note.html": "404", "/linked/": "503", "/../beside/index.html": "404", "/one/../../beside/": "404", "/nothing/": "404", "/one/more/index.html": "404",
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = path
		shelf.ServeHTTP(w, r)
		if got := w.Body.String(); !strings.Contains(got, want) || strings.Contains(got, "secret") || path == "/" && strings.Contains(got, "half") {
			t.Errorf("%s: %d %s, want %s", path, w.Code, got, want)
		}
		if p := w.Header().Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "script") {
			t.Errorf("%s: policy %q", path, p)
		}
	}
	if _, err := openShelf(filepath.Join(dir, "nowhere")); err == nil || !strings.Contains(err.Error(), "make evidence") {
		t.Errorf("no folder: %v", err)
	}
}
