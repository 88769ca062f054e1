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

// groupLength is the number of lines whose columns belong together: those up
// to the next blank line or head, else one line.
func groupLength(lines []laidLine) int {
	n := slices.IndexFunc(lines, func(l laidLine) bool { return l.spaced || l.kind == headLine || l.kind == blankLine })
	if n < 0 {
		return len(lines)
	}
	return max(n, 1)
}

// maxPadding is by how much a column may be wider than its narrowest cell. A
// line with a wider one leaves the columns from there on: for the sake of one
// the eye would have to jump over emptiness in all others.
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
		aligned := alignedCells(l, widths)
		for j, cell := range l.cells[:len(l.cells)-1] {
			b.WriteString(cell + " ")
			if j < aligned {
				b.WriteString(strings.Repeat(" ", widths[j]-displayWidth(cell)))
			}
		}
		b.WriteString(l.cells[len(l.cells)-1])
		if texts[i] = b.String(); b.Len() > maxLine {
			texts[i] = l.as // laid out it could not be read again
		}
	}
	return texts
}

// alignedCells is how many cells of a line stand in columns. The last one
// needs none.
func alignedCells(l laidLine, widths []int) int {
	n := 0
	for n < len(widths) && n+1 < len(l.cells) && displayWidth(l.cells[n]) <= widths[n] {
		n++
	}
	return n
}

// columnWidths are the widths of the columns of a group.
func columnWidths(group []laidLine) []int {
	var widths []int
	for {
		column := len(widths)
		var cells []int // the widths of those in this column
		for _, l := range group {
			if column+1 < len(l.cells) && alignedCells(l, widths) == column {
				cells = append(cells, displayWidth(l.cells[column]))
			}
		}
		if len(cells) == 0 {
			return widths
		}
		slices.Sort(cells)
		widest := cells[0]
		for _, width := range cells {
			if width <= cells[0]+maxPadding {
				widest = width
			}
		}
		widths = append(widths, widest)
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
