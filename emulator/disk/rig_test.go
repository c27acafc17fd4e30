package disk

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// content is what a store should hold, by bucket and key.
type content map[string]map[string]string

func (c content) put(bucket, key, value string) {
	if c[bucket] == nil {
		c[bucket] = make(map[string]string)
	}
	c[bucket][key] = value
}

func (c content) delete(bucket, key string) {
	delete(c[bucket], key)
	if len(c[bucket]) == 0 {
		delete(c, bucket)
	}
}

func (c content) clone() content {
	copied := make(content)
	for bucket, keys := range c {
		copied[bucket] = maps.Clone(keys)
	}
	return copied
}

func (c content) equal(other content) bool {
	return maps.EqualFunc(c, other, func(a, b map[string]string) bool { return maps.Equal(a, b) })
}

// large is a medium like that of all but tests, which does not wait for the disk.
func large() medium { return newDevice().medium(segmentSize, 4<<10) }

// small is one whose segments are full soon.
func small() medium { return newDevice().medium(4<<10, 512) }

func mustOpen(t *testing.T, folder string, m medium) *Store {
	t.Helper()
	s, err := open(folder, Options{Schema: "tests 1"}, m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// held is what Load shows. It checks the order.
func held(t *testing.T, s *Store) content {
	t.Helper()
	c := make(content)
	var lastBucket string
	var lastKey []byte
	err := s.Load(func(bucket string, key, value []byte) error {
		if bucket < lastBucket || bucket == lastBucket && lastKey != nil && bytes.Compare(key, lastKey) <= 0 {
			t.Errorf("%q of %q comes after %q of %q", key, bucket, lastKey, lastBucket)
		}
		lastBucket, lastKey = bucket, bytes.Clone(key)
		c.put(bucket, string(key), string(value))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// kept waits until everything is on disk.
func kept(s *Store) {
	done := make(chan struct{})
	s.Kept(func() { close(done) })
	<-done
}

// put is an operation that puts one value, on disk when it returns.
func put(s *Store, bucket, key, value string) {
	s.Begin()
	s.Put(bucket, []byte(key), []byte(value))
	s.End()
	kept(s)
}

// copyFolder copies a store as a kill leaves it.
func copyFolder(t *testing.T, folder string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	return to
}

// segments are the paths of a store's segments, the oldest first.
func segments(t *testing.T, folder string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*"+segmentExtension))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no segments in %s: %v", folder, err)
	}
	return paths
}

func numbered(i int) string { return fmt.Sprintf("%06d", i) }
