package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
	"oneeffect/emulator/servicebus/journal"
)

// open makes a namespace with one queue.
func open(t *testing.T, folder string, codec journal.Codec, o journal.Options) (*journal.Journal, *broker.Namespace, broker.Entity) {
	t.Helper()
	j, err := journal.Open(folder, codec, o)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := broker.New(control.New(), broker.Config{Journal: j, Queues: []broker.QueueConfig{{Name: "tasks"}}})
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := ns.Find("tasks")
	if err != nil {
		t.Fatal(err)
	}
	return j, ns, tasks
}

func TestNothingIsAnsweredBeforeItIsOnDisk(t *testing.T) { // J1
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		disk := make(chan struct{}) // which writes one message for every value
		j, ns, tasks := open(t, folder, plain{before: func() { <-disk }}, journal.Options{})
		var mu sync.Mutex
		var told []string
		tell := func(what string) {
			ns.Kept(func() {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, what)
			})
		}
		now := func() string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(told, " ")
		}
		send := func(id string) {
			if _, err := tasks.Enqueue("sender", message(id)); err != nil {
				t.Fatal(err)
			}
			tell(id)
		}
		now()
		tell("nothing")
		if got := now(); got != "nothing" {
			t.Errorf("nothing was to be waited for, and told is %q", got)
		}
		send("one")
		if got := now(); got != "nothing" {
			t.Errorf("before one is written, told is %q", got)
		}
		send("two")
		if n := len(tasks.Peek(0, 10)); n != 2 {
			t.Errorf("%d messages are in the engine, which does not wait", n)
		}
		tell("peek")
		disk <- struct{}{}
		if got := now(); got != "nothing one" {
			t.Errorf("when one is written, told is %q", got)
		}
		close(disk)
		if got := now(); got != "nothing one two peek" {
			t.Errorf("when all is written, told is %q", got)
		}
		ns.Close()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestOperationsBeginWhenThereIsRoom(t *testing.T) { // J6
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		disk := make(chan struct{})
		j, ns, tasks := open(t, folder, plain{before: func() { <-disk }}, journal.Options{})
		large := message("large")
		large.Size = 200 << 10
		sent := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 1000 {
				if _, err := tasks.Enqueue("sender", large); err != nil {
					t.Error(err)
				}
				sent++
			}
		}()
		synctest.Wait()
		if most := 2 * (32<<20/large.Size + 2); sent > most { // what is being written, and as much again
			t.Errorf("%d messages of 200 KiB wait for the disk", sent)
		}
		close(disk)
		<-done
		ns.Close()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestADiskThatIsFullEndsAllAnswers(t *testing.T) { // J5
	folder := t.TempDir()
	told := 0
	synctest.Test(t, func(t *testing.T) {
		j, ns, tasks := open(t, folder, plain{}, journal.Options{MaxSize: 2 << 20})
		var mu sync.Mutex
		for i := range 20_000 { // far more than there is room for, and more than may wait
			if _, err := tasks.Enqueue("sender", message(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			ns.Kept(func() {
				mu.Lock()
				defer mu.Unlock()
				told++
			})
		}
		<-j.Failed()
		err := j.Err()
		if err == nil || !strings.Contains(err.Error(), folder) || !strings.Contains(err.Error(), "make room") {
			t.Errorf("it failed with %v", err)
		}
		ns.Kept(func() { t.Error("it answers although it has failed") })
		ns.Close()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		j, ns, tasks := open(t, folder, plain{}, journal.Options{})
		if kept := len(tasks.Peek(0, 20_000)); told == 0 || kept < told || kept == 20_000 {
			t.Errorf("%d messages were answered and %d are there", told, kept)
		}
		ns.Close()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAFileThatCannotBeUsedIsRefusedWithCauseAndRemedy(t *testing.T) { // J4
	made := func(t *testing.T) string {
		folder := t.TempDir()
		j, ns, _ := open(t, folder, plain{}, journal.Options{})
		ns.Close()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	change := func(t *testing.T, folder string, change func(tx *bolt.Tx) error) {
		db, err := bolt.Open(filepath.Join(folder, journal.FileName), 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(change), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		name  string
		spoil func(t *testing.T) (folder string)
		says  []string
	}{
		{"of another version", func(t *testing.T) string {
			folder := made(t)
			change(t, folder, func(tx *bolt.Tx) error { return tx.Bucket([]byte("about")).Put([]byte("schema"), []byte("7")) })
			return folder
		}, []string{`schema version "7"`, "knows 1", "delete it to start afresh"}},
		{"of another program", func(t *testing.T) string {
			folder := t.TempDir()
			change(t, folder, func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err })
			return folder
		}, []string{"another program", "a folder of its own"}},
		{"open in another process", func(t *testing.T) string {
			folder := t.TempDir()
			j, ns, _ := open(t, folder, plain{}, journal.Options{})
			t.Cleanup(func() { ns.Close(); _ = j.Close() })
			return folder
		}, []string{"another emulator", "end it"}},
		{"no database", func(t *testing.T) string {
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, journal.FileName), bytes.Repeat([]byte("no "), 10_000), 0o600); err != nil {
				t.Fatal(err)
			}
			return folder
		}, []string{"damaged", "delete it to start afresh"}},
		{"cut short", func(t *testing.T) string {
			folder := made(t)
			if err := os.Truncate(filepath.Join(folder, journal.FileName), 9000); err != nil {
				t.Fatal(err)
			}
			return folder
		}, []string{"damaged", "put back a copy"}},
		{"in no folder", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, []string{"make the data folder"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			folder := row.spoil(t)
			path := filepath.Join(folder, journal.FileName)
			before, _ := os.ReadFile(path) // in no folder there is none
			j, err := journal.Open(folder, plain{}, journal.Options{})
			if err == nil {
				_ = j.Close()
				t.Fatal("it was opened")
			}
			for _, want := range row.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

// TestADamagedFileIsRefusedOrWhole spoils single bytes and whole pages. What is not refused was not in use: everything is
// there. Nothing panics.
func TestADamagedFileIsRefusedOrWhole(t *testing.T) { // J4
	folder := t.TempDir()
	j, ns, tasks := open(t, folder, plain{}, journal.Options{})
	for i := range 200 {
		m := message(fmt.Sprint(i))
		m.Content = strings.Repeat(m.ID+" ", 200)
		if i == 100 {
			m.Content = strings.Repeat("of several pages ", 1000)
		}
		if _, err := tasks.Enqueue("sender", m); err != nil {
			t.Fatal(err)
		}
	}
	ns.Close()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(folder, journal.FileName))
	if err != nil {
		t.Fatal(err)
	}
	before, err := load(folder)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for i := range 90 {
		spoiled := bytes.Clone(whole)
		// Not the first two: if the later one is not whole, the transaction that wrote it has not been.
		page := (2 + random.IntN(len(spoiled)/4096-2)) * 4096
		switch i % 3 {
		case 0:
			spoiled[page+random.IntN(64)] ^= byte(1 + random.IntN(255))
		case 1:
			spoiled[page+random.IntN(4096)] ^= byte(1 + random.IntN(255))
		case 2:
			clear(spoiled[page : page+4096])
		}
		place := t.TempDir()
		if err := os.WriteFile(filepath.Join(place, journal.FileName), spoiled, 0o600); err != nil {
			t.Fatal(err)
		}
		after, err := load(place)
		switch {
		case err != nil && !errors.Is(err, journal.ErrData):
			t.Errorf("refused with %v", err)
		case err != nil:
			refused++
		case !reflect.DeepEqual(before, after):
			t.Errorf("page %d, way %d: something else was read", page/4096, i%3)
		}
	}
	if refused < 30 {
		t.Errorf("%d of 90 damaged files were refused", refused)
	}
}

func load(folder string) (*broker.Snapshot, error) {
	j, err := journal.Open(folder, plain{}, journal.Options{})
	if err != nil {
		return nil, err
	}
	past, err := j.Load()
	return past, errors.Join(err, j.Close())
}

// BenchmarkStart is a start with 100,000 messages of 1 KB, one tenth of them locked.
func BenchmarkStart(b *testing.B) {
	folder := b.TempDir()
	j, err := journal.Open(folder, plain{}, journal.Options{})
	if err != nil {
		b.Fatal(err)
	}
	j.Begin()
	for i := range 100_000 {
		s := broker.Stored{SequenceNumber: int64(i + 1), EnqueuedAt: time.Now(), TimeToLive: broker.Forever, Message: message(fmt.Sprint(i))}
		s.Message.Content = strings.Repeat("x", 1000)
		if i%10 == 0 {
			s.State, s.Token, s.LockedUntil = broker.Locked, broker.NewToken(), time.Now().Add(time.Hour)
		}
		j.Write(broker.Record{Change: broker.Added, Queue: "tasks", Stored: s})
	}
	j.Write(broker.Record{Change: broker.Described, Queue: "tasks", Entity: &broker.Description{Queue: &broker.QueueConfig{Name: "tasks"}}})
	j.End()
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		j, err := journal.Open(folder, plain{}, journal.Options{})
		if err != nil {
			b.Fatal(err)
		}
		ns, err := broker.New(control.New(), broker.Config{Journal: j})
		if err != nil {
			b.Fatal(err)
		}
		if e, err := ns.Find("tasks"); err != nil || len(e.Peek(100_000, 1)) != 1 {
			b.Fatalf("not all of them are there: %v", err)
		}
		b.StopTimer()
		ns.Close()
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
