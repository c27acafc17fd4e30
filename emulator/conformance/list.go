package main

import (
	"bufio"
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed testdata/azservicebus.txt testdata/azcosmos.txt
var lists embed.FS

// suite is an SDK's tests: those of its module that need a server.
type suite struct {
	Name     string
	Module   string
	Version  string
	Packages []*testPackage
}

// testPackage is one package of an SDK and its compiled tests.
type testPackage struct {
	Path   string // inside the module, "." for its root
	Tests  []string
	Dir    string // where its tests run, as go test would run them
	Binary string
}

// readSuite reads testdata/NAME.txt: first a comment with module and version,
// then one line for each test, package and name.
func readSuite(name string) (suite, error) {
	file, err := lists.Open("testdata/" + name + ".txt")
	if err != nil {
		return suite{}, fmt.Errorf("read the list of tests: %w", err)
	}
	defer file.Close()
	s := suite{Name: name}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 3 && words[0] == "#" && s.Module == "":
			s.Module, s.Version = words[1], words[2]
		case len(words) == 0 || words[0] == "#":
		case len(words) != 2:
			return s, fmt.Errorf("testdata/%s.txt: %q is not a package and a name", name, lines.Text())
		default:
			p := s.at(words[0])
			if slices.Contains(p.Tests, words[1]) {
				return s, fmt.Errorf("testdata/%s.txt: %q is there twice", name, lines.Text())
			}
			p.Tests = append(p.Tests, words[1])
		}
	}
	if s.Module == "" {
		return s, fmt.Errorf("testdata/%s.txt: its first line must be # MODULE VERSION", name)
	}
	return s, lines.Err()
}

// at is the package with this path, new if need be.
func (s *suite) at(path string) *testPackage {
	i := slices.IndexFunc(s.Packages, func(p *testPackage) bool { return p.Path == path })
	if i < 0 {
		i = len(s.Packages)
		s.Packages = append(s.Packages, &testPackage{Path: path})
	}
	return s.Packages[i]
}

// choose leaves those tests whose whole names match.
func (s *suite) choose(expression string) error {
	whole, err := wholeName(expression)
	if err != nil {
		return err
	}
	for _, p := range s.Packages {
		p.Tests = slices.DeleteFunc(p.Tests, func(name string) bool { return !whole.MatchString(name) })
	}
	s.Packages = slices.DeleteFunc(s.Packages, func(p *testPackage) bool { return len(p.Tests) == 0 })
	return nil
}
