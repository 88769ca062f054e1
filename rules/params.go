package rules

import (
	"slices"
	"strings"
)

// Param is one parameter of a request.
type Param struct {
	Name  string // the name in rules; case matters
	Value string // as received; conditions trim it
}

// Params are the parameters of one request, with unique names. A request has a few
// dozen at most, for which a list is faster than a map and can be reused without
// allocations. A larger list has a map as its index. The zero value is empty and
// ready to use.
type Params struct {
	list   []Param
	places map[string]int // the indexes of all names, if there are more than fewParams
	later  []laterSource  // the parameters whose values come from a later source
}

// fewParams is the number of parameters up to which find searches the list.
const fewParams = 32

// MakeParams returns Params with the values of a map, whose names SetNamed reads.
func MakeParams(values map[string]string) *Params {
	p := &Params{list: make([]Param, 0, len(values))}
	for name, value := range values {
		p.SetNamed(name, value)
	}
	return p
}

// find returns the index of name, -1 if it is not set.
func (p *Params) find(name string) int {
	if len(p.list) > fewParams {
		if i, ok := p.places[name]; ok {
			return i
		}
		return -1
	}
	for i := range p.list {
		if p.list[i].Name == name {
			return i
		}
	}
	return -1
}

// append adds a name that is not set yet.
func (p *Params) append(name, value string) {
	p.list = append(p.list, Param{name, value})
	switch n := len(p.list); {
	case n == fewParams+1:
		if p.places == nil {
			p.places = make(map[string]int, 2*n)
		}
		clear(p.places)
		p.renumber(0)
	case n > fewParams:
		p.places[name] = n - 1
	}
}

// renumber updates the indexes of list[from:].
func (p *Params) renumber(from int) {
	for i := from; i < len(p.list); i++ {
		p.places[p.list[i].Name] = i
	}
}

// Set sets the value of name and replaces a previous value.
func (p *Params) Set(name, value string) {
	if len(p.later) > 0 {
		p.forgetSource(name)
	}
	if i := p.find(name); i >= 0 {
		p.list[i].Value = value
		return
	}
	p.append(name, value)
}

// Get returns the value of name, and reports whether it is set.
func (p *Params) Get(name string) (string, bool) {
	if i := p.find(name); i >= 0 {
		return p.list[i].Value, true
	}
	return "", false
}

// Delete removes name.
func (p *Params) Delete(name string) {
	i := p.find(name)
	if i < 0 {
		return
	}
	p.forgetSource(name)
	p.list = append(p.list[:i], p.list[i+1:]...)
	if len(p.list) > fewParams {
		delete(p.places, name)
		p.renumber(i)
	}
}

// Len returns the number of parameters.
func (p *Params) Len() int { return len(p.list) }

// List returns the parameters in the order in which they were first set. The caller
// must not modify the list, and must not use it after the next change of p. The list of
// nil Params is empty.
func (p *Params) List() []Param {
	if p == nil {
		return nil
	}
	return p.list
}

// Reset removes all parameters and keeps the memory for reuse.
func (p *Params) Reset() {
	clear(p.list)
	p.list = p.list[:0]
	clear(p.later)
	p.later = p.later[:0]
	if len(p.places) > 0 {
		clear(p.places) // its keys reference the request
	}
}

// Clone returns a copy with strings of its own: the strings of a request may be valid only
// while it is answered. The copy of nil Params is nil.
func (p *Params) Clone() *Params {
	if p == nil {
		return nil
	}
	size := 0
	for i := range p.list {
		size += len(p.list[i].Name) + len(p.list[i].Value)
	}
	var text strings.Builder
	text.Grow(size)
	for i := range p.list {
		text.WriteString(p.list[i].Name)
		text.WriteString(p.list[i].Value)
	}
	c, rest := &Params{list: make([]Param, 0, len(p.list))}, text.String()
	for i := range p.list {
		name, value := len(p.list[i].Name), len(p.list[i].Value)
		c.append(rest[:name], rest[name:name+value])
		rest = rest[name+value:]
	}
	for _, l := range p.later {
		c.later = append(c.later, laterSource{c.list[c.find(l.name)].Name, l.kind})
	}
	return c
}

// laterSource is the kind of the source that supplied a parameter, if it is not the
// first of its line in [params].
type laterSource struct {
	name string
	kind SourceKind
}

// SetFrom sets the value of name from a source after the first `else` of its line in
// [params]. Conditions compare the value as any other. An identity also has the kind of the
// source, so that a client that sends the address of another client as its user does not
// share that client's counter. For koalagate's own programs, may change.
func (p *Params) SetFrom(kind SourceKind, name, value string) {
	p.Set(name, value)
	if kind.name() != "" {
		p.later = append(p.later, laterSource{name, kind})
	}
}

// SetNamed is Set for names as programs write them: NAME@KIND, such as uid@client-ip, sets
// NAME from a later source of that kind. Names in rules contain no @. For koalagate's own
// programs, may change.
func (p *Params) SetNamed(name, value string) {
	if plain, word, found := strings.Cut(name, "@"); found {
		if kind, ok := kindNamed(word); ok && plain != "" {
			p.SetFrom(kind, plain, value)
			return
		}
	}
	p.Set(name, value)
}

// LaterSource returns the kind of the source that supplied a parameter, and reports whether
// it is a later one. For koalagate's own programs, may change.
func (p *Params) LaterSource(name string) (SourceKind, bool) {
	for i := range p.later {
		if p.later[i].name == name {
			return p.later[i].kind, true
		}
	}
	return 0, false
}

// FullName returns the NAME@KIND form of a parameter whose value a later source supplied,
// which SetNamed reads, and otherwise the name. For koalagate's own programs, may change.
func (p *Params) FullName(name string) string {
	if kind, later := p.LaterSource(name); later {
		return name + "@" + kind.name()
	}
	return name
}

func (p *Params) forgetSource(name string) {
	p.later = slices.DeleteFunc(p.later, func(s laterSource) bool { return s.name == name })
}
