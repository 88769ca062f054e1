package rules

// TEMPORARY: replaced by the real files.

import "errors"

type Position struct {
	File         string
	Line, Column int
}
type Condition struct{}
type Dict struct{}
type index struct{}
type Routes struct{}
type Findings []error

func (f Findings) HasErrors() bool { return len(f) > 0 }

func Parse(sources []Source, o Options) (*Set, Findings) {
	return nil, Findings{errors.New("not built")}
}
func (s *Set) Match(p *Params, m *Matches) {}

// Match puts into p the constants and variables of the one route that applies
// to method and the decoded path segments ("/a/b" is [a b], "/a/" is [a ""],
// "/" is [""]), and tells whether one did.
func (r *Routes) Match(method string, segments []string, p *Params) bool { return false }
