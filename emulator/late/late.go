// Package late takes the place of a disk that takes its time, in the tests of
// emulators that tell nothing before it is kept:
//
//	Stop ──▶ what is done now waits to be told ──Start──▶ all of it is told
//
// It is for the tests of emulators, and no part of them.
package late

import (
	"sync"
	"testing/synctest"
)

// Answers are what an emulator says when something is kept: at once, unless they
// are stopped.
type Answers struct {
	mu      sync.Mutex
	stopped bool
	waiting []func()
}

// Kept gives an answer, or has it wait.
func (a *Answers) Kept(answer func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		a.waiting = append(a.waiting, answer)
		return
	}
	answer()
}

// Stop has every answer wait from now on.
func (a *Answers) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
}

// Start gives the answers that wait, in their order.
func (a *Answers) Start() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = false
	for _, answer := range a.waiting {
		answer()
	}
	a.waiting = nil
}

// Told starts something that ends when it is told, and reports whether it has ended
// once nothing in the test's bubble can go on.
func Told(do func()) func() bool {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do()
	}()
	return func() bool {
		synctest.Wait()
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
}
