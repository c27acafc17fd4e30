package diagram

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// gutter is what stands left of the lifelines: a number and a time.
const gutter = 18

// Text draws a diagram for a terminal of so many columns; 0 is as many as it takes.
// Where the lifelines do not fit side by side, every arrow is a line of its own.
func Text(d Diagram, columns int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s\n", d.ExecutionID, d.Type, d.Status)
	if d.TraceID != "" {
		fmt.Fprintf(&b, "trace %s\n", d.TraceID)
	}
	b.WriteByte('\n')
	c := newCanvas(d)
	if columns > 0 && c.width > columns {
		list(&b, d)
	} else {
		c.draw(&b, d)
	}
	return b.String()
}

// list is the diagram without lifelines.
func list(b *strings.Builder, d Diagram) {
	for i, a := range d.Arrows {
		leftOut(b, d, i)
		fmt.Fprintf(b, "%s %s\n", aside(a), Sentence(d, a))
	}
}

// leftOut says where arrows are missing.
func leftOut(b *strings.Builder, d Diagram, i int) {
	if d.Omitted > 0 && i == maxArrows/4 {
		fmt.Fprintf(b, "%*s… %d left out …\n", gutter, "", d.Omitted)
	}
}

// aside is an arrow's number and time.
func aside(a Arrow) string {
	number, at := "", ""
	if a.Number > 0 {
		number = fmt.Sprintf("%d.", a.Number)
	}
	if !a.At.IsZero() {
		at = clock(a.At)
	}
	return fmt.Sprintf("%4s %-12s", number, at)
}

// clock is a time of day. One that stands in whole seconds, as a store's own does, is
// not made out to be more exact, and then to be before what came before it.
func clock(t time.Time) string {
	if t.Nanosecond() == 0 {
		return t.UTC().Format(time.TimeOnly)
	}
	return t.UTC().Format("15:04:05.000")
}

// words say what a picture in colours shows by them.
func words(a Arrow) string {
	var said []string
	if a.Mark != Plain && a.Mark != Success && a.Mark != Decision && !strings.HasPrefix(a.Label, string(a.Mark)+":") {
		said = append(said, string(a.Mark))
	}
	if a.Inferred {
		said = append(said, "inferred")
	}
	if len(said) == 0 {
		return ""
	}
	return " [" + strings.Join(said, ", ") + "]"
}

// canvas is where the lifelines stand.
type canvas struct {
	at    []int // the column of each
	width int
}

const least = 12 // columns between lifelines

func newCanvas(d Diagram) canvas {
	c := canvas{at: make([]int, len(d.Lifelines))}
	x := gutter
	for i, l := range d.Lifelines {
		half := (utf8.RuneCountInString(l.Name) + 1) / 2
		x += half
		if i > 0 {
			x = max(x, c.at[i-1]+least)
		}
		c.at[i] = x
		x += half + 2
	}
	c.width = x - 1
	return c
}

func (c canvas) draw(b *strings.Builder, d Diagram) {
	heads := c.blank(false)
	for i, l := range d.Lifelines {
		put(heads, c.at[i]-utf8.RuneCountInString(l.Name)/2, l.Name)
	}
	line(b, heads)
	for i, a := range d.Arrows {
		leftOut(b, d, i)
		c.arrow(b, a)
	}
	line(b, c.blank(true))
}

// arrow is two lines: what it says, and the arrow itself.
func (c canvas) arrow(b *strings.Builder, a Arrow) {
	from, to := c.at[a.From], c.at[a.To]
	left, right := min(from, to), max(from, to)
	says := c.blank(true)
	label := a.Label + words(a)
	x := left + 2
	length := utf8.RuneCountInString(label)
	over := x + length - c.width
	beside := over <= 0
	switch {
	case !beside && a.Self() && left-1-length >= gutter:
		x, beside = left-1-length, true // on its other side, beside the mark
	case !beside:
		x = max(x-over, gutter)
	}
	says = put(says, x, label)
	mark := map[bool]string{true: "×", false: "•"}[a.Mark == Crash]
	if a.Self() && beside {
		put(says, 0, aside(a))
		put(says, from, mark)
		line(b, says)
		return
	}
	line(b, says)
	row := c.blank(true)
	put(row, 0, aside(a))
	if a.Self() {
		put(row, from, mark)
		line(b, row)
		return
	}
	shaft := "─"
	if a.Reply || a.Inferred {
		shaft = "╌"
	}
	for i := left + 1; i < right; i++ {
		put(row, i, shaft)
	}
	if from < to {
		put(row, to-1, "▶")
	} else {
		put(row, to+1, "◀")
	}
	line(b, row)
}

// blank is a line of nothing, or of lifelines.
func (c canvas) blank(lifelines bool) []rune {
	row := []rune(strings.Repeat(" ", c.width+1))
	if lifelines {
		for _, x := range c.at {
			row[x] = '│'
		}
	}
	return row
}

// put writes over a line, which grows if it is too short.
func put(row []rune, x int, text string) []rune {
	for _, r := range text {
		if x >= len(row) {
			row = append(row, r)
		} else {
			row[x] = r
		}
		x++
	}
	return row
}

func line(b *strings.Builder, row []rune) {
	b.WriteString(strings.TrimRight(string(row), " "))
	b.WriteByte('\n')
}
