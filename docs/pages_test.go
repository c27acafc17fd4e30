// Package docs_test holds the pages to what they are about: a link leads
// somewhere, a place in the code is where it is said to be, a command exists, a
// block is what its language says, and each promise is told with the tests that
// carry it. It has tests only.
//
// What a page takes from the code is written by the tests themselves:
//
//	go test ./docs -rewrite
package docs_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the pages take from the code anew")

const root = ".."

// page is one Markdown file of the repository.
type page struct {
	name string // from the root
	text string
}

// pages are all there are, but those of other modules' packages and of runs.
func pages(t *testing.T) (all []page) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch base := entry.Name(); {
		case entry.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "node_modules" || base == "testdata" || base == "bin" || base == "evidence"):
			return fs.SkipDir
		case strings.HasSuffix(base, ".md"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all = append(all, page{filepath.ToSlash(name), string(text)})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("found %d pages: this is not the repository", len(all))
	}
	return all
}

// eachGoFile hands on the name of every Go file of this module, from the root.
func eachGoFile(t *testing.T, f func(name string) error) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, module := os.Stat(filepath.Join(path, "go.mod"))
			if base := entry.Name(); path != root && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || module == nil) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return f(filepath.ToSlash(name))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// block is a fenced piece of a page.
type block struct{ language, text string }

var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

func (p page) blocks() (all []block) {
	for _, found := range fence.FindAllStringSubmatch(p.text, -1) {
		all = append(all, block{found[1], found[2]})
	}
	return all
}

// prose is the page without its blocks.
func (p page) prose() string { return fence.ReplaceAllString(p.text, "") }

// between replaces what stands between two marks of a page, under -rewrite, or
// fails if it is not what is wanted.
func between(t *testing.T, name, begin, end, want string) {
	t.Helper()
	path := filepath.Join(root, name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin+"\n")
	got, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no %s … %s", name, begin, end)
	case got == want:
	case *rewrite:
		if err := os.WriteFile(path, []byte(before+begin+"\n"+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the code says any more: go test ./docs -rewrite\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}
