package rules

import (
	"slices"
	"strings"
)

// laterSource is the kind of the source that supplied a parameter, if it is not the
// first of its line in [params].
type laterSource struct {
	name string
	kind SourceKind
}

// SetFrom sets the value of name from a source after the first `else` of its line in
// [params]. Conditions compare the value as any other. An identity also has the kind of
// the source, so that a client that sends the address of another client as its user does
// not share that client's counter.
func (p *Params) SetFrom(kind SourceKind, name, value string) {
	p.Set(name, value)
	if kind.name() != "" {
		p.later = append(p.later, laterSource{name, kind})
	}
}

// SetNamed is Set for names as programs write them: NAME@KIND, such as uid@client-ip,
// sets NAME from a later source of that kind. Names in rules contain no @.
func (p *Params) SetNamed(name, value string) {
	if plain, word, found := strings.Cut(name, "@"); found {
		if kind, ok := kindNamed(word); ok && plain != "" {
			p.SetFrom(kind, plain, value)
			return
		}
	}
	p.Set(name, value)
}

// LaterSource returns the kind of the source that supplied a parameter, and reports
// whether it is a later one.
func (p *Params) LaterSource(name string) (SourceKind, bool) {
	for i := range p.later {
		if p.later[i].name == name {
			return p.later[i].kind, true
		}
	}
	return 0, false
}

// FullName returns the NAME@KIND form of a parameter whose value a later source
// supplied, which SetNamed reads, and otherwise the name.
func (p *Params) FullName(name string) string {
	if kind, later := p.LaterSource(name); later {
		return name + "@" + kind.name()
	}
	return name
}

func (p *Params) forgetSource(name string) {
	p.later = slices.DeleteFunc(p.later, func(s laterSource) bool { return s.name == name })
}
