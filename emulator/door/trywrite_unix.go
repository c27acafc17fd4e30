//go:build unix

package door

import "syscall"

// write writes what a socket takes without waiting.
func write(socket uintptr, p []byte) (int, error) { return syscall.Write(int(socket), p) }
