package rules

import (
	"fmt"
	"slices"
	"strings"
)

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
	Name   string // header (in lower case), cookie, query or descriptor key; namespace of metadata; table; text of a constant
	Path   string // of metadata; column of a table
	By     string // the parameter whose value is the key in a table
	V4, V6 int    // prefix lengths of client-ip; -1 for the whole address
	Hashed bool   // the first 32 hex digits of the value's SHA-256

	table *Table
	cell  int
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
	if s.Kind == FromClientIP && s.V4 >= 0 {
		words = append(words, fmt.Sprintf("/%d /%d", s.V4, s.V6))
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
func (d *ParamDecl) IsLate() bool {
	return slices.ContainsFunc(d.Sources, func(s ParamSource) bool { return s.IsLate() })
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
	vouched bool // a gateway that authenticates clients may overwrite what they set
	always  bool // it always has a value: sources after it are not read
	chosen  bool // the gateway's configuration decides which requests have it
	gateway bool // the gateway sends it, and may send what it likes
	late    bool // its value depends on another parameter
}

// sourceWords are the sources of [params] by their kinds.
var sourceWords = []sourceWord{
	FromHeader:     {name: "header", words: []string{"NAME"}, token: true, folded: true, request: true, client: true, vouched: true},
	FromCookie:     {name: "cookie", words: []string{"NAME"}, token: true, request: true, client: true},
	FromQuery:      {name: "query", words: []string{"NAME"}, request: true, client: true},
	FromMetadata:   {name: "metadata", words: []string{"NAMESPACE", "PATH"}, request: true},
	FromDescriptor: {name: "descriptor", words: []string{"KEY"}, chosen: true},
	FromPrincipal:  {name: "principal", request: true},
	FromSNI:        {name: "sni", request: true},
	FromClientIP:   {name: "client-ip", always: true},
	FromGateway:    {name: "gateway", gateway: true},
	FromTable:      {name: tableWord, words: []string{"TABLE.COLUMN", byWord, "PARAM"}, late: true},
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
	hashedWord = "hashed"
)

// derivedNames are the parameters that doors derive from every request. A rate limit
// call has the domain and its descriptors as well.
var derivedNames = []string{"door", "method", "host", "path", "scheme", "ip", "domain"}

// IsDerived reports whether doors derive the parameter from every request. For
// koalagate's own programs, may change.
func IsDerived(name string) bool { return slices.Contains(derivedNames, name) }
