package disk

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestWhateverACrashLeavesIsWhole looks at the folder before, after and in the middle of everything that is done to it,
// over many segments, as whoever opens it then would find it: with the operation that is under way, or without.
func TestWhateverACrashLeavesIsWhole(t *testing.T) { // D2, D3
	folder, work := t.TempDir(), t.TempDir()
	d := newDevice()
	s := mustOpen(t, folder, d.medium(1<<10, 128))
	random := rand.New(rand.NewPCG(5, 6))
	before, after := make(content), make(content)
	looks, with := 0, 0
	stale := false
	var copies []string // since the last look, made by the goroutine that writes, which must not end the test
	d.event = func() {
		copied := filepath.Join(work, strconv.Itoa(looks+len(copies)))
		if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
			t.Error(err)
		}
		copies = append(copies, copied)
	}
	look := func(copied string) {
		looks++
		there := len(segments(t, copied))
		left := mustOpen(t, copied, small())
		stale = stale || len(segments(t, copied)) < there
		switch got := held(t, left); {
		case got.equal(after):
			with++
		case !got.equal(before):
			t.Errorf("it holds\n%v\nwant\n%v\nor\n%v", got, before, after)
		}
		put(left, "", "another", "value")
		mustClose(t, left)
		left = mustOpen(t, copied, small())
		if got := held(t, left); got[""]["another"] != "value" {
			t.Errorf("it goes on with\n%v", got)
		}
		mustClose(t, left)
		if err := os.RemoveAll(copied); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		for range 1 + random.IntN(3) { // of the same operation
			bucket, key := numbered(random.IntN(3)), numbered(random.IntN(8))
			after.put(bucket, key, strings.Repeat("value", random.IntN(30)))
		}
		if random.IntN(5) == 0 {
			delete(after, numbered(0))
		}
		change(s, before, after)
		for _, copied := range copies {
			look(copied)
		}
		copies = nil
		before = after.clone()
	}
	d.event = nil
	if looks < 200 || with < 50 || looks-with < 50 || !stale {
		t.Errorf("looked %d times, %d of them after the operation, and ever at a segment that was no longer in use: %t", looks, with, stale)
	}
	mustClose(t, s)
}

// change is the operation that makes of what a store holds something else. It is on disk when it returns.
func change(s *Store, before, after content) {
	s.Begin()
	for bucket, keys := range before {
		if after[bucket] == nil {
			s.Drop(bucket)
			continue
		}
		for key := range keys {
			if _, ok := after[bucket][key]; !ok {
				s.Delete(bucket, []byte(key))
			}
		}
	}
	for bucket, keys := range after {
		for key, value := range keys {
			if old, ok := before[bucket][key]; !ok || old != value {
				s.Put(bucket, []byte(key), []byte(value))
			}
		}
	}
	s.End()
	kept(s)
}

// lastGroup is a store as a kill leaves it, with several groups in one segment: the segment's content up to the last
// group, that group, and what the store holds without and with it.
func lastGroup(t *testing.T) (before, last []byte, without, with content) {
	t.Helper()
	folder := t.TempDir()
	s := mustOpen(t, folder, large())
	with = make(content)
	for i := range 5 {
		without = with.clone()
		before = read(t, segments(t, folder)[0])[:s.log.active().size]
		key, value := numbered(i), strings.Repeat("value", 20)
		put(s, "bucket", key, value)
		with.put("bucket", key, value)
	}
	size := s.log.active().size
	last = read(t, segments(t, folder)[0])[len(before):size]
	mustClose(t, s)
	return before, last, without, with
}

func TestALastGroupThatIsNotWholeIsCutOff(t *testing.T) { // D2, D4
	before, last, without, with := lastGroup(t)
	for _, beyond := range [][]byte{nil, make([]byte, 1000), bytes.Repeat([]byte(groupMagic), 20)} {
		for n := range len(last) + 1 {
			folder := t.TempDir()
			path := filepath.Join(folder, "00000001.log")
			content := append(append(bytes.Clone(before), last[:n]...), beyond...)
			write(t, path, content)
			want := without
			if bytes.HasPrefix(content[len(before):], last) {
				want = with
			}
			for range 2 { // it is as well when it has been cut
				s := mustOpen(t, folder, large())
				if got := held(t, s); !got.equal(want) {
					t.Fatalf("of the last group %d bytes of %d are left, and it holds %v", n, len(last), got)
				}
				mustClose(t, s)
			}
		}
	}
}

// TestAValueDoesNotPassForAGroup cuts a group off that is full of groups: those of its own segment, and those of another
// with numbers to come.
func TestAValueDoesNotPassForAGroup(t *testing.T) { // D4
	folder := t.TempDir()
	s := mustOpen(t, folder, large())
	put(s, "", "one", "1")
	own := read(t, segments(t, folder)[0])
	var other segment
	head := make([]byte, groupSize)
	other.groupHead(head, 1000, nil, nil)
	put(s, "", "two", string(append(own[:s.log.active().size:s.log.active().size], head...)))
	size := s.log.active().size
	folder = copyFolder(t, folder)
	mustClose(t, s)
	if err := os.Truncate(segments(t, folder)[0], size-1); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, folder, large())
	if got := held(t, s); !got.equal(content{"": {"one": "1"}}) {
		t.Errorf("it holds %v", got)
	}
	mustClose(t, s)
}

// TestDamageIsRefused spoils every byte of a store that was closed, of several segments. Only what says that it was
// closed may go unnoticed.
func TestDamageIsRefused(t *testing.T) { // D4
	whole := t.TempDir()
	s := mustOpen(t, whole, newDevice().medium(512, 64))
	for i := range 12 {
		put(s, "bucket", numbered(i), strings.Repeat("value", 10))
	}
	mustClose(t, s)
	paths := segments(t, whole)
	if len(paths) < 3 {
		t.Fatalf("there are %d segments", len(paths))
	}
	folder := copyFolder(t, whole)
	for i, path := range segments(t, folder) {
		content := read(t, path)
		size := len(content)
		last := i == len(paths)-1
		if last {
			size -= groupSize
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		for at := range size {
			_, err := f.WriteAt([]byte{content[at] ^ 0x20}, int64(at))
			refused(t, folder, path, at)
			_, err2 := f.WriteAt(content[at:at+1], int64(at))
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if last {
			continue
		}
		for _, spoil := range []func(path string) error{
			os.Remove,
			func(path string) error { return os.Truncate(path, int64(size-groupSize)) },
			func(path string) error { return os.Truncate(path, headSize) },
			func(path string) error { return os.Truncate(path, 0) },
		} {
			folder := copyFolder(t, whole)
			path := filepath.Join(folder, filepath.Base(path))
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			refused(t, folder, path, size)
		}
	}
}

// refused opens a folder of which one file was changed, or removed.
func refused(t *testing.T, folder, path string, at int) {
	t.Helper()
	before := contents(t, folder)
	s, err := open(folder, Options{Schema: "tests 1"}, small())
	if err == nil {
		mustClose(t, s)
		t.Fatalf("%s, spoiled at byte %d, was opened", path, at)
	}
	if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "start afresh") || !strings.Contains(err.Error(), folder) {
		t.Errorf("refused with %v", err)
	}
	if !before.equal(contents(t, folder)) {
		t.Errorf("%s, spoiled at byte %d, was changed", path, at)
	}
}

// contents is what is in a folder.
func contents(t *testing.T, folder string) content {
	t.Helper()
	c := make(content)
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, syscall.ENOTDIR) {
			return nil
		}
		if err == nil && !e.IsDir() && path != lockName {
			c.put("", path, string(read(t, filepath.Join(folder, path))))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestNoOperationIsThereInHalf writes pairs from several goroutines, cuts the log off anywhere, and finds pairs only,
// without a gap.
func TestNoOperationIsThereInHalf(t *testing.T) { // D2
	folder := t.TempDir()
	s := mustOpen(t, folder, large())
	var writing sync.WaitGroup
	const writers = 4
	for w := range writers {
		writing.Go(func() {
			for i := range 300 {
				s.Begin()
				for _, side := range []string{"left ", "right "} {
					s.Put(side+strconv.Itoa(w), []byte(numbered(i)), nil)
					runtime.Gosched() // who writes would take it now, if it did not wait for the end
				}
				s.End()
				if i%10 == 0 {
					kept(s)
				}
			}
		})
	}
	writing.Wait()
	mustClose(t, s)
	random := rand.New(rand.NewPCG(7, 8))
	content := read(t, segments(t, folder)[0])
	counts := make(map[int]bool)
	for range 100 {
		folder := t.TempDir()
		write(t, filepath.Join(folder, "00000001.log"), content[:headSize+random.IntN(len(content)-headSize)])
		s := mustOpen(t, folder, large())
		c := held(t, s)
		total := 0
		for w := range writers {
			left, right := c["left "+strconv.Itoa(w)], c["right "+strconv.Itoa(w)]
			if len(left) != len(right) {
				t.Errorf("writer %d: %d on the left, %d on the right", w, len(left), len(right))
			}
			for i := range len(left) {
				if _, ok := left[numbered(i)]; !ok {
					t.Errorf("writer %d: %d are there, without the one before %d", w, len(left), i)
				}
			}
			total += len(left)
		}
		counts[total] = true
		mustClose(t, s)
	}
	if len(counts) < 20 {
		t.Errorf("found %d states only", len(counts))
	}
}
