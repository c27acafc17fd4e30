package evidence

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// What is read of a file at most.
const (
	maxLine    = 1 << 20 // and a manifest
	maxRecords = 100_000
)

// Aspect is one of the things that a file is held to.
type Aspect string

// The aspects.
const (
	AspectSchema       Aspect = "schema"
	AspectChain        Aspect = "chain"
	AspectCompleteness Aspect = "completeness"
	AspectClass        Aspect = "class"
	AspectCoverage     Aspect = "coverage"
	AspectPreflight    Aspect = "preflight"
)

// Problem is why a file does not pass.
type Problem struct {
	Aspect   Aspect `json:"aspect"`
	Sequence int    `json:"sequence"` // the line, counted from 0; -1: the file
	Text     string `json:"text"`
}

func (p Problem) String() string {
	if p.Sequence < 0 {
		return fmt.Sprintf("%s: %s", p.Aspect, p.Text)
	}
	return fmt.Sprintf("%s: record %d: %s", p.Aspect, p.Sequence, p.Text)
}

// Report is what a file of records shows.
type Report struct {
	Path     string // of the file that was read
	Run      string
	About    About
	Records  []Record // those that could be read
	Head     string   // the last record's own hash
	Closed   time.Time
	Problems []Problem
}

// Verify reads a file of records, or the folder of a run, and holds it to everything
// that can be held without the endpoints. head, if it is not empty, is the head that
// the run told; without it the manifest beside the file must be there (V4). An error
// means that there is no such file.
func Verify(path, head string) (Report, error) {
	if about, err := os.Stat(path); err == nil && about.IsDir() {
		path = filepath.Join(path, RecordsFile)
	}
	file, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer file.Close()
	s, err := compile()
	if err != nil {
		return Report{}, err
	}
	manifest, err := readManifest(filepath.Join(filepath.Dir(path), ManifestFile))
	if err != nil {
		return Report{}, err
	}
	report, err := s.verify(file, manifest, head)
	report.Path = path
	return report, err
}

// readManifest reads a manifest; nil: there is none.
func readManifest(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxLine+1))
	if err == nil && len(text) > maxLine {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxLine)
	}
	return text, err
}

// verify is Verify of what has been found. No manifest is nil.
func (s *schema) verify(records io.Reader, manifest []byte, head string) (Report, error) {
	v := &verification{schema: s}
	if err := v.read(records); err != nil {
		return Report{}, err
	}
	v.anchor(manifest, head)
	v.cover()
	return v.Report, nil
}

// verification is one Verify.
type verification struct {
	Report
	schema   *schema
	lines    int
	previous string
}

func (v *verification) problem(aspect Aspect, sequence int, format string, args ...any) {
	v.Problems = append(v.Problems, Problem{aspect, sequence, fmt.Sprintf(format, args...)})
}

func (v *verification) read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if v.lines == maxRecords {
			return fmt.Errorf("the file has more than %d records", maxRecords)
		}
		v.line(bytes.Clone(lines.Bytes()))
		v.lines++
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("record %d is longer than %d bytes", v.lines, maxLine)
		}
		return err
	}
	if v.lines == 0 {
		v.problem(AspectSchema, -1, "the file is empty")
	}
	return nil
}

func (v *verification) line(text []byte) {
	n := v.lines
	// Loosely at first: what is missing is to be named, and not only that the schema
	// minds.
	var loose Record
	if err := message.Decode(text, &loose); err == nil {
		if missing := loose.missing(); len(missing) > 0 {
			v.problem(AspectCompleteness, n, "%s: it lacks %s", Incomplete, strings.Join(missing, ", "))
		}
	}
	r, err := v.schema.read(text)
	if err != nil {
		v.problem(AspectSchema, n, "%s", oneLine(err))
	}
	v.link(text, n)
	if err != nil {
		return
	}
	if n == 0 {
		v.Run = r.Run
		if r.Kind == KindRun {
			v.About = *r.About
		}
	}
	switch {
	case r.Sequence != n:
		v.problem(AspectChain, n, "it says that it is number %d", r.Sequence)
	case r.Run != v.Run:
		v.problem(AspectChain, n, "it is of the run %s", r.Run)
	case (n == 0) != (r.Kind == KindRun):
		v.problem(AspectSchema, n, "its kind is %s: the run's own record is the first one, and there is no other", r.Kind)
	}
	if derived := r.Class(); derived != r.Observed {
		v.problem(AspectClass, n, "it says %s, and its observations say %s", r.Observed, derived)
	}
	if p := r.Preflight; p != nil && !p.Holds {
		v.problem(AspectPreflight, n, "invalid: what is relied on does not hold where this run was made: %s; expected: %s; %s", p.Reliance, p.Expected, message.Line(p.Seen))
	}
	v.Records = append(v.Records, r)
}

// link holds one line to the chain, by its bytes alone.
func (v *verification) link(text []byte, n int) {
	var members map[string]jsontext.Value
	if err := message.Decode(text, &members); err != nil {
		v.problem(AspectChain, n, "it cannot be read")
		return
	}
	var hash, previous string
	_ = json.Unmarshal(members["hash"], &hash) // what is no text is no hash
	_ = json.Unmarshal(members["previous"], &previous)
	delete(members, "hash")
	bare, err := canonical(members)
	if err != nil {
		v.problem(AspectChain, n, "it has no canonical form: %v", err)
		return
	}
	if computed := digest(bare); computed != hash {
		v.problem(AspectChain, n, "its hash is %s, and its content has %s", cmp.Or(hash, "missing"), computed)
	}
	if whole, err := message.Canonical(text); err != nil || !bytes.Equal(whole, text) {
		v.problem(AspectChain, n, "it is not in its canonical form")
	}
	if previous != v.previous {
		v.problem(AspectChain, n, "it follows %s, and the record before it has %s", cmp.Or(previous, "nothing"), cmp.Or(v.previous, "no hash"))
	}
	v.previous, v.Head = hash, hash
}

// anchor compares the chain's end with what was written down elsewhere.
func (v *verification) anchor(manifest []byte, head string) {
	if head != "" && head != v.Head {
		v.problem(AspectChain, -1, "its head is %s, and the run told %s", v.Head, head)
	}
	if manifest == nil {
		if head == "" {
			v.problem(AspectChain, -1, "there is no %s beside it and no head was given: anybody could have computed this chain anew", ManifestFile)
		}
		return
	}
	var m Manifest
	if err := message.Decode(manifest, &m, json.RejectUnknownMembers(true)); err != nil {
		v.problem(AspectChain, -1, "%s: %s", ManifestFile, oneLine(err))
		return
	}
	v.Closed = m.Closed
	for _, d := range []struct{ what, is, says string }{
		{"form", manifestVersion, m.Schema}, {"run", v.Run, m.Run}, {"head", v.Head, m.Head},
		{"number of records", fmt.Sprint(v.lines), fmt.Sprint(m.Records)},
	} {
		if d.is != d.says {
			v.problem(AspectChain, -1, "%s says that the %s is %s, and it is %s", ManifestFile, d.what, d.says, d.is)
		}
	}
}

// cover holds a run of the probes to their table (V6).
func (v *verification) cover() {
	if v.About.Purpose != PurposeProbes {
		return
	}
	cases := Cases()
	for _, c := range cases {
		found := 0
		for _, r := range v.Records {
			if r.Probe == nil || r.Probe.Name != c.Name || r.Probe.Case != c.Case {
				continue
			}
			found++
			if wrong := c.differences(r); len(wrong) > 0 {
				v.problem(AspectCoverage, r.Sequence, "%s (%s): %s", c.Name, c.Case, strings.Join(wrong, "; "))
			}
		}
		if found != 1 {
			v.problem(AspectCoverage, -1, "%s (%s): %d records, and there must be one", c.Name, c.Case, found)
		}
	}
	for _, r := range v.Records {
		if r.Probe != nil && !slices.ContainsFunc(cases, func(c Case) bool { return c.Name == r.Probe.Name && c.Case == r.Probe.Case }) {
			v.problem(AspectCoverage, r.Sequence, "%s (%s) is none of the cases", r.Probe.Name, r.Probe.Case)
		}
	}
}

// differences says where a record does not have the fixtures of its case.
func (c Case) differences(r Record) []string {
	var wrong []string
	compare := func(what string, is, must any) {
		if is != must {
			wrong = append(wrong, fmt.Sprintf("%s is %v, and the table says %v", what, is, must))
		}
	}
	compare("its number", r.Probe.Number, c.Probe)
	compare("its sense", r.Probe.Sense, c.Sense)
	compare("what is expected", r.Expected, c.Expected)
	compare("the event key", r.EventKey, c.EventKey)
	compare("the business entity", r.BusinessEntity, c.Entity)
	compare("the version", r.Version, c.Version)
	ids := make([]string, len(r.DeliveryAttempt))
	for i, a := range r.DeliveryAttempt {
		ids[i] = a.ID
	}
	compare("the transport ids", strings.Join(ids, " "), strings.Join(c.Deliveries, " "))
	// By its observations, and not by what it says: of those that are this class there are
	// two states.
	if r.Class() == c.Expected && c.Before > 0 {
		var stocks []int64
		for _, o := range r.Evidence.LocalObservations {
			if o.State != nil {
				stocks = append(stocks, o.State.Stock)
			}
		}
		compare("the stock before it", stocks[0], c.Before)
		compare("the stock after it", stocks[len(stocks)-1], c.After)
	}
	return wrong
}

// Intact says whether the chain and its anchor hold.
func (r Report) Intact() bool {
	return r.Head != "" && !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Aspect == AspectChain })
}

// Invalid are the verdicts for which nothing counts that the run has seen (V8).
func (r Report) Invalid() []Verdict {
	var broken []Verdict
	for _, record := range r.Records {
		if record.Preflight != nil && !record.Preflight.Holds {
			broken = append(broken, *record.Preflight)
		}
	}
	return broken
}

// Tally counts records by what they are about.
type Tally struct {
	Of, AsExpected int
}

// Probes counts the probes. One of several cases is as expected if all of them are.
func (r Report) Probes() Tally {
	good := map[string]bool{}
	for _, record := range r.Records {
		if record.Probe == nil {
			continue
		}
		before, known := good[record.Probe.Name]
		good[record.Probe.Name] = (before || !known) && record.asExpected() && !r.blamed(record.Sequence)
	}
	t := Tally{Of: len(good)}
	for _, c := range Cases() { // a case without a record is not as expected
		if _, known := good[c.Name]; known && !slices.ContainsFunc(r.Records, func(record Record) bool {
			return record.Probe != nil && record.Probe.Name == c.Name && record.Probe.Case == c.Case
		}) {
			good[c.Name] = false
		}
	}
	for _, ok := range good {
		if ok {
			t.AsExpected++
		}
	}
	return t
}

// Count counts the records of a kind.
func (r Report) Count(kind Kind) Tally {
	var t Tally
	for _, record := range r.Records {
		if record.Kind == kind {
			t.Of++
			if record.asExpected() && !r.blamed(record.Sequence) {
				t.AsExpected++
			}
		}
	}
	return t
}

func (r Record) asExpected() bool { return r.Expected != "" && r.Expected == r.Observed }

func (r Report) blamed(sequence int) bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Sequence == sequence })
}

// Passes says whether everything is as it must be.
func (r Report) Passes() bool {
	for _, kind := range []Kind{KindProbe, KindCell, KindPreflight} {
		if t := r.Count(kind); t.Of != t.AsExpected {
			return false
		}
	}
	return len(r.Problems) == 0
}

// Notices are the sources that are due for review (V7).
func (r Report) Notices(now time.Time) []string {
	var notices []string
	for _, s := range r.About.Sources {
		if s.ReviewBy.Passed(now) {
			notices = append(notices, fmt.Sprintf("%q was last checked on %s and was to be reviewed by %s: look at it again before relying on what is claimed from it (%s)", s.Title, s.Checked, s.ReviewBy, s.Locator))
		}
	}
	return notices
}

// oneLine is an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
