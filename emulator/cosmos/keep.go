package cosmos

import (
	"errors"
	"net/http"
	"path/filepath"
	"sync"

	"oneeffect/emulator/control"
	"oneeffect/emulator/disk"
)

// FolderName is the account's folder within the data folder.
const FolderName = "cosmos"

// Open makes an account that is kept in a folder, or goes on with the one that is there. Close must be called.
func Open(h *control.Hub, o Options, folder string) (*Server, error) {
	file, err := disk.Open(filepath.Join(folder, FolderName), disk.Options{Schema: schema})
	if err != nil {
		return nil, err
	}
	s, err := openOn(h, o, file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

func openOn(h *control.Hub, o Options, kept keeper) (*Server, error) {
	held, err := restored(kept, h.Off)
	if err != nil {
		return nil, err
	}
	return serve(h, o, held), nil
}

// keeper is where the store writes what outlives the process, disk.Store. What is done between Begin and End is there
// whole or not at all, and nothing is there without all that was done before.
type keeper interface {
	Load(visit func(bucket string, key, value []byte) error) error
	Begin()
	End()
	Put(bucket string, key, value []byte) // which are copied
	Delete(bucket string, key []byte)
	Drop(bucket string)
	Kept(answer func())
	Failed() <-chan struct{}
	Err() error
	Close() error
}

// lock is the store's lock. What is changed under it is kept as one: whoever holds it is within Begin and End.
type lock struct {
	held sync.Mutex
	kept keeper // nil: everything is in memory alone
}

// Lock waits for room for what will be put before it takes the lock, so that nobody waits for a disk with the lock held.
func (l *lock) Lock() {
	if l.kept != nil {
		l.kept.Begin()
	}
	l.held.Lock()
}

// Unlock ends what was changed under the lock.
func (l *lock) Unlock() {
	l.held.Unlock()
	if l.kept != nil {
		l.kept.End()
	}
}

// Failed is closed when the account's data cannot be written any more. Nothing that was not kept is ever answered: it is
// time to end the process. For an account in memory it is nil.
func (s *Server) Failed() <-chan struct{} {
	if s.store.kept == nil {
		return nil
	}
	return s.store.kept.Failed()
}

// Err is why the account's data cannot be written any more.
func (s *Server) Err() error {
	if s.store.kept == nil {
		return nil
	}
	return s.store.kept.Err()
}

// awaitKept waits until everything that has been done so far outlives the process, before anybody is told of it. If it
// never will, it cuts the connection.
func (s *Server) awaitKept() {
	if s.store.kept == nil {
		return
	}
	kept := make(chan struct{})
	s.store.kept.Kept(func() { close(kept) })
	select {
	case <-kept:
	case <-s.store.kept.Failed():
		panic(http.ErrAbortHandler)
	}
}
