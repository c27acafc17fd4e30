package disk

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// holdFolder in the environment makes the test's own program another process that has this folder open.
const holdFolder = "ONEEFFECT_TEST_HOLD_FOLDER"

func TestMain(m *testing.M) {
	if folder := os.Getenv(holdFolder); folder != "" {
		s, err := Open(folder, Options{Schema: "tests 1"})
		fmt.Println("open:", err)
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // until it is closed
		_ = s.Close()
		return
	}
	os.Exit(m.Run())
}

// made is a folder with a store in it.
func made(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	s := mustOpen(t, folder, large())
	put(s, "bucket", "key", "value")
	mustClose(t, s)
	return folder
}

func TestAFolderThatCannotBeUsedIsRefusedWithCauseAndRemedy(t *testing.T) { // D4
	for _, row := range []struct {
		name  string
		spoil func(t *testing.T) (folder string)
		says  []string
	}{
		{"of another schema", func(t *testing.T) string {
			folder := t.TempDir()
			s, err := Open(folder, Options{Schema: "others 3"})
			if err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			return folder
		}, []string{`"others 3"`, `"tests 1"`, "a folder of its own"}},
		{"of another version", func(t *testing.T) string {
			folder := made(t)
			path := segments(t, folder)[0]
			content := read(t, path)
			binary.LittleEndian.PutUint32(content[8:], 9)
			binary.LittleEndian.PutUint32(content[headSize-4:], crc32.Checksum(content[:headSize-4], castagnoli))
			write(t, path, content)
			return folder
		}, []string{"format 9", "knows 1", "use the emulator that wrote it"}},
		{"open in this process", func(t *testing.T) string {
			folder := made(t)
			s := mustOpen(t, folder, large())
			t.Cleanup(func() { mustClose(t, s) })
			return folder
		}, []string{"another emulator", "end it"}},
		{"open in another process", func(t *testing.T) string {
			folder := made(t)
			hold(t, folder)
			return folder
		}, []string{"another emulator", "end it"}},
		{"no log", func(t *testing.T) string {
			folder := t.TempDir()
			write(t, filepath.Join(folder, "00000001.log"), bytes.Repeat([]byte("no "), 10_000))
			return folder
		}, []string{"damaged", "start afresh"}},
		{"under another number", func(t *testing.T) string {
			folder := made(t)
			if err := os.Rename(segments(t, folder)[0], filepath.Join(folder, "00000007.log")); err != nil {
				t.Fatal(err)
			}
			return folder
		}, []string{"damaged", "segment 00000001"}},
		{"in no folder", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "file")
			write(t, path, nil)
			return filepath.Join(path, "folder")
		}, []string{"make the data folder"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			folder := row.spoil(t)
			before := contents(t, folder)
			s, err := open(folder, Options{Schema: "tests 1"}, large())
			if err == nil {
				mustClose(t, s)
				t.Fatal("it was opened")
			}
			for _, want := range row.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
			if !before.equal(contents(t, folder)) {
				t.Error("it was changed")
			}
		})
	}
}

// hold has another process open a folder until the test ends.
func hold(t *testing.T, folder string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(program)
	other.Env = append(os.Environ(), holdFolder+"="+folder)
	stdin, err1 := other.StdinPipe()
	stdout, err2 := other.StdoutPipe()
	if err := errors.Join(err1, err2, other.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "open: <nil>\n" {
		t.Errorf("the other process says %q, %v", line, err)
	}
	t.Cleanup(func() {
		if err := errors.Join(stdin.Close(), other.Wait()); err != nil {
			t.Error(err)
		}
		mustClose(t, mustOpen(t, folder, large())) // it is free
	})
}

func TestAStoreIsOpenedAgainAndAgain(t *testing.T) { // D3, D7
	folder := made(t)
	for i := range 400 {
		s := mustOpen(t, folder, newDevice().medium(1<<10, 128))
		if got := held(t, s); !got.equal(content{"bucket": {"key": "value"}}) {
			t.Fatalf("the %dth time it holds %v", i, got)
		}
		mustClose(t, s)
	}
	if n := len(segments(t, folder)); n > fewSegments+2 {
		t.Errorf("it has %d segments", n)
	}
}

// TestTheLogIsBoundedByWhatIsKept writes a few keys very often, beside many that are never written again.
func TestTheLogIsBoundedByWhatIsKept(t *testing.T) { // D7
	folder := t.TempDir()
	s := mustOpen(t, folder, small())
	for i := range 300 {
		put(s, "cold", numbered(i), strings.Repeat("x", 200))
	}
	const cold = 300 * (200 + len("cold") + 6 + overhead)
	for i := range 3000 {
		put(s, "hot", numbered(i%20), strings.Repeat("x", 100))
		if i%100 != 0 {
			continue
		}
		size := 0
		for _, path := range segments(t, folder) {
			size += len(read(t, path))
		}
		if most := 3*cold + fewSegments*4<<10; size > most {
			t.Fatalf("after %d writes the log has %d bytes, want at most %d", i, size, most)
		}
	}
	mustClose(t, s)
	s = mustOpen(t, folder, small())
	if c := held(t, s); len(c["cold"]) != 300 || len(c["hot"]) != 20 {
		t.Errorf("%d and %d keys are left", len(c["cold"]), len(c["hot"]))
	}
	mustClose(t, s)
}
