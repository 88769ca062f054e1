package operations

import (
	"context"
	"maps"
	"slices"

	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/rules"
)

// Book is a rule set as operators read it: its files as they are written, and what is in
// them.
type Book struct {
	Hash     string             `json:"hash"` // as in /readyz; "" before the first rules, as all below
	Timezone string             `json:"timezone"`
	Files    []File             `json:"files"`
	Rules    []BookRule         `json:"rules"` // highest priority first
	Params   []BookParam        `json:"params"`
	Routes   []BookRoute        `json:"routes"`
	Results  []BookResult       `json:"results"`
	Lists    []BookList         `json:"lists"`
	Tables   []BookList         `json:"tables"`
	Findings []findings.Finding `json:"findings"` // warnings
	// Imported are the imported limits, which come before the rules, in their order; nil
	// without imported limits.
	Imported []BookLimit `json:"imported,omitempty"`
}

// BookLimit is an imported limit of a Book.
type BookLimit struct {
	Path  string `json:"path"` // as in /rlconfig
	Name  string `json:"name,omitempty"`
	Limit string `json:"limit"` // in words
}

// File is a rule file.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// BookRule is a rule of a Book. Its text is at its line.
type BookRule struct {
	Rule     int64    `json:"rule"`
	Name     string   `json:"name,omitempty"`
	Method   string   `json:"method"`
	Limit    string   `json:"limit"` // in words
	CountsBy []string `json:"counts_by"`
	// Free are those of CountsBy for which the rule does not list the values one by one: they tell
	// clients apart.
	Free    []string `json:"free"`
	Verdict string   `json:"verdict"` // of what exceeds its limit
	Result  int64    `json:"result"`  // the number of the entry
	Shadow  bool     `json:"shadow"`
	Active  bool     `json:"active"` // now, by since and until
	File    string   `json:"file"`
	Line    int64    `json:"line"`
}

// BookParam is a declaration in [params].
type BookParam struct {
	Name    string   `json:"name"`
	Sources []string `json:"sources"` // in the order in which they are tried
	File    string   `json:"file"`
	Line    int64    `json:"line"`
}

// BookRoute is an entry of [routes].
type BookRoute struct {
	Text string `json:"text"`
	File string `json:"file"`
	Line int64  `json:"line"`
}

// BookResult is an entry of [result].
type BookResult struct {
	Result  int64  `json:"result"` // its number
	Verdict string `json:"verdict"`
	Reason  string `json:"reason,omitempty"`
	Status  int64  `json:"status,omitempty"` // of HTTP; 0 for the default
}

// BookList is a word list or a table.
type BookList struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Entries int64  `json:"entries"` // words, or rows
}

// Book returns the rules in force. The error comes from ctx.
func (d *Desk) Book(ctx context.Context) (*Book, error) {
	b := &Book{
		Files: []File{}, Rules: []BookRule{}, Params: []BookParam{}, Routes: []BookRoute{}, Results: []BookResult{},
		Lists: []BookList{}, Tables: []BookList{}, Findings: []findings.Finding{},
	}
	if limits := d.limits(); limits != nil {
		for _, l := range limits.Limits() {
			b.Imported = append(b.Imported, BookLimit{l.Path, l.Name, l.Text()})
		}
	}
	set := d.inForce()
	if set == nil {
		return b, nil
	}
	b.Hash, b.Timezone = set.Hash, set.Zone.String()
	for _, s := range set.Sources {
		b.Files = append(b.Files, File{s.Name, string(s.Text)})
	}
	now := d.engine.Now()
	for _, r := range set.Rules {
		if err := pace.Step(ctx); err != nil {
			return nil, err
		}
		b.Rules = append(b.Rules, bookRule(r, now))
	}
	for _, p := range set.Params {
		one := BookParam{Name: p.Name, Sources: make([]string, len(p.Sources)), File: p.Pos.File, Line: int64(p.Pos.Line)}
		for i := range p.Sources {
			one.Sources[i] = p.Sources[i].String()
		}
		b.Params = append(b.Params, one)
	}
	for _, r := range set.Routes() {
		b.Routes = append(b.Routes, BookRoute{r.Text, r.Pos.File, int64(r.Pos.Line)})
	}
	for _, number := range slices.Sorted(maps.Keys(set.Results)) {
		r := set.Results[number]
		b.Results = append(b.Results, BookResult{int64(number), r.Verdict().String(), r.StrReason, int64(r.HTTPStatus)})
	}
	for _, name := range slices.Sorted(maps.Keys(set.Dicts)) {
		b.Lists = append(b.Lists, BookList{name, set.Dicts[name].Name(), int64(set.Dicts[name].Len())})
	}
	for _, name := range slices.Sorted(maps.Keys(set.Tables)) {
		b.Tables = append(b.Tables, BookList{name, set.Tables[name].Name(), int64(set.Tables[name].Len())})
	}
	_, list, err := d.parse(ctx, set, set.Sources)
	if err != nil {
		return nil, err
	}
	b.Findings = findings.NewDocument(set, list).Findings
	return b, nil
}

// verdictOf returns the verdict of what a rule would refuse.
func verdictOf(r *rules.Rule) string {
	if r.Mark != "" {
		return rules.Allow.String()
	}
	return r.Result.Verdict().String()
}

func bookRule(r *rules.Rule, now int64) BookRule {
	return BookRule{
		Rule: r.Return, Name: r.Name, Method: r.Method.String(), Limit: explain.Limit(r), CountsBy: append([]string{}, r.CountsBy()...), Free: append([]string{}, r.Free()...),
		Verdict: verdictOf(r), Result: int64(r.Result.Number), Shadow: r.Shadow, Active: r.ActiveAt(now),
		File: r.Pos.File, Line: int64(r.Pos.Line),
	}
}
