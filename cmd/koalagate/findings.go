package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/koalagate/koalagate/rules"
)

// printFindings writes findings for people, each with its line and a caret
// under the place.
func printFindings(w io.Writer, findings rules.Findings) {
	for _, f := range findings {
		fmt.Fprintln(w, f.Text())
	}
}

// foundJSON is what `check --format json` writes. docs/formats.md describes it,
// and programs rely on it: fields are added, never changed.
type foundJSON struct {
	Errors   int           `json:"errors"`
	Warnings int           `json:"warnings"`
	Findings []findingJSON `json:"findings"`
}

type findingJSON struct {
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

// writeFindings writes findings for programs.
func writeFindings(w io.Writer, findings rules.Findings) error {
	found := foundJSON{Findings: make([]findingJSON, 0, len(findings))}
	for _, f := range findings {
		if f.Severity == rules.Error {
			found.Errors++
		} else {
			found.Warnings++
		}
		found.Findings = append(found.Findings, findingJSON{
			Code: f.Code, Severity: f.Severity.String(),
			File: f.Position.File, Line: f.Position.Line, Column: f.Position.Column,
			Message: f.Message, Hint: f.Hint, Suggestion: f.Suggestion, Source: f.Line,
		})
	}
	return writeJSON(w, found)
}

// writeJSON writes v as people can read it too.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// What a workflow command of GitHub wants escaped: in its text, and in its
// properties.
var (
	inText     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	inProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// annotate writes findings as annotations of a GitHub workflow, which shows
// them beside the lines of a change.
func annotate(w io.Writer, findings rules.Findings) {
	for _, f := range findings {
		text := f.Message
		if f.Hint != "" {
			text += "; " + f.Hint
		}
		if f.Suggestion != "" {
			text += fmt.Sprintf(" (did you mean %q?)", f.Suggestion)
		}
		place := ""
		if at := f.Position; at.Line > 0 {
			place = fmt.Sprintf("file=%s,line=%d,col=%d,", inProperty.Replace(at.File), at.Line, at.Column)
		}
		fmt.Fprintf(w, "::%s %stitle=%s::%s\n", f.Severity, place, f.Code, inText.Replace(text))
	}
}
