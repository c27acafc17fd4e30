package disk

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// device is a disk with faults, which keeps what a loss of power would leave.
type device struct {
	mu      sync.Mutex
	room    int               // bytes that may still be written; -1: any number
	sync    func() error      // before every Sync; nil: nothing
	event   func()            // before and after, and in the middle of a write; nil: nothing
	durable map[string][]byte // the content of files as of their last Sync; nil: it is not kept
}

func newDevice() *device { return &device{room: -1} }

func (d *device) medium(segment int64, ahead int) medium {
	return medium{d.open, func(string) error { return nil }, segment, ahead}
}

func (d *device) open(path string, flag int) (file, error) {
	d.happen()
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return &deviceFile{f, d}, nil
}

func (d *device) happen() {
	if d.event != nil {
		d.event()
	}
}

// afterLossOfPower is a folder as it would be found.
func (d *device) afterLossOfPower(t *testing.T) string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	folder := t.TempDir()
	for path, content := range d.durable {
		write(t, filepath.Join(folder, filepath.Base(path)), content)
	}
	return folder
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

type deviceFile struct {
	*os.File
	device *device
}

// WriteAt writes in two steps, and no more than there is room for.
func (f *deviceFile) WriteAt(b []byte, offset int64) (n int, err error) {
	f.device.happen()
	n = len(b)
	if room := f.device.room; room >= 0 {
		if n > room {
			n, err = room, syscall.ENOSPC
		}
		f.device.room -= n
	}
	for _, part := range [][2]int{{0, n / 2}, {n / 2, n}} {
		if _, err := f.File.WriteAt(b[part[0]:part[1]], offset+int64(part[0])); err != nil {
			return 0, err
		}
		f.device.happen()
	}
	return n, err
}

func (f *deviceFile) Sync() error {
	if f.device.sync != nil {
		if err := f.device.sync(); err != nil {
			return err
		}
	}
	f.device.happen()
	if f.device.durable == nil {
		return nil
	}
	content, err := os.ReadFile(f.Name())
	if err != nil {
		return err
	}
	f.device.mu.Lock()
	defer f.device.mu.Unlock()
	f.device.durable[f.Name()] = content
	return nil
}
