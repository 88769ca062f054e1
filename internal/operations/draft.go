package operations

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/findings"
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

// drafts lets one draft be parsed at a time: a large one takes seconds of a processor
// that decisions need.
var drafts sync.Mutex

// maxDraftFiles is the maximum number of files of a draft.
const maxDraftFiles = 1000

// Check checks a draft as the service would when it loads the files.
func (d *Desk) Check(draft *Draft) (*Checked, error) {
	sources, err := sourcesOf(draft.Files)
	if err != nil {
		return nil, err
	}
	now := d.inForce()
	set, list := d.parse(now, sources)
	c := &Checked{Contents: make([]Content, len(sources))}
	if list.HasErrors() {
		set = nil
	}
	c.Document = findings.NewDocument(set, list)
	for i := range sources {
		sum := sha256.New()
		for piece := range slices.Chunk(sources[i].Text, 64<<10) { // one call for all of it could not be preempted
			sum.Write(piece)
		}
		c.Contents[i] = Content{hex.EncodeToString(sum.Sum(nil)), int64(len(sources[i].Text))}
	}
	if set != nil && now != nil {
		c.Changes = reload.ChangesOf(rules.Compare(now, set))
	}
	return c, nil
}

// Format formats a rule file. It checks nothing that depends on other files.
func (d *Desk) Format(f *File) *Formatted {
	drafts.Lock()
	defer drafts.Unlock()
	text, list := rules.Format(rules.Source{Name: f.Name, Text: []byte(f.Text)})
	return &Formatted{File{f.Name, string(text)}, findings.NewDocument(nil, list).Findings}
}

// Explain explains what a draft decides about a request, as a first request: its
// counters are empty, and the counters of the service stay as they are.
func (d *Desk) Explain(ctx context.Context, x *Explanation) (*explain.Report, error) {
	set := d.inForce()
	if len(x.Files) > 0 {
		sources, err := sourcesOf(x.Files)
		if err != nil {
			return nil, err
		}
		draft, list := d.parse(set, sources)
		if list.HasErrors() {
			return nil, InputError{&reload.FindingsError{Findings: list}}
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
	return report, err
}

// parse parses files with the word lists and tables of a set, which may be nil.
func (d *Desk) parse(of *rules.Set, sources []rules.Source) (*rules.Set, rules.Findings) {
	drafts.Lock()
	defer drafts.Unlock()
	if of == nil {
		of = new(rules.Set)
	}
	o := d.rules
	o.OpenDict, o.OpenTable = of.OpenDict, of.OpenTable
	return rules.Parse(sources, o)
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
