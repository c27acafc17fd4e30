package disk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// slow is a store whose disk writes a group for every value of the channel.
func slow(t *testing.T, folder string, segment int64) (s *Store, d *device, disk chan struct{}) {
	t.Helper()
	d = newDevice()
	s = mustOpen(t, folder, d.medium(segment, 512))
	disk = make(chan struct{})
	d.sync = func() error { <-disk; return nil } // nothing has been written that it could see too late
	return s, d, disk
}

func TestNothingIsAnsweredBeforeItIsOnDisk(t *testing.T) { // D1
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, d, disk := slow(t, folder, 1<<20)
		d.durable = make(map[string][]byte)
		var mu sync.Mutex
		var told []string
		tell := func(what string) {
			s.Kept(func() {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, what)
			})
		}
		begin := func(key string) {
			s.Begin()
			s.Put("", []byte(key), nil)
			s.End()
			tell(key)
		}
		check := func(want string, onDisk ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(told, " "); got != want {
				t.Errorf("told is %q, want %q", got, want)
			}
			left := mustOpen(t, d.afterLossOfPower(t), large())
			if got := slices.Sorted(maps.Keys(held(t, left)[""])); !slices.Equal(got, onDisk) {
				t.Errorf("on disk is %q, want %q", got, onDisk)
			}
			mustClose(t, left)
		}
		tell("nothing")
		check("nothing")
		begin("one")
		check("nothing")
		tell("with one")
		begin("two")
		tell("with two")
		check("nothing")
		disk <- struct{}{}
		check("nothing one with one", "one")
		begin("three")
		close(disk)
		check("nothing one with one two with two three", "one", "three", "two")
		mustClose(t, s)
	})
}

func TestOperationsBeginWhenThereIsRoom(t *testing.T) { // D6
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, _, disk := slow(t, folder, segmentSize)
		value := make([]byte, 200<<10)
		begun := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 500 {
				s.Begin()
				begun++
				s.Put("", []byte(numbered(i%10)), value)
				s.End()
			}
		}()
		synctest.Wait()
		if most := 2 * (maxPending/len(value) + 2); begun > most { // what is being written, and as much again
			t.Errorf("%d values of 200 KiB wait for the disk, want at most %d", begun, most)
		}
		close(disk)
		<-done
		mustClose(t, s)
	})
}

// TestADiskThatTakesNoMoreEndsAllAnswers is about a disk that is full and one that breaks.
func TestADiskThatTakesNoMoreEndsAllAnswers(t *testing.T) { // D5
	broken := errors.New("input/output error")
	for name, spoil := range map[string]func(d *device){
		"full": func(d *device) { d.room = 1 << 20 },
		"broken": func(d *device) {
			left := 20
			d.sync = func() error {
				if left--; left < 0 {
					return broken
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			d := newDevice()
			s := mustOpen(t, folder, d.medium(200<<10, 10<<10))
			spoil(d)
			var mu sync.Mutex
			told := 0
			tell := func() {
				mu.Lock()
				defer mu.Unlock()
				told++
			}
			const all = 40_000 // far more than there is room for, and more than may wait
			for i := range all {
				s.Begin()
				s.Put("", []byte(numbered(i)), make([]byte, 500))
				s.Put("also", []byte(numbered(i)), make([]byte, 500))
				s.End()
				s.Kept(tell)
				if i%50 == 0 && s.Err() == nil {
					awaitKept(s)
				}
			}
			<-s.Failed()
			if err := s.Err(); err == nil || !strings.Contains(err.Error(), folder) || !strings.Contains(err.Error(), "make room") {
				t.Errorf("it failed with %v", err)
			}
			s.Kept(func() { t.Error("it answers although it has failed") })
			mustClose(t, s)
			again := mustOpen(t, folder, large())
			c := held(t, again)
			if n := len(c[""]); told == 0 || n < told || n == all || !maps.Equal(c[""], c["also"]) {
				t.Errorf("%d operations were answered, %d are there, and %d", told, n, len(c["also"]))
			}
			for i := range c[""] {
				if i >= numbered(len(c[""])) {
					t.Errorf("%s is there, and not all before it", i)
				}
			}
			mustClose(t, again)
		})
	}
}

// awaitKept is kept, unless the store fails.
func awaitKept(s *Store) {
	done := make(chan struct{})
	s.Kept(func() { close(done) })
	select {
	case <-done:
	case <-s.Failed():
	}
}

func TestAnOperationThatCannotBeWrittenWholeIsNotWritten(t *testing.T) { // D2, D5
	folder := t.TempDir()
	s := mustOpen(t, folder, small())
	put(s, "", "before", "")
	s.Begin()
	s.Put("", []byte("half"), nil)
	s.Fail(errors.New("no words for it"))
	s.Put("", []byte("other half"), nil)
	s.End()
	<-s.Failed()
	if err := s.Err(); !strings.Contains(err.Error(), "no words for it") {
		t.Errorf("it failed with %v", err)
	}
	s.Begin() // which does not wait
	s.End()
	mustClose(t, s)
	s = mustOpen(t, folder, small())
	if c := held(t, s); fmt.Sprint(c) != "map[:map[before:]]" {
		t.Errorf("it holds %v", c)
	}
	mustClose(t, s)
}
