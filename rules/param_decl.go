package rules

import (
	"fmt"
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
)

// ParamSource is one source of a declared parameter.
type ParamSource struct {
	Kind   SourceKind
	Name   string // header (in lower case), cookie, query or descriptor key; namespace of metadata
	Path   string // of metadata
	V4, V6 int    // prefix lengths of client-ip; -1 for the whole address
	Hashed bool   // the first 32 hex digits of the value's SHA-256
}

// String returns the source in the syntax of [params]: `header x-user-id`.
func (s ParamSource) String() string {
	if int(s.Kind) >= len(sourceWords) {
		return fmt.Sprintf("source(%d)", uint8(s.Kind))
	}
	words := []string{sourceWords[s.Kind].name}
	for _, word := range []string{s.Name, s.Path} {
		if word != "" {
			words = append(words, word)
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
