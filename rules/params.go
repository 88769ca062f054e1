package rules

import (
	"fmt"
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

	shortened []string // the names of parameters whose values Shorten has replaced
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
	if len(p.later)+len(p.shortened) > 0 {
		p.forget(name)
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
	p.forget(name)
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
	clear(p.shortened)
	p.shortened = p.shortened[:0]
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
	for _, name := range p.shortened {
		c.shortened = append(c.shortened, c.list[c.find(name)].Name)
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

// laterKind returns the kind of the source that supplied a parameter, and reports whether it is
// a later one.
func (p *Params) laterKind(name string) (SourceKind, bool) {
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
	if kind, later := p.laterKind(name); later {
		return name + "@" + kind.name()
	}
	return name
}

// Shorten replaces the value of name, which has it already, by one that stands for it in
// conditions and identities, and keeps its source. Applications do not receive such a value.
// For koalagate's own programs, may change.
func (p *Params) Shorten(name, value string) {
	if i := p.find(name); i >= 0 {
		p.list[i].Value = value
		p.shortened = append(p.shortened, p.list[i].Name)
	}
}

// forget removes what is known of a value beside itself.
func (p *Params) forget(name string) {
	p.later = slices.DeleteFunc(p.later, func(s laterSource) bool { return s.name == name })
	p.shortened = slices.DeleteFunc(p.shortened, func(s string) bool { return s == name })
}

// SourceKind is the kind of a source of a declared parameter.
type SourceKind uint8

// The sources of [params].
const (
	FromHeader     SourceKind = iota // header NAME
	FromCookie                       // cookie NAME
	FromQuery                        // query NAME
	FromMetadata                     // metadata NAMESPACE PATH
	FromDescriptor                   // descriptor KEY
	FromPrincipal                    // principal
	FromSNI                          // sni
	FromClientIP                     // client-ip [/N /N]
	FromGateway                      // gateway
	FromTable                        // table TABLE.COLUMN by PARAM
	FromJWT                          // jwt NAME CLAIM [has WORD]
	FromConstant                     // "text"
)

// name returns the word for the kind in [params] and in identities, "" for an unknown
// kind.
func (k SourceKind) name() string {
	return k.is().name
}

// is returns the declaration of the kind; that of a kind without a name for an unknown one.
func (k SourceKind) is() *sourceWord {
	if int(k) < len(sourceWords) {
		return &sourceWords[k]
	}
	return new(sourceWord)
}

// kindNamed returns the kind of a name, and reports whether there is one.
func kindNamed(name string) (SourceKind, bool) {
	i := slices.IndexFunc(sourceWords, func(w sourceWord) bool { return w.name == name })
	return SourceKind(max(i, 0)), i >= 0
}

// ParamSource is one source of a declared parameter.
type ParamSource struct {
	Kind   SourceKind
	Name   string // header (in lower case), cookie, query or descriptor key; namespace of metadata; table; token; text of a constant
	Path   string // of metadata; column of a table; claim of a token
	By     string // the parameter whose value is the key in a table
	V4, V6 int    // prefix lengths of client-ip; -1 for the whole address
	Lower  bool   // A–Z become a–z, before Hashed
	Hashed bool   // the first 32 hex digits of the value's SHA-256

	table *Table
	cell  int

	claim Claim
	jwt   *JWT
	place int // of the claim in jwt.Claims
}

// LookUp returns the value of a source FromTable or FromConstant for a request whose
// other parameters are p; "" for any other source, and without a row or cell. For
// koalagate's own programs, may change.
func (s *ParamSource) LookUp(p *Params) string {
	switch {
	case s.Kind == FromConstant:
		return s.Name
	case s.Kind != FromTable || s.table == nil:
		return ""
	}
	key, _ := p.Get(s.By)
	if strings.TrimSpace(key) == "" {
		return ""
	}
	cell, _ := s.table.lookUp(key, s.cell)
	return cell
}

// String returns the source in the syntax of [params]: `header x-user-id`.
func (s ParamSource) String() string {
	words := []string{s.Kind.name()}
	switch {
	case words[0] == "":
		return fmt.Sprintf("source(%d)", uint8(s.Kind))
	case s.Kind == FromConstant:
		return `"` + quoter.Replace(s.Name) + `"`
	case s.Kind == FromTable:
		words = append(words, s.Name+"."+s.Path, byWord, s.By)
	default:
		for _, word := range []string{s.Name, s.Path} {
			if word != "" {
				words = append(words, word)
			}
		}
	}
	if s.claim.Has != "" {
		words = append(words, hasWord, s.claim.Has)
	}
	if s.Kind == FromClientIP && s.V4 >= 0 {
		words = append(words, fmt.Sprintf("/%d /%d", s.V4, s.V6))
	}
	if s.Lower {
		words = append(words, lowerWord)
	}
	if s.Hashed {
		words = append(words, hashedWord)
	}
	return strings.Join(words, " ")
}

// ParamDecl is a line of [params]: a name and its sources. The first source with a
// value is used.
type ParamDecl struct {
	Name    string
	Sources []ParamSource
	// GatewayHeader is the header, in lower case, in which a gateway may send the
	// parameter; "" unless one of the sources is `gateway`.
	GatewayHeader string
	Pos           Position
}

// IsLate reports whether the source is read after the sources of all other kinds, because its
// value depends on another parameter.
func (s *ParamSource) IsLate() bool { return s.Kind.is().late }

// IsLate reports whether a source of the parameter is read after the sources of all others.
func (d *ParamDecl) IsLate() bool { return d.FirstLate() >= 0 }

// FirstLate returns the index of the first source that IsLate, -1 if there is none.
func (d *ParamDecl) FirstLate() int {
	for i := range d.Sources { // each request asks: sources are too large to be copied
		if d.Sources[i].IsLate() {
			return i
		}
	}
	return -1
}

// sourceWord declares a kind of source. The parser, the warnings and editors ask the
// declaration.
type sourceWord struct {
	name  string
	words []string // its arguments

	token   bool // the argument is a token of HTTP, as names of headers and cookies are
	folded  bool // the argument is read in lower case
	quoted  bool // it is written in quotes, without its name
	request bool // only a client's request has it, and so an address, too
	client  bool // clients can set it
	spared  bool // clients can leave it out, and cannot set it to what they like
	vouched bool // a gateway that authenticates clients may overwrite what they set
	lower   bool // its values have no capitals
	always  bool // it always has a value: sources after it are not read
	chosen  bool // the gateway's configuration decides which requests have it
	gateway bool // the gateway sends it, and may send what it likes
	late    bool // its value depends on another parameter
	trusted bool // the client cannot choose it: somebody has verified it, or a table has it
}

// sourceWords are the sources of [params] by their kinds.
var sourceWords = []sourceWord{
	FromHeader:     {name: "header", words: []string{"NAME"}, token: true, folded: true, request: true, client: true, vouched: true},
	FromCookie:     {name: "cookie", words: []string{"NAME"}, token: true, request: true, client: true},
	FromQuery:      {name: "query", words: []string{"NAME"}, request: true, client: true},
	FromMetadata:   {name: "metadata", words: []string{"NAMESPACE", "PATH"}, request: true, trusted: true},
	FromDescriptor: {name: "descriptor", words: []string{"KEY"}, chosen: true},
	FromPrincipal:  {name: "principal", request: true, trusted: true},
	FromSNI:        {name: "sni", request: true, lower: true},
	FromClientIP:   {name: "client-ip", lower: true, always: true},
	FromGateway:    {name: "gateway", gateway: true},
	FromTable:      {name: tableWord, words: []string{"TABLE.COLUMN", byWord, "PARAM"}, late: true, trusted: true},
	FromJWT:        {name: "jwt", words: []string{"NAME", "CLAIM"}, request: true, spared: true, trusted: true},
	FromConstant:   {name: "constant", quoted: true, always: true},
}

// sourceNames returns the words that sources begin with.
func sourceNames() []string {
	var names []string
	for i := range sourceWords {
		if !sourceWords[i].quoted {
			names = append(names, sourceWords[i].name)
		}
	}
	return names
}

// The words between and after sources.
const (
	elseWord   = "else"
	hasWord    = "has"
	lowerWord  = "lower"
	hashedWord = "hashed"
)

// modifiers are the words after a source, in their order.
var modifiers = []string{lowerWord, hashedWord}

// derivedNames are the parameters that doors derive from every request. A rate limit
// call has the domain and its descriptors as well.
var derivedNames = []string{"door", "method", "host", "path", "scheme", "ip", "domain"}

// IsDerived reports whether doors derive the parameter from every request. For
// koalagate's own programs, may change.
func IsDerived(name string) bool { return slices.Contains(derivedNames, name) }
