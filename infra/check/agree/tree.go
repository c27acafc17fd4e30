// Package agree holds together what is written in several places: Bicep, manifests,
// the compose file, the emulator's configuration and the code must say the same of
// every value that they share.
//
// Everything is read from the files themselves; what is expected is nowhere written
// a second time, but for what the platform fixes (ids of roles, names of its
// variables).
package agree

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"oneeffect/infra/check/bicep"
)

// Tree is the content of the files that are compared, by path from the root of the
// repository.
type Tree map[string]string

// Read reads what is compared.
func Read(root string) (Tree, error) {
	tree := Tree{}
	for _, name := range []string{
		"infra", "emulator/config.json", "emulator/compose.yaml", "handlers.yaml", "Dockerfile", "azure.yaml", "go.mod", ".github/workflows", "cmd", "internal",
	} {
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			if entry.IsDir() {
				if relative == filepath.Join("infra", "check") || entry.Name() == "testdata" {
					return fs.SkipDir
				}
				return nil
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			tree[filepath.ToSlash(relative)] = string(content)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// With is the tree with a text of a file exchanged: the first after an anchor. Both
// must be there.
func (t Tree) With(name, anchor, old, new string) (Tree, error) {
	before, after, found := strings.Cut(t[name], anchor)
	if !found || !strings.Contains(after, old) {
		return nil, fmt.Errorf("%s has no %q after %q", name, old, anchor)
	}
	changed := maps.Clone(t)
	changed[name] = before + anchor + strings.Replace(after, old, new, 1)
	return changed, nil
}

// Problem is what is wrong with a file.
type Problem struct {
	File string
	Text string
}

func (p Problem) String() string { return p.File + ": " + p.Text }

// world is everything, read.
type world struct {
	tree     Tree
	code     Code
	bicep    map[string]*bicep.File
	overlays map[string][]object // rendered, by path of the overlay
	targets  []*target
	needed   map[string][]need
	scaler   []string // what its identity may do
	problems []Problem
}

// Check compares. Overlays are rendered manifests, by path of the overlay.
func Check(tree Tree, code Code, overlays map[string][]byte) ([]Problem, error) {
	w := &world{tree: tree, code: code, bicep: map[string]*bicep.File{}, overlays: map[string][]object{}}
	for name, content := range tree {
		if !strings.HasSuffix(name, ".bicep") {
			continue
		}
		file, err := bicep.Parse(name, content)
		if err != nil {
			return nil, err
		}
		w.bicep[name] = file
	}
	for name, rendered := range overlays {
		objects, err := parseObjects(rendered)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		w.overlays[name] = objects
	}
	w.needed = map[string][]need{}
	for _, name := range Processes {
		var err error
		if w.needed[name], err = w.needs(name); err != nil {
			return nil, err
		}
	}
	for _, step := range []func() error{
		w.readTargets, w.entities, w.containers, w.accounts, w.roles, w.scalerRoles, w.processes, w.alike, w.memory, w.ports, w.identities, w.scaling,
		w.emulators, w.images, w.collectors, w.modules, w.parameters, w.names, w.horizons,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(w.problems, func(a, b Problem) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(w.problems), nil
}

func (w *world) problem(file, format string, args ...any) {
	w.problems = append(w.problems, Problem{file, fmt.Sprintf(format, args...)})
}

// same complains if one thing is not the same in two places.
func (w *world) same(file, what, is, elsewhere, must string) {
	if is != must {
		w.problem(file, "%s is %q, and %q in %s", what, is, must, elsewhere)
	}
}
