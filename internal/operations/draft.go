package operations

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

// Draft is the text of rule files that are not in force. It uses the word lists and tables
// of the rules in force: a draft reads no file.
type Draft struct {
	Files []File `json:"files"`
}

// Checked is the result of the check of a draft.
type Checked struct {
	findings.Document
	// Changes are those from the rules in force; nil with errors, or without rules in
	// force.
	Changes *reload.Changes `json:"changes,omitempty"`
	// Contents identify the files of the draft, in their order, for a version.
	Contents []Content `json:"contents"`
}

// Content identifies a text.
type Content struct {
	Sum  string `json:"sha256"` // hex
	Size int64  `json:"size"`   // bytes
}

// Formatted is a rule file in its canonical layout. A file with errors keeps its text.
type Formatted struct {
	File
	Findings []findings.Finding `json:"findings"`
}

// Explanation is an explanation by a draft, or by the rules in force without files.
type Explanation struct {
	Question
	Files []File `json:"files,omitempty"`
}

// maxDraftFiles is the maximum number of files of a draft.
const maxDraftFiles = 1000

// Check checks a draft as the service would when it loads the files. The error is an
// InputError, or comes from ctx.
func (d *Desk) Check(ctx context.Context, draft *Draft) (*Checked, error) {
	sources, err := sourcesOf(draft.Files)
	if err != nil {
		return nil, err
	}
	now := d.inForce()
	set, list, err := d.parse(ctx, now, sources)
	if err != nil {
		return nil, err
	}
	c := &Checked{Contents: make([]Content, len(sources))}
	if list.HasErrors() {
		set = nil
	}
	c.Document = findings.NewDocument(set, list)
	for i := range sources {
		sum := sha256.New()
		for piece := range slices.Chunk(sources[i].Text, 64<<10) { // one call for all of it could not be preempted
			sum.Write(piece)
			if err := pace.Step(ctx); err != nil {
				return nil, err
			}
		}
		c.Contents[i] = Content{hex.EncodeToString(sum.Sum(nil)), int64(len(sources[i].Text))}
	}
	if set != nil && now != nil {
		changes := rules.ComparePausing(now, set, goingOn(ctx))
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.Changes = reload.ChangesOf(changes)
	}
	return c, nil
}

// Format formats a rule file. It checks nothing that depends on other files. The error comes
// from ctx.
func (d *Desk) Format(ctx context.Context, f *File) (*Formatted, error) {
	text, list := rules.FormatPausing(rules.Source{Name: f.Name, Text: []byte(f.Text)}, goingOn(ctx))
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &Formatted{File{f.Name, string(text)}, findings.NewDocument(nil, list).Findings}, nil
}

// goingOn returns a function that pauses for ctx, and reports whether the work goes on.
func goingOn(ctx context.Context) func() bool { return func() bool { return pace.Step(ctx) == nil } }

// Explain explains what a draft decides about a request, as a first request: its
// counters are empty, and the counters of the service stay as they are.
func (d *Desk) Explain(ctx context.Context, x *Explanation) (*explain.Report, error) {
	if err := d.checkQuestion(&x.Question); err != nil {
		return nil, err
	}
	set := d.inForce()
	if len(x.Files) > 0 {
		sources, err := sourcesOf(x.Files)
		if err != nil {
			return nil, err
		}
		draft, list, err := d.parse(ctx, set, sources)
		switch {
		case err != nil:
			return nil, err
		case list.HasErrors():
			return nil, InputError{&reload.FindingsError{Findings: list}}
		case len(draft.Params) > maxDeclared:
			return nil, invalid("the draft has %d lines in [params]; want at most %d", len(draft.Params), maxDeclared)
		}
		set = draft
	}
	if set == nil {
		return nil, errNoRules
	}
	question, err := d.explained(&x.Question)
	if err != nil {
		return nil, InputError{err}
	}
	report, err := question.Answer(ctx, set)
	if engine.IsInvalid(err) {
		return nil, InputError{err}
	}
	if err != nil {
		return nil, err
	}
	for _, param := range report.Params {
		if err := d.checkMask(param.Name, param.Value); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// parse parses files with the word lists, tables and keys of a set, which may be nil. The error
// comes from ctx.
func (d *Desk) parse(ctx context.Context, of *rules.Set, sources []rules.Source) (*rules.Set, rules.Findings, error) {
	if of == nil {
		of = new(rules.Set)
	}
	o := d.rules
	o.OpenDict, o.OpenTable, o.OpenKeys, o.Pause = of.OpenDict, of.OpenTable, of.OpenKeys, goingOn(ctx)
	set, list := rules.Parse(sources, o)
	return set, list, ctx.Err()
}

// sourcesOf returns the files of a draft.
func sourcesOf(files []File) ([]rules.Source, error) {
	if len(files) == 0 || len(files) > maxDraftFiles {
		return nil, invalid("%d files; want 1 … %d", len(files), maxDraftFiles)
	}
	sources := make([]rules.Source, len(files))
	seen := make(map[string]bool)
	for i, f := range files {
		switch {
		case f.Name == "":
			return nil, InputError{errors.New("a file has no name")}
		case seen[f.Name]:
			return nil, InputError{fmt.Errorf("two files have the name %.100q", f.Name)}
		}
		seen[f.Name] = true
		sources[i] = rules.Source{Name: f.Name, Text: []byte(f.Text)}
	}
	return sources, nil
}
