//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// holdFolder keeps a folder for this run until release, or until this process
// has ended in whatever way. Two runs with one folder would write over each
// other's logs.
func holdFolder(path string) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("hold the folder for logs: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // it is held by another process, or not at all
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another run has its logs in %s: end it with Ctrl-C, or give this one a folder and addresses of its own (-dir, -amqp, -cosmos, -downstream, -control, -api)", path)
		}
		return nil, fmt.Errorf("hold the folder for logs: %w", err)
	}
	return func() { _ = f.Close() }, nil // which releases it
}
