package variants

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var all = flag.Bool("variants", false, "build and run every broken variant")

// limit bounds one variant. Some of them never end: that is not the test failing.
const limit = 4 * time.Minute

// variant is one way to break a promise.
type variant struct {
	promises string // the numbers, separated by blanks
	says     string // what the variant does wrong
	file     string // from internal/
	good     string // stands in the file exactly once …
	broken   string // … and this takes its place
	test     string // that catches it: package, from internal/, and name
}

func (v variant) pkg() string  { return v.test[:strings.LastIndexByte(v.test, '.')] }
func (v variant) name() string { return v.test[strings.LastIndexByte(v.test, '.')+1:] }

const root = ".." // internal/

// write puts the broken file and the overlay that names it into a folder.
func (v variant) write(folder string) (overlay string, err error) {
	path, err := filepath.Abs(filepath.Join(root, v.file))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), v.good); n != 1 {
		return "", fmt.Errorf("%s has %q %d times, want once: the table is not of this code any more", v.file, v.good, n)
	}
	broken := filepath.Join(folder, filepath.Base(path))
	if err := os.WriteFile(broken, []byte(strings.Replace(string(text), v.good, v.broken, 1)), 0o600); err != nil {
		return "", err
	}
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, replaced, 0o600)
}

// run runs the variant's test, with an overlay or without.
func (v variant) run(ctx context.Context, overlay string) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args := []string{"test", "-count=1", "-vet=off", "-timeout=2m", "-run", "^" + v.name() + "$", "./" + v.pkg()}
	if overlay != "" {
		args = slices.Insert(args, 1, "-overlay="+overlay)
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = root
	text, err := command.CombinedOutput()
	return string(text), err
}

// failed says whether what a run has printed is the variant's test failing. A test that
// never ended has not noticed anything.
func (v variant) failed(output string) bool {
	return strings.Contains(output, "--- FAIL: "+v.name()+" ") ||
		strings.Contains(output, "panic: ") && strings.Contains(output, v.name()) && !strings.Contains(output, "panic: test timed out")
}

func TestATestThatNeverEndsCatchesNothing(t *testing.T) {
	v := variant{test: "claim.TestIt"}
	for output, want := range map[string]bool{
		"--- FAIL: TestIt (0.01s)\nFAIL\n":                                         true,
		"panic: nil pointer\n\ngoroutine 7 [running]:\nclaim.TestIt.func1()\n":     true,
		"panic: test timed out after 2m0s\n\trunning tests:\n\t\tTestIt (2m0s)\n":  false,
		"--- FAIL: TestItToo (0.01s)\nFAIL\n":                                      false,
		"# oneeffect/internal/claim\ntake.go:1: undefined: x\nFAIL [build failed]": false,
	} {
		if got := v.failed(output); got != want {
			t.Errorf("%q is taken for a failure: %t, want %t", output, got, want)
		}
	}
}

// Every variant is caught by its test, and by that test alone being run: a build
// that fails, or a test that does not exist, catches nothing.
func TestEveryBrokenVariantIsCaught(t *testing.T) {
	if !*all {
		t.Skip("each variant is a build of its own: make variants runs them")
	}
	var caught atomic.Int64
	t.Cleanup(func() { fmt.Printf("variants: %d broken, %d caught\n", len(table), caught.Load()) })
	for _, v := range table {
		t.Run(v.promises+" "+v.says, func(t *testing.T) {
			t.Parallel()
			overlay, err := v.write(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			output, err := v.run(t.Context(), overlay)
			if _, exited := errors.AsType[*exec.ExitError](err); !exited || !v.failed(output) {
				t.Fatalf("not caught by %s: %v\n%s", v.test, err, output)
			}
			caught.Add(1)
			t.Logf("caught by %s", v.test)
		})
	}
}

// The tests of the table pass on the code as it is: what fails always catches nothing.
func TestTheTestsOfTheTablePassOnWhatIsNotBroken(t *testing.T) {
	if !*all {
		t.Skip("make variants runs them, and make test runs all tests")
	}
	tests := map[string][]string{}
	for _, v := range table {
		tests[v.pkg()] = append(tests[v.pkg()], v.name())
	}
	for pkg, names := range tests {
		slices.Sort(names)
		names = slices.Compact(names)
		output, err := variant{test: pkg + ".(" + strings.Join(names, "|") + ")"}.run(t.Context(), "")
		if err != nil || strings.Contains(output, "no tests to run") {
			t.Errorf("%s: %v\n%s", pkg, err, output)
		}
	}
}

// promised are the packages whose promises must each have a variant.
var promised = []string{"claim", "worker", "execution", "orchestrator", "receipt", "projector", "evidence", "../emulator/disk"}

var promise = regexp.MustCompile(`(?m)^//\s{1,4}([A-Z][0-9]+)\s`)

// A promise without a broken variant is a sentence.
func TestEveryPromiseHasABrokenVariant(t *testing.T) {
	broken := map[string]bool{}
	for _, v := range table {
		for number := range strings.FieldsSeq(v.promises) {
			broken[filepath.Dir(v.file)+" "+number] = true
		}
	}
	for _, pkg := range promised {
		text, err := os.ReadFile(filepath.Join(root, pkg, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		numbers := promise.FindAllStringSubmatch(string(text), -1)
		if len(numbers) == 0 {
			t.Errorf("no promise is found in the documentation of %s", pkg)
		}
		for _, n := range numbers {
			if !broken[pkg+" "+n[1]] {
				t.Errorf("%s: promise %s has no broken variant", pkg, n[1])
			}
		}
	}
}

// What a variant changes stands in the code, and its test exists and carries the
// promise's number. This costs no build, so it runs always.
func TestTheTableIsOfThisCode(t *testing.T) {
	for _, v := range table {
		if _, err := v.write(t.TempDir()); err != nil {
			t.Error(err)
		}
		line := regexp.MustCompile(`func ` + v.name() + `\(t \*testing\.T\) \{(.*)`)
		files, err := filepath.Glob(filepath.Join(root, v.pkg(), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if m := line.FindStringSubmatch(string(text)); m != nil {
				found = m[0]
			}
		}
		if found == "" {
			t.Errorf("%s: there is no such test", v.test)
			continue
		}
		for number := range strings.FieldsSeq(v.promises) {
			if !regexp.MustCompile(`\b` + number + `\b`).MatchString(found) {
				t.Errorf("%s does not carry the number %s: %s", v.test, number, found)
			}
		}
	}
}
