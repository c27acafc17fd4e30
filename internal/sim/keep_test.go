package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// keep writes a whole history into a file, for people: the plan, what was broken, and
// everything that was seen, in its order.
func (i *inspection) keep(folder string) (path string, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	path = filepath.Join(folder, fmt.Sprintf("history-%d.txt", i.h.plan.Seed))
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	w := bufio.NewWriter(file)
	i.write(w)
	return path, errors.Join(w.Flush(), file.Close())
}

func (i *inspection) write(w *bufio.Writer) {
	for _, v := range i.violations {
		fmt.Fprintf(w, "violation: %s at %d: %s\n", v.Promise, v.Seq, v.Text)
	}
	p := i.h.plan
	fmt.Fprintf(w, "plan: seed %d, %d workers of %d slots, %d orchestrators, %d projectors, clocks %v, tasks %v\n",
		p.Seed, p.Workers, p.Slots, p.Orchestrators, p.Projectors, p.Clocks, p.Tasks)
	for _, s := range p.Steps {
		text, _ := json.Marshal(s)
		fmt.Fprintf(w, "step: %v for %v: %s\n", s.At, s.For, text)
	}
	said := i.h.said
	for _, m := range i.h.moments() {
		for len(said) > 0 && said[0].seq < m.seq {
			said[0].write(w)
			said = said[1:]
		}
		fmt.Fprintf(w, "%6d %s ", m.seq, m.at.Format("15:04:05.000"))
		switch {
		case m.event != nil:
			text, _ := json.Marshal(m.event)
			fmt.Fprintf(w, "%s\n", text)
		case m.call != nil:
			fmt.Fprintf(w, "call by %s for %s: %s key %q %s\n", m.call.client, m.call.task, m.call.path, m.call.key, m.call.body)
		default:
			for _, v := range m.commit.versions {
				fmt.Fprintf(w, "commit %s %s: %s\n", v.container, v.id, v.text)
			}
		}
	}
	for _, s := range said {
		s.write(w)
	}
}

func (s said) write(w *bufio.Writer) {
	var attrs strings.Builder
	s.record.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&attrs, " %s=%v", a.Key, a.Value)
		return true
	})
	fmt.Fprintf(w, "%6d %s says %s %s: %s%s\n", s.seq, s.record.Time.Format("15:04:05.000"), s.process, s.record.Level, s.record.Message, attrs.String())
}
