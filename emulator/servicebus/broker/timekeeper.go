package broker

import (
	"container/heap"
	"sync"
	"time"

	"oneeffect/emulator/control"
)

// timekeeper is the namespace's one goroutine. It wakes each queue at its earliest deadline by the hub's clock.
// A queue tells it only when that deadline has become earlier; a wake-up too early costs one look.
type timekeeper struct {
	hub  *control.Hub
	mu   sync.Mutex
	due  wakeups
	wake chan struct{} // the earliest deadline has changed
	quit chan struct{}
	ran  sync.WaitGroup
	end  sync.Once
}

func newTimekeeper(hub *control.Hub) *timekeeper {
	return &timekeeper{hub: hub, wake: make(chan struct{}, 1), quit: make(chan struct{})}
}

func (k *timekeeper) start() { k.ran.Go(k.run) }

func (k *timekeeper) stop() {
	k.end.Do(func() { close(k.quit) })
	k.ran.Wait()
}

// set moves a queue's wake-up. The caller holds the queue's mutex.
func (k *timekeeper) set(q *Queue, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	q.wakeAt = at
	if q.wakeIndex >= 0 {
		heap.Fix(&k.due, q.wakeIndex)
	} else {
		heap.Push(&k.due, q)
	}
	if k.due[0] == q {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// forget takes a queue's wake-up away. The caller holds the queue's mutex.
func (k *timekeeper) forget(q *Queue) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if q.wakeIndex >= 0 {
		heap.Remove(&k.due, q.wakeIndex)
	}
}

// next takes out a queue whose time has come, or says when the next one's will; zero means never.
func (k *timekeeper) next(now time.Time) (*Queue, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.due) == 0 {
		return nil, time.Time{}
	}
	if q := k.due[0]; q.wakeAt.After(now) {
		return nil, q.wakeAt
	}
	return heap.Pop(&k.due).(*Queue), time.Time{}
}

func (k *timekeeper) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		// Jumped before Now, so that no jump falls between the two.
		jumped, now := k.hub.Jumped(), k.hub.Now()
		q, at := k.next(now)
		if q != nil {
			q.elapse()
			continue
		}
		wait := time.Hour
		if !at.IsZero() {
			wait = at.Sub(now)
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-k.wake:
		case <-jumped:
		case <-k.quit:
			return
		}
	}
}

// wakeups is a heap of queues by their next wake-up. It belongs to the timekeeper's mutex, as do the queues' wakeAt
// and wakeIndex.
type wakeups []*Queue

func (w wakeups) Len() int           { return len(w) }
func (w wakeups) Less(i, j int) bool { return w[i].wakeAt.Before(w[j].wakeAt) }
func (w wakeups) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].wakeIndex, w[j].wakeIndex = i, j
}
func (w *wakeups) Push(x any) {
	q := x.(*Queue)
	q.wakeIndex = len(*w)
	*w = append(*w, q)
}
func (w *wakeups) Pop() any {
	old := *w
	q := old[len(old)-1]
	old[len(old)-1] = nil
	*w = old[:len(old)-1]
	q.wakeIndex = -1
	return q
}
