//go:build unix

package door

import "syscall"

// writeSocket writes what a socket takes without waiting.
func writeSocket(socket uintptr, p []byte) (int, error) { return syscall.Write(int(socket), p) }

// readSocket reads what a socket has without waiting.
func readSocket(socket uintptr, p []byte) (int, error) { return syscall.Read(int(socket), p) }
