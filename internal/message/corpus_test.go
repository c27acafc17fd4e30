package message_test

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"

	"oneeffect/internal/message"
)

// The corpus is for people too: what is refused there stays refused.
func TestTheCorpusOfAwkwardJSONHasItsVerdicts(t *testing.T) { // M3
	file, err := os.Open("testdata/payloads.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	taken, refused := 0, 0
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		quoted, verdict, _ := strings.Cut(line, "\t")
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", quoted, err)
		}
		got, err := message.Canonical([]byte(text))
		if cause, refuses := strings.CutPrefix(verdict, "!"); refuses {
			refused++
			if err == nil || !strings.Contains(err.Error(), cause) {
				t.Errorf("%s became %s, %v: want it refused with %q", quoted, got, err, cause)
			}
			continue
		}
		taken++
		want, err2 := strconv.Unquote(verdict)
		if err != nil || err2 != nil || string(got) != want {
			t.Errorf("%s became %s, %v: want %s", quoted, got, err, verdict)
		}
	}
	if err := lines.Err(); err != nil || taken < 20 || refused < 25 {
		t.Errorf("%d taken and %d refused, %v: the corpus is not whole", taken, refused, err)
	}
}

func TestNestingIsBounded(t *testing.T) { // M3
	const deep = 10_001 // one more than the reader allows
	if _, err := message.Canonical([]byte(strings.Repeat("[", deep) + strings.Repeat("]", deep))); err == nil {
		t.Errorf("%d arrays in each other are taken", deep)
	}
	if _, err := message.Canonical([]byte(strings.Repeat("[", 1000) + strings.Repeat("]", 1000))); err != nil {
		t.Error(err)
	}
}
