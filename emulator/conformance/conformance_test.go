package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestTheListsAreOfTheVersionsThatTheModuleUses(t *testing.T) {
	modules, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]int{
		"azservicebus": {".": 75, "admin": 32, "internal": 14},
		"azcosmos":     {".": 42},
	} {
		s, err := readSuite(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(modules), "\t"+s.Module+" "+s.Version) {
			t.Errorf("%s: the list is of %s %s, go.mod names another", name, s.Module, s.Version)
		}
		for _, p := range s.Packages {
			if len(p.Tests) != want[p.Path] {
				t.Errorf("%s %s: %d tests, want %d", name, p.Path, len(p.Tests), want[p.Path])
			}
			delete(want, p.Path)
		}
		if len(want) > 0 {
			t.Errorf("%s: no tests of %v", name, want)
		}
	}
}

func TestAnExpressionChoosesWholeNames(t *testing.T) {
	s := suite{Packages: []*testPackage{
		{Path: ".", Tests: []string{"TestSender", "TestSenderTwice", "TestReceiver"}},
		{Path: "admin", Tests: []string{"TestQueue"}},
	}}
	if err := s.choose("Sender|TestSender.*"); err != nil {
		t.Fatal(err)
	}
	if len(s.Packages) != 1 || !slices.Equal(s.Packages[0].Tests, []string{"TestSender", "TestSenderTwice"}) {
		t.Errorf("chose %+v", s.Packages)
	}
}

// said is a transcript of what go tool test2json would say.
func said(t *testing.T, events string) *transcript {
	t.Helper()
	tr := newTranscript(func(string) {})
	if err := tr.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	return tr
}

const events = `
{"Action":"start"}
{"Action":"output","Output":"before any test\n"}
{"Action":"run","Test":"TestGood"}
{"Action":"run","Test":"TestGood/Sub"}
{"Action":"output","Test":"TestGood/Sub","Output":"=== RUN   TestGood/Sub\n"}
{"Action":"output","Test":"TestGood/Sub","Output":"    runner.go:29: SOME_PATH not set,\n"}
{"Action":"output","Test":"TestGood/Sub","Output":"        skipping\n"}
{"Action":"output","Test":"TestGood/Sub","Output":"    --- SKIP: TestGood/Sub (0.00s)\n"}
{"Action":"skip","Test":"TestGood/Sub","Elapsed":0}
{"Action":"pass","Test":"TestGood","Elapsed":1.5}
{"Action":"run","Test":"TestBad"}
{"Action":"output","Test":"TestBad","Output":"    x_test.go:1: no\n"}
{"Action":"fail","Test":"TestBad","Elapsed":0.25}
{"Action":"run","Test":"TestSkipped"}
{"Action":"output","Test":"TestSkipped","Output":"    x_test.go:1: not today\n"}
{"Action":"skip","Test":"TestSkipped"}
{"Action":"run","Test":"TestCutOff"}
{"Action":"output","Output":"SIGQUIT: quit\n"}
{"Action":"fail"}
`

func TestOnlyAListedTestThatRanToItsEndHasPassed(t *testing.T) {
	tr := said(t, events)
	if want := []string{"TestGood", "TestBad", "TestSkipped", "TestCutOff"}; !slices.Equal(tr.order, want) {
		t.Fatalf("ran %v, want %v", tr.order, want)
	}
	stuck := errors.New("a test took too long")
	for _, test := range []struct {
		name   string
		listed bool
		err    error
		passed bool
		why    string
		said   string
	}{
		{"TestGood", true, nil, true, "", "skipping"},
		{"TestGood", false, nil, false, "it ran and is not on the list", ""},
		{"TestBad", true, nil, false, "it failed", "x_test.go:1: no"},
		{"TestSkipped", true, nil, false, "it was skipped: not today", ""},
		{"TestCutOff", true, nil, false, "its process ended before it did", "SIGQUIT: quit"},
		{"TestCutOff", true, stuck, false, "a test took too long", ""},
	} {
		o := runner{}.judge(tr.verdicts[test.name], test.listed, test.err, tr.between.last())
		if o.passed != test.passed || o.why != test.why || !strings.Contains(strings.Join(o.said, "\n"), test.said) {
			t.Errorf("%s (listed %v, error %v): %+v", test.name, test.listed, test.err, o)
		}
	}
	good := tr.verdicts["TestGood"]
	if want := []string{"TestGood/Sub: SOME_PATH not set, skipping"}; !slices.Equal(good.Skipped, want) {
		t.Errorf("skipped subtests are %q, want %q", good.Skipped, want)
	}
}

// rehearsal is a runner whose processes say what is written for each of them.
func rehearsal(out *bytes.Buffer, processes ...func(names []string) (string, error)) (runner, *report) {
	r := newReport(out, false)
	return runner{label: "azcosmos .", report: r, once: func(_ context.Context, names []string) (*transcript, error) {
		tr := newTranscript(func(string) {})
		text, err := processes[0](names)
		processes = processes[1:]
		if readErr := tr.read(strings.NewReader(text)); readErr != nil {
			panic(readErr)
		}
		return tr, err
	}}, r
}

func passes(names ...string) string {
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, `{"Action":"run","Test":%q}{"Action":"pass","Test":%[1]q}`, name)
	}
	return text.String()
}

func TestWhatStandsBehindAPanicGetsAnotherProcess(t *testing.T) {
	var out bytes.Buffer
	run, r := rehearsal(&out,
		func([]string) (string, error) {
			return passes("TestA") + `{"Action":"run","Test":"TestB"}{"Action":"output","Output":"panic: b"}`, nil
		},
		func(names []string) (string, error) { return passes(names...), nil },
	)
	run.part(t.Context(), []string{"TestA", "TestB", "TestC", "TestD"})
	if got := r.suites["azcosmos"].String(); got != "3 passed, 1 failed" {
		t.Errorf("%s, want 3 passed, 1 failed:\n%s", got, &out)
	}
	if !strings.Contains(out.String(), "FAIL azcosmos . TestB") || !strings.Contains(out.String(), "panic: b") {
		t.Errorf("it printed:\n%s", &out)
	}
}

func TestATestThatIsMissingOrNotListedFails(t *testing.T) {
	var out bytes.Buffer
	run, r := rehearsal(&out,
		func([]string) (string, error) { return passes("TestA", "TestOther"), nil },
		func([]string) (string, error) { return "", nil },
	)
	run.part(t.Context(), []string{"TestA", "TestGone"})
	if got := r.suites["azcosmos"].String(); got != "1 passed, 2 failed" {
		t.Errorf("%s, want 1 passed, 2 failed:\n%s", got, &out)
	}
	for _, want := range []string{"TestOther (0.0 s): it ran and is not on the list", "TestGone (0.0 s): no such test in this package"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
}

func TestWhatCouldNotBeginFailsWithTheCause(t *testing.T) {
	for _, test := range []struct {
		name string
		text string
		err  error
		want string
	}{
		{"no emulator", "", errors.New("the port is in use"), "| the port is in use"},
		{"no TestMain", `{"Action":"output","Output":"variables are missing"}`, nil, "variables are missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			run, r := rehearsal(&out, func([]string) (string, error) { return test.text, test.err })
			run.part(t.Context(), []string{"TestA", "TestB"})
			if got := r.suites["azcosmos"].String(); got != "0 passed, 2 failed" || !strings.Contains(out.String(), test.want) {
				t.Errorf("%s:\n%s", got, &out)
			}
		})
	}
}

func TestTheLastLineSaysWhatRanAndNothingElse(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings settings
		fail     string
		second   string
		want     string
		err      error
	}{
		{name: "everything passed", want: "conformance: azservicebus 2 passed, 0 failed; azcosmos 1 passed, 0 failed"},
		{name: "one failed", fail: "azcosmos .", want: "conformance: azservicebus 2 passed, 0 failed; azcosmos 1 passed, 1 failed", err: errFailed},
		{name: "the second client failed", second: "ok   a\nFAIL b: no\n", want: "conformance: azservicebus 2 passed, 0 failed; azcosmos 1 passed, 0 failed", err: errFailed},
		{name: "second clients ran", settings: settings{Suite: "second"}, second: "ok   a\nok   b\n", want: "conformance (in part): second client 2 passed, 0 failed"},
		{name: "one suite ran", settings: settings{Suite: "azcosmos"}, want: "conformance (in part): azcosmos 1 passed, 0 failed"},
		{name: "some tests ran", settings: settings{Run: "TestA"}, want: "conformance (in part): azservicebus 2 passed, 0 failed; azcosmos 1 passed, 0 failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			r := newReport(&out, false)
			r.add(outcome{label: "azservicebus .", passed: true})
			r.add(outcome{label: "azservicebus admin", passed: true})
			r.add(outcome{label: "azcosmos .", passed: true})
			if test.fail != "" {
				r.add(outcome{label: test.fail, name: "TestX"})
			}
			if _, _, err := r.secondClient("second client", strings.NewReader(test.second)); err != nil {
				t.Fatal(err)
			}
			err := r.end(test.settings)
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if last := lines[len(lines)-1]; last != test.want || !errors.Is(err, test.err) {
				t.Errorf("%q and %v, want %q and %v", last, err, test.want, test.err)
			}
		})
	}
}

func TestOnlyTheEndOfWhatIsSaidIsKept(t *testing.T) {
	var lines tail
	for i := range 10 * tailLines {
		lines.add(fmt.Sprintln(i))
	}
	last := lines.last()
	if len(last) != tailLines || last[tailLines-1] != fmt.Sprint(10*tailLines-1) || len(lines) > 2*tailLines {
		t.Errorf("%d lines are kept, the last is %q", len(lines), last[len(last)-1])
	}
}
