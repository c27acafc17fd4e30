package diagram

import (
	"fmt"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What a picture is laid out by, in its own units.
const (
	svgGutter = 100 // for the times
	svgPitch  = 176 // between lifelines
	svgHead   = 56  // of the lifelines' names
	svgRow    = 42
	svgLetter = 6.1 // the width of a letter, as a rule
)

// SVG draws a diagram for a page. It has classes and no colours: those are the
// page's, for dark and for light. Every arrow is a group that says by attributes what
// it is, for whoever cannot see it.
func SVG(d Diagram) string {
	var b strings.Builder
	rows := len(d.Arrows)
	if d.Omitted > 0 {
		rows++
	}
	width, height := svgGutter+svgPitch*len(d.Lifelines), svgHead+svgRow*rows+40
	fmt.Fprintf(&b, `<svg class="diagram" xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="diagram-title diagram-text" viewBox="0 0 %d %d" width="%d" height="%d">`, width, height, width, height)
	fmt.Fprintf(&b, `<title id="diagram-title">Sequence diagram of %s</title><desc id="diagram-text">%d lifelines and %d arrows; the list below says the same in words.</desc>`, html.EscapeString(d.ExecutionID), len(d.Lifelines), len(d.Arrows))
	b.WriteString(`<defs>` + head("open", `<path d="M1 1 8 5 1 9" class="tip-open"/>`) + head("full", `<path d="M1 1 9 5 1 9Z" class="tip-full"/>`) + `</defs>`)
	for i, l := range d.Lifelines {
		x := place(i)
		fmt.Fprintf(&b, `<g class="lifeline %s"><line x1="%d" y1="%d" x2="%d" y2="%d"/><rect x="%d" y="6" width="%d" height="36" rx="5"/><text x="%d" y="28">%s</text></g>`,
			l.Kind, x, svgHead-14, x, height-10, x-svgPitch/2+8, svgPitch-16, x, html.EscapeString(plain(l.Name, 22)))
	}
	y := svgHead + 30
	for i, a := range d.Arrows {
		if d.Omitted > 0 && i == maxArrows/4 {
			fmt.Fprintf(&b, `<text class="omitted" x="%d" y="%d">… %d arrows are left out …</text>`, width/2, y, d.Omitted)
			y += svgRow
		}
		drawArrow(&b, d, a, y, width)
		y += svgRow
	}
	b.WriteString(`</svg>`)
	return b.String()
}

// head is the head of an arrow.
func head(name, path string) string {
	return `<marker id="tip-` + name + `" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse">` + path + `</marker>`
}

func place(lifeline int) int { return svgGutter + svgPitch*lifeline + svgPitch/2 }

func drawArrow(b *strings.Builder, d Diagram, a Arrow, y, width int) {
	from, to := place(a.From), place(a.To)
	class := "arrow"
	if a.Reply {
		class += " reply"
	}
	if a.Inferred {
		class += " inferred"
	}
	if a.Number == 0 {
		class += " remark"
	}
	if a.Mark != Plain {
		class += " mark-" + string(a.Mark)
	}
	label := a.Label
	if a.Number > 0 {
		label = strconv.Itoa(a.Number) + ". " + label
	}
	fmt.Fprintf(b, `<g class="%s" data-number="%d" data-from="%s" data-to="%s" data-mark="%s"><title>%s</title>`, class, a.Number,
		html.EscapeString(d.Lifelines[a.From].Name), html.EscapeString(d.Lifelines[a.To].Name), a.Mark, html.EscapeString(Sentence(d, a)))
	if !a.At.IsZero() {
		fmt.Fprintf(b, `<text class="time" x="8" y="%d">%s</text>`, y+4, clock(a.At))
	}
	if a.Number == 0 && a.Inferred {
		label += " (inferred)" // there is no line that could be dotted
	}
	half := int(float64(utf8.RuneCountInString(label)) * svgLetter / 2)
	middle := (from + to) / 2
	tip := "full"
	if a.Reply {
		tip = "open"
	}
	switch {
	case a.Number == 0:
		middle = between(middle, svgGutter+half, width-half-6)
		fmt.Fprintf(b, `<text class="label" x="%d" y="%d">%s</text>`, middle, y, html.EscapeString(label))
	case a.Self():
		fmt.Fprintf(b, `<path d="M%d %dh26v14h-26" marker-end="url(#tip-%s)"/>`, from, y-9, tip)
		x, anchor := from+34, "start"
		if x+2*half > width-6 {
			x, anchor = from-8, "end"
		}
		fmt.Fprintf(b, `<text class="label %s" x="%d" y="%d">%s</text>`, anchor, x, y+2, html.EscapeString(label))
	default:
		fmt.Fprintf(b, `<path d="M%d %dH%d" marker-end="url(#tip-%s)"/>`, from, y, to, tip)
		middle = between(middle, svgGutter+half, width-half-6)
		fmt.Fprintf(b, `<text class="label" x="%d" y="%d">%s</text>`, middle, y-6, html.EscapeString(label))
	}
	b.WriteString(`</g>`)
}

func between(x, least, most int) int { return max(min(x, most), least) }

// Sentence says an arrow in words.
func Sentence(d Diagram, a Arrow) string {
	who := d.Lifelines[a.From].Name
	if !a.Self() {
		who += " → " + d.Lifelines[a.To].Name
	}
	return who + ": " + a.Label + words(a)
}
