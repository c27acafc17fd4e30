package evidence

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The files of a run.
const (
	RecordsFile  = "records.jsonl"
	ManifestFile = "manifest.json"
	SchemaFile   = "record.schema.json"
	PageFile     = "index.html"
)

// ErrIncomplete: a record lacks one of the ten fields (V1).
var ErrIncomplete = errors.New(string(Incomplete))

// Run is a run that is being recorded. Append and Close may be called from any
// goroutine.
type Run struct {
	dir, name string
	schema    *schema

	mu       sync.Mutex // guards the rest
	file     *os.File
	previous string
	next     int
	failed   error // after a write that did not succeed, nobody knows what is in the file
}

// Manifest stands beside the records and says how the chain ends (V4).
type Manifest struct {
	Schema  string    `json:"schema"`
	Run     string    `json:"run"`
	Records int       `json:"records"`
	Head    string    `json:"head"`
	Closed  time.Time `json:"closed"`
}

// manifestVersion names the form of a manifest.
const manifestVersion = "oneeffect-evidence-manifest/v1"

// NewRun makes a folder for a run in dir (V5), and begins with the run's own record.
func NewRun(dir string, about About) (*Run, error) {
	s, err := compile()
	if err != nil {
		return nil, err
	}
	if len(about.Sources) == 0 {
		about.Sources = Sources()
	}
	var nonce [3]byte
	rand.Read(nonce[:]) // never fails (crypto/rand)
	now := time.Now().UTC()
	r := &Run{schema: s, name: now.Format("20060102T150405Z") + "-" + hex.EncodeToString(nonce[:])}
	r.dir = filepath.Join(dir, r.name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("begin a run: %w", err)
	}
	if err := os.Mkdir(r.dir, 0o750); err != nil {
		return nil, fmt.Errorf("begin a run: %w", err)
	}
	r.file, err = os.OpenFile(filepath.Join(r.dir, RecordsFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return nil, fmt.Errorf("begin a run: %w", err)
	}
	err = os.WriteFile(filepath.Join(r.dir, SchemaFile), schemaText, 0o640)
	if err == nil {
		err = r.Append(Record{Kind: KindRun, At: now, About: &about})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin a run: %w", err), r.file.Close())
	}
	return r, nil
}

// Dir is the run's folder.
func (r *Run) Dir() string { return r.dir }

// Append writes a record. Its run, its place in the chain, its class (V2) and its
// time, if it has none, are filled in.
func (r *Run) Append(record Record) error {
	if missing := record.missing(); len(missing) > 0 {
		return fmt.Errorf("%w: the record lacks %s", ErrIncomplete, strings.Join(missing, ", "))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return r.failed
	}
	record.Schema, record.Run, record.Sequence, record.Previous = Version, r.name, r.next, r.previous
	if record.At.IsZero() {
		record.At = time.Now()
	}
	record.At = record.At.UTC()
	record.Observed = record.Class()
	line, err := seal(&record)
	if err != nil {
		return fmt.Errorf("append a record: %w", err)
	}
	if err := r.schema.check(line); err != nil {
		return fmt.Errorf("append a record: %w", err)
	}
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		r.failed = fmt.Errorf("append a record: %w", err)
		return r.failed
	}
	r.previous = record.Hash
	r.next++
	return nil
}

// missing names what is not there, of a record that must have it.
func (r Record) missing() []string {
	switch r.Kind {
	case KindProbe, KindCell:
		return r.Missing()
	}
	return nil
}

// Close ends the run and returns the head of its chain, which the caller tells to
// somebody who cannot write the file (V4).
func (r *Run) Close() (head string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.failed, r.file.Sync(), r.file.Close()); err != nil {
		return "", fmt.Errorf("end the run: %w", err)
	}
	r.failed = errors.New("the run has ended")
	text, err := canonical(Manifest{Schema: manifestVersion, Run: r.name, Records: r.next, Head: r.previous, Closed: time.Now().UTC()})
	if err != nil {
		return "", fmt.Errorf("end the run: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, ManifestFile), append(text, '\n'), 0o640); err != nil {
		return "", fmt.Errorf("end the run: %w", err)
	}
	return r.previous, nil
}
