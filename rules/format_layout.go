package rules

import (
	"slices"
	"strings"
)

// laidKind is the kind of a line in the layout.
type laidKind uint8

const (
	statementLine laidKind = iota
	headLine
	commentLine
	blankLine
)

// laidLine is a line of a file that is being formatted.
type laidLine struct {
	kind     laidKind
	original string   // the line without surrounding blanks
	cells    []string // the columns of a statement or a head
	// spaced requests a blank line before this one.
	spaced bool
}

// layOut returns the formatted file, "" if the work must stop.
func layOut(lines []laidLine, p *pauses) string {
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
		for i, text := range columns(group, p) {
			b.WriteString(text)
			b.WriteByte('\n')
			if !p.at(i) {
				return ""
			}
		}
	}
	return b.String()
}

// spaceHeads requests a blank line before each section, or before the comments
// directly above its head.
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

// groupLength returns the number of lines that share columns: those up to the next
// blank line or head, and at least one.
func groupLength(lines []laidLine) int {
	n := slices.IndexFunc(lines, func(l laidLine) bool { return l.spaced || l.kind == headLine || l.kind == blankLine })
	if n < 0 {
		return len(lines)
	}
	return max(n, 1)
}

// maxPadding is the maximum difference between the width of a column and its
// narrowest cell. A line with a wider cell leaves the columns at that cell, so that it
// does not add wide gaps to all other lines.
const maxPadding = 24

// columns returns the texts of a group of lines, nil if the work must stop.
func columns(group []laidLine, p *pauses) []string {
	widths := columnWidths(group, p)
	texts := make([]string, len(group))
	for i, l := range group {
		if !p.at(i) {
			return nil
		}
		if len(l.cells) == 0 {
			texts[i] = l.original
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
			texts[i] = l.original // formatted, it would be too long to parse
		}
	}
	return texts
}

// alignedCells returns the number of cells of a line that are aligned. The last cell
// needs no column.
func alignedCells(l laidLine, widths []int) int {
	n := 0
	for n < len(widths) && n+1 < len(l.cells) && displayWidth(l.cells[n]) <= widths[n] {
		n++
	}
	return n
}

// columnWidths returns the widths of the columns of a group, nil if the work must stop.
func columnWidths(group []laidLine, p *pauses) []int {
	var widths []int
	for {
		column := len(widths)
		var cells []int // the widths of the cells in this column
		for i, l := range group {
			if !p.at(i) {
				return nil
			}
			if column+1 < len(l.cells) && alignedCells(l, widths) == column {
				cells = append(cells, displayWidth(l.cells[column]))
			}
		}
		if len(cells) == 0 {
			return widths
		}
		narrowest := slices.Min(cells)
		widest := narrowest
		for _, width := range cells {
			if width <= narrowest+maxPadding {
				widest = max(widest, width)
			}
		}
		widths = append(widths, widest)
	}
}

// displayWidth returns the width of a text in a terminal, in columns.
func displayWidth(text string) int {
	width := 0
	for _, c := range text {
		width += len(blankFor(c))
	}
	return width
}
