// Package findings writes the findings of rule files as text for people, as
// JSON for programs and as annotations for GitHub workflows.
package findings

import (
	"fmt"
	"io"
	"strings"

	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/printable"
	"github.com/koalagate/koalagate/rules"
)

// The output formats.
const (
	Text   = "text"
	JSON   = "json"
	GitHub = "github"
)

// Formats returns the names of the output formats; the first is the default.
func Formats() []string { return []string{Text, JSON, GitHub} }

// Write writes list, the findings of set, in a format. The set is nil if the files have
// errors. Write returns an error for an unknown format, or the error of writing JSON; a
// caller that depends on the other formats must detect failed writes in w.
func Write(w io.Writer, format string, set *rules.Set, list rules.Findings) error {
	switch format {
	case Text:
		WriteText(w, list)
		writeSummary(w, set, len(list))
	case JSON:
		return display.JSON(w, NewDocument(set, list))
	case GitHub:
		writeAnnotations(w, list)
	default:
		return fmt.Errorf("unknown format %q; want %s", format, strings.Join(Formats(), ", "))
	}
	return nil
}

// WriteText writes each finding with its source line and a caret under the
// position.
func WriteText(w io.Writer, list rules.Findings) {
	for _, f := range list {
		fmt.Fprintln(w, f.Text())
	}
}

// writeSummary writes the size of a valid set and its hash in one line.
func writeSummary(w io.Writer, set *rules.Set, warnings int) {
	if set == nil {
		return
	}
	fmt.Fprintf(w, "%s, %s, %s, hash %s\n", printable.Count(len(set.Sources), "file"), printable.Count(len(set.Rules), "rule"), printable.Count(warnings, "warning"), set.Hash)
}

// Document is the JSON form of findings. docs/formats.md describes it, and
// programs depend on it: fields may be added but never changed.
type Document struct {
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Findings []Finding `json:"findings"`        // never nil
	Files    int       `json:"files,omitempty"` // of the set, like the fields below; 0 with errors
	Rules    int       `json:"rules,omitempty"`
	Hash     string    `json:"hash,omitempty"` // the hash that /readyz shows when the set is active
}

// Finding is one finding in a Document. Line and Column start at 1; they are 0
// for a finding without a position.
type Finding struct {
	Code       string `json:"code"`
	Severity   string `json:"severity"`
	File       string `json:"file"`
	Line       int    `json:"line"`
	Column     int    `json:"column"`
	Message    string `json:"message"`
	Hint       string `json:"hint,omitempty"`
	Suggestion string `json:"suggestion,omitempty"`
	Source     string `json:"source"`
}

// NewDocument returns the document that describes list, the findings of set, which is
// nil if the files have errors.
func NewDocument(set *rules.Set, list rules.Findings) Document {
	d := Document{Findings: make([]Finding, 0, len(list))}
	if set != nil {
		d.Files, d.Rules, d.Hash = len(set.Sources), len(set.Rules), set.Hash
	}
	for _, f := range list {
		if f.Severity == rules.Error {
			d.Errors++
		} else {
			d.Warnings++
		}
		d.Findings = append(d.Findings, Finding{
			Code: f.Code, Severity: f.Severity.String(),
			File: f.Position.File, Line: f.Position.Line, Column: f.Position.Column,
			Message: f.Message, Hint: f.Hint, Suggestion: f.Suggestion, Source: f.Line,
		})
	}
	return d
}

// The characters that GitHub's workflow commands require to be escaped in a
// message and in a property.
var (
	messageEscaper  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	propertyEscaper = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// writeAnnotations writes findings as workflow commands, which GitHub shows
// next to the changed lines.
func writeAnnotations(w io.Writer, list rules.Findings) {
	for _, f := range list {
		text := f.Message
		if f.Hint != "" {
			text += "; " + f.Hint
		}
		if f.Suggestion != "" {
			text += fmt.Sprintf(" (did you mean %q?)", f.Suggestion)
		}
		position := ""
		if at := f.Position; at.Line > 0 {
			position = fmt.Sprintf("file=%s,line=%d,", propertyEscaper.Replace(at.File), at.Line)
			if at.Column > 0 {
				position += fmt.Sprintf("col=%d,", at.Column)
			}
		}
		fmt.Fprintf(w, "::%s %stitle=%s::%s\n", f.Severity, position, f.Code, messageEscaper.Replace(text))
	}
}
