package journal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/emulator/disk"
	"oneeffect/emulator/servicebus/broker"
	"oneeffect/emulator/servicebus/journal"
)

// load is what a folder holds, as another process finds it.
func load(t *testing.T, folder string) *broker.Snapshot {
	t.Helper()
	j, err := journal.Open(folder, plain{})
	if err != nil {
		t.Fatal(err)
	}
	past, err := j.Load()
	if err := errors.Join(err, j.Close()); err != nil {
		t.Fatal(err)
	}
	return past
}

// TestNoNumberIsGivenTwice has messages go in any order, the last before the first and the other way round.
func TestNoNumberIsGivenTwice(t *testing.T) { // J3
	c := broker.Config{Queues: []broker.QueueConfig{{Name: "tasks", LockDuration: time.Hour}}}
	bubble(t, c, func(t *testing.T, r *rig) {
		random := rand.New(rand.NewPCG(1, 2))
		last := int64(0)
		for range 100 {
			for range random.IntN(4) {
				for _, n := range r.send("tasks", message("m")) {
					if n != last+1 {
						t.Fatalf("number %d was given after %d", n, last)
					}
					last = n
				}
			}
			var held []*broker.Delivery
			for range min(random.IntN(5), len(r.queue("tasks").Peek(0, 100))) {
				held = append(held, r.take("tasks"))
			}
			random.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
			for _, d := range held {
				way := []broker.Disposition{broker.Complete, broker.Abandon, broker.DeadLetter}[random.IntN(3)]
				r.settle("tasks", d, broker.Settlement{Disposition: way})
			}
			r.again()
		}
		if last < 50 {
			t.Errorf("%d numbers were given", last)
		}
	})
}

// TestTheHistoryForgetsOnDiskToo sends for far longer than the window of duplicate detection.
func TestTheHistoryForgetsOnDiskToo(t *testing.T) { // J3
	c := broker.Config{Queues: []broker.QueueConfig{{Name: "tasks", DetectDuplicates: true, DuplicateWindow: time.Minute}}}
	bubble(t, c, func(t *testing.T, r *rig) {
		for i := range 600 {
			r.send("tasks", message(fmt.Sprint(i)))
			time.Sleep(time.Second)
			if i%100 == 0 {
				r.again()
			}
		}
		if got := r.send("tasks", message("560"), message("500")); got[0] != 0 || got[1] == 0 {
			t.Errorf("of one that was sent within the window and one that was before, the numbers are %d", got)
		}
		r.must(r.ns.UpdateQueue(broker.QueueConfig{Name: "tasks", DetectDuplicates: true, DuplicateWindow: 20 * time.Second}))
		r.again() // and now there is too much of it
		r.send("tasks", message("last"))
		r.close()
		history := load(t, r.folder).Contents["tasks"].History
		if n := len(history); n < 20 || n > 22 {
			t.Errorf("%d are remembered for 20 seconds, one for each", n)
		}
		r.open()
	})
}

// TestAMessageThatCannotBeWrittenEndsTheJournal has the operation that it belongs to not be there at all.
func TestAMessageThatCannotBeWrittenEndsTheJournal(t *testing.T) { // D2, D5
	c := broker.Config{Topics: []broker.TopicConfig{{Name: "events", Subscriptions: []broker.SubscriptionConfig{{Name: "one"}, {Name: "two"}}}}}
	bubble(t, c, func(t *testing.T, r *rig) {
		r.send("events", message("whole"))
		told := 0
		r.ns.Kept(func() { told++ })
		synctest.Wait()
		bad := message("half")
		bad.Content = 7
		_, err := r.entity("events").Enqueue("sender", bad)
		r.must(err)
		r.ns.Kept(func() { told += 100 })
		<-r.j.Failed()
		if err := r.j.Err(); !strings.Contains(err.Error(), "events") || !strings.Contains(err.Error(), "7 is no text") {
			t.Errorf("it failed with %v", err)
		}
		synctest.Wait()
		if told != 1 {
			t.Errorf("told %d", told)
		}
		r.again()
		for _, name := range []string{"one", "two"} {
			if got := r.queue(broker.SubscriptionPath("events", name)).Peek(0, 10); len(got) != 1 || got[0].Message.ID != "whole" {
				t.Errorf("%s holds %d messages", name, len(got))
			}
		}
	})
}

// TestADroppedQueueLeavesNothing looks at what is on disk of queues that are gone.
func TestADroppedQueueLeavesNothing(t *testing.T) { // J3
	bubble(t, everything(), func(t *testing.T, r *rig) {
		r.send("doomed", message("one"))
		r.must(r.ns.Delete("doomed"))
		r.must(r.ns.Delete("events"))
		r.must(r.ns.CreateQueue(broker.QueueConfig{Name: "doomed"}))
		r.close()
		past := load(t, r.folder)
		for path, c := range past.Contents {
			if path == "doomed" && len(c.Messages) == 0 && c.SequenceNumber == 0 || path == "tasks" || path == "steps" || path == "relay" {
				continue
			}
			t.Errorf("%s holds %+v", path, c)
		}
		r.config.Topics = nil
		r.open()
	})
}

// TestWhatIsNotAJournalIsRefused is about stores that package disk has no objection to.
func TestWhatIsNotAJournalIsRefused(t *testing.T) { // D4
	for _, row := range []struct {
		name, schema string
		key, value   string
		says         []string
	}{
		{"of another version", "servicebus 7", "m", "", []string{`"servicebus 7"`, `"servicebus 2"`}},
		{"with a key that says nothing", "servicebus 2", "?", "", []string{"not one of ours"}},
		{"with a number that is too short", "servicebus 2", "m123", "", []string{"not one of ours"}},
		{"with a message that is too short", "servicebus 2", "m12345678", "\x01", []string{"ends too early"}},
		{"with a state of no message", "servicebus 2", "s12345678", "a", []string{"without its message"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			folder := t.TempDir()
			store, err := disk.Open(filepath.Join(folder, journal.FolderName), disk.Options{Schema: row.schema})
			if err != nil {
				t.Fatal(err)
			}
			store.Begin()
			store.Put("tasks", []byte(row.key), []byte(row.value))
			store.End()
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			j, err := journal.Open(folder, plain{})
			if err == nil {
				_, err = j.Load()
				if err := j.Close(); err != nil {
					t.Error(err)
				}
			}
			if !errors.Is(err, disk.ErrData) {
				t.Fatalf("loaded with %v", err)
			}
			for _, want := range append(row.says, "start afresh") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
		})
	}
}

// BenchmarkStart is a start with 100,000 messages of 1 KB, one tenth of them locked.
func BenchmarkStart(b *testing.B) {
	folder := b.TempDir()
	j, err := journal.Open(folder, plain{})
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
		j, err := journal.Open(folder, plain{})
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
