package door

import (
	"errors"
	"fmt"
	"syscall"
)

// trial reads and writes a plain socket without waiting, and without making garbage every time. It is used by one
// goroutine.
type trial struct {
	raw         syscall.RawConn // nil: not a plain socket
	read, write func(fd uintptr) bool

	// Of the call under way:
	p   []byte
	n   int
	err error
}

func (c *conn) try() *trial {
	if c.trial != nil {
		return c.trial
	}
	t := &trial{}
	c.trial = t
	if socket, ok := c.Conn.(syscall.Conn); ok {
		t.raw, _ = socket.SyscallConn() // an error means that it is closed, which Read and Write will say
	}
	// Whatever becomes of it, true ends it: to wait is what Read and Write are for.
	t.read = func(fd uintptr) bool { t.n, _ = readSocket(fd, t.p); return true }
	t.write = func(fd uintptr) bool { t.n, t.err = writeSocket(fd, t.p); return true }
	return t
}

// do is one call. It keeps nothing of p.
func (t *trial) do(how func(func(uintptr) bool) error, f func(uintptr) bool, p []byte) (int, error) {
	t.p, t.n, t.err = p, 0, nil
	err := how(f)
	t.p = nil
	return max(t.n, 0), errors.Join(err, t.err)
}

// TryWrite writes what a plain socket takes without waiting, which may be nothing, and is always nothing under TLS. It
// must not be called while a Write is under way, nor by another goroutine than TryRead.
func (c *conn) TryWrite(p []byte) (n int, err error) {
	t := c.try()
	if t.raw == nil {
		return 0, nil
	}
	if n, err = t.do(t.raw.Write, t.write, p); err != nil {
		err = fmt.Errorf("try to write: %w", err)
	}
	return n, err
}

// TryRead reads what a plain socket has without waiting, which may be nothing, and is always nothing under TLS. What is
// wrong, and the end, it leaves for Read to say. It must not be called while a Read is under way.
func (c *conn) TryRead(p []byte) (n int) {
	if len(c.first) > 0 {
		n, _ = c.Read(p) // which is at hand
		return n
	}
	t := c.try()
	if t.raw == nil {
		return 0
	}
	n, _ = t.do(t.raw.Read, t.read, p) // Read says it again
	return n
}
