package rules

// Param is one parameter of a request.
type Param struct {
	Name  string // as a rule names it; case matters
	Value string // as it arrived; conditions trim it
}

// Params are the parameters of one request. A name stands once. A request
// brings a few dozen at most, so a list is quicker than a map and can be used
// again without allocating; beyond fewParams a map tells the places. The zero
// value is empty and ready.
type Params struct {
	list   []Param
	places map[string]int // of all names, while there are more than fewParams
}

// fewParams is up to how many parameters a name is looked for one by one.
const fewParams = 32

// MakeParams builds Params from a map, for callers that have one.
func MakeParams(values map[string]string) *Params {
	p := &Params{list: make([]Param, 0, len(values))}
	for name, value := range values {
		p.append(name, value)
	}
	return p
}

// find is the place of name, -1 if it is not there.
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

// append puts a name at the end that is not there yet.
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

// renumber puts the places from one on right.
func (p *Params) renumber(from int) {
	for i := from; i < len(p.list); i++ {
		p.places[p.list[i].Name] = i
	}
}

// Set gives name this value, in place of any that it had.
func (p *Params) Set(name, value string) {
	if i := p.find(name); i >= 0 {
		p.list[i].Value = value
		return
	}
	p.append(name, value)
}

// Get returns the value of name, and whether it was set.
func (p *Params) Get(name string) (string, bool) {
	if i := p.find(name); i >= 0 {
		return p.list[i].Value, true
	}
	return "", false
}

// Delete takes name out.
func (p *Params) Delete(name string) {
	i := p.find(name)
	if i < 0 {
		return
	}
	p.list = append(p.list[:i], p.list[i+1:]...)
	if len(p.list) > fewParams {
		delete(p.places, name)
		p.renumber(i)
	}
}

// Len is the number of parameters.
func (p *Params) Len() int { return len(p.list) }

// List returns the parameters in the order in which they were first set. The
// caller must not change it, and must not keep it beyond the next change. Nil
// Params have none.
func (p *Params) List() []Param {
	if p == nil {
		return nil
	}
	return p.list
}

// Reset empties p and keeps its memory.
func (p *Params) Reset() {
	clear(p.list)
	p.list = p.list[:0]
	if len(p.places) > 0 {
		clear(p.places) // it holds texts of the request
	}
}
