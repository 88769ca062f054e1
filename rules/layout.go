package rules

import (
	"slices"
	"strings"
)

// laidKind is what a line is to the layout.
type laidKind uint8

const (
	statementLine laidKind = iota
	headLine
	commentLine
	blankLine
)

// laidLine is a line of a file that is laid out.
type laidLine struct {
	kind  laidKind
	as    string   // the line as it was, without the blanks around it
	cells []string // of a statement and a head
	// spaced asks for a blank line before this one.
	spaced bool
}

// layOut writes the lines.
func layOut(lines []laidLine) string {
	spaceHeads(lines)
	var b strings.Builder
	blank := false
	for len(lines) > 0 {
		n := groupLength(lines)
		group := lines[:n]
		lines = lines[n:]
		if group[0].kind == blankLine {
			blank = true
			continue
		}
		if (blank || group[0].spaced) && b.Len() > 0 {
			b.WriteByte('\n')
		}
		blank = false
		for _, text := range columns(group) {
			b.WriteString(text)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// spaceHeads asks for a blank line before each section, and before the comments
// that stand directly above its head.
func spaceHeads(lines []laidLine) {
	for i := range lines {
		if lines[i].kind != headLine {
			continue
		}
		for i > 0 && lines[i-1].kind == commentLine {
			i--
		}
		lines[i].spaced = true
	}
}

// groupLength is the number of lines whose columns belong together: statements
// that follow each other, else one line.
func groupLength(lines []laidLine) int {
	n := slices.IndexFunc(lines, func(l laidLine) bool { return l.kind != statementLine })
	if n < 0 {
		n = len(lines)
	}
	return max(n, 1)
}

// maxPadding is how much the cells of a column may differ in width. Beyond it
// neither this column nor those behind it are aligned: the eye would have to
// jump further than columns help it.
const maxPadding = 24

// columns are the texts of a group of lines.
func columns(group []laidLine) []string {
	widths := columnWidths(group)
	texts := make([]string, len(group))
	for i, l := range group {
		if len(l.cells) == 0 {
			texts[i] = l.as
			continue
		}
		var b strings.Builder
		for j, cell := range l.cells {
			b.WriteString(cell)
			if j == len(l.cells)-1 {
				break
			}
			if j < len(widths) {
				b.WriteString(strings.Repeat(" ", widths[j]-displayWidth(cell)))
			}
			b.WriteByte(' ')
		}
		if texts[i] = b.String(); b.Len() > maxLine {
			texts[i] = l.as // laid out it could not be read again
		}
	}
	return texts
}

// columnWidths are the widths of the columns that are aligned. What is last
// in its line is no part of its column's width.
func columnWidths(group []laidLine) []int {
	var widths []int
	for column := 0; ; column++ {
		least, most := -1, -1
		for _, l := range group {
			if column+1 < len(l.cells) {
				width := displayWidth(l.cells[column])
				most = max(most, width)
				if least < 0 || width < least {
					least = width
				}
			}
		}
		if most < 0 || most-least > maxPadding {
			return widths
		}
		widths = append(widths, most)
	}
}

// displayWidth is how many places a text takes in a terminal.
func displayWidth(text string) int {
	width := 0
	for _, c := range text {
		width += len(blankFor(c))
	}
	return width
}
