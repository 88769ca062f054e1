package rules

// Param is one parameter of a request.
type Param struct {
	Name  string // as a rule names it; case matters
	Value string // as it arrived; conditions trim it
}

// Params are the parameters of one request. A name stands once. A request
// brings a few dozen at most, so a list is quicker than a map and can be used
// again without allocating. The zero value is empty and ready.
type Params struct {
	list []Param
}

// MakeParams builds Params from a map, for callers that have one.
func MakeParams(values map[string]string) *Params {
	p := &Params{list: make([]Param, 0, len(values))}
	for name, value := range values {
		p.list = append(p.list, Param{name, value})
	}
	return p
}

// Set gives name this value, in place of any that it had.
func (p *Params) Set(name, value string) {
	for i := range p.list {
		if p.list[i].Name == name {
			p.list[i].Value = value
			return
		}
	}
	p.list = append(p.list, Param{name, value})
}

// Get returns the value of name, and whether it was set.
func (p *Params) Get(name string) (string, bool) {
	for i := range p.list {
		if p.list[i].Name == name {
			return p.list[i].Value, true
		}
	}
	return "", false
}

// Delete takes name out.
func (p *Params) Delete(name string) {
	for i := range p.list {
		if p.list[i].Name == name {
			p.list = append(p.list[:i], p.list[i+1:]...)
			return
		}
	}
}

// Len is the number of parameters.
func (p *Params) Len() int { return len(p.list) }

// List returns the parameters in the order in which they were first set. The
// caller must not change it, and must not keep it beyond the next change.
func (p *Params) List() []Param { return p.list }

// Reset empties p and keeps its memory.
func (p *Params) Reset() {
	clear(p.list)
	p.list = p.list[:0]
}
