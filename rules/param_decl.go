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
	switch {
	case k == FromConstant:
		return "constant"
	case int(k) < len(sourceWords):
		return sourceWords[k].name
	}
	return ""
}

// kindNamed returns the kind of a name, and reports whether there is one.
func kindNamed(name string) (SourceKind, bool) {
	for k := FromHeader; k <= FromConstant; k++ {
		if k.name() == name {
			return k, true
		}
	}
	return 0, false
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
// other parameters are p; "" for any other source, and without a row or cell.
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
func (s *ParamSource) IsLate() bool { return s.Kind == FromTable }

// IsLate reports whether a source of the parameter is read after the sources of all others.
func (d *ParamDecl) IsLate() bool {
	return slices.ContainsFunc(d.Sources, func(s ParamSource) bool { return s.IsLate() })
}

// sourceWords are the sources of [params], in the order of their kinds, with their
// arguments.
var sourceWords = []struct {
	name  string
	kind  SourceKind
	words []string
}{
	{"header", FromHeader, []string{"NAME"}},
	{"cookie", FromCookie, []string{"NAME"}},
	{"query", FromQuery, []string{"NAME"}},
	{"metadata", FromMetadata, []string{"NAMESPACE", "PATH"}},
	{"descriptor", FromDescriptor, []string{"KEY"}},
	{"principal", FromPrincipal, nil},
	{"sni", FromSNI, nil},
	{"client-ip", FromClientIP, nil},
	{"gateway", FromGateway, nil},
	{tableWord, FromTable, []string{"TABLE.COLUMN", byWord, "PARAM"}},
}

// The words between and after sources.
const (
	elseWord   = "else"
	hashedWord = "hashed"
)

// derivedNames are the parameters that doors derive from every request. A rate limit
// call has the domain and its descriptors as well.
var derivedNames = []string{"door", "method", "host", "path", "scheme", "ip", "domain"}

// IsDerived reports whether doors derive the parameter from every request.
func IsDerived(name string) bool { return slices.Contains(derivedNames, name) }
