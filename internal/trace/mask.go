package trace

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/jsontext"
	"github.com/koalagate/koalagate/rules"
)

// Mask replaces the values of parameters in a log by pseudonyms of 64 bits. Equal
// values have equal pseudonyms, so that a replay counts them as one, but a
// pseudonym does not reveal its value. The key is random and never stored, so
// pseudonyms of two processes are unrelated.
type Mask struct {
	all     bool
	strict  bool
	shown   map[string]bool
	words   atomic.Pointer[map[string]map[string]bool] // of [routes], by parameter; nil before Use
	hashers sync.Pool
}

// hasher computes pseudonyms without allocating.
type hasher struct {
	hash.Hash
	in  []byte
	sum [sha256.Size]byte
}

// pseudonymBytes is the length of a pseudonym. It suffices for some hundred
// million values without a collision.
const pseudonymBytes = 8

// The special words in the setting of a mask.
const (
	ShowAll  = "all"    // no value is masked
	ShowNone = "masked" // all values that identify a caller are masked
	ShowDoor = "strict" // all values but the door are masked
)

// NewMask returns the mask for a setting: ShowAll, ShowNone, ShowDoor, or the names of
// parameters whose values are shown too.
func NewMask(setting []string) *Mask {
	m := &Mask{shown: make(map[string]bool)}
	for _, name := range setting {
		switch name {
		case ShowAll:
			m.all = true
		case ShowNone:
		case ShowDoor:
			m.strict = true
		default:
			m.shown[name] = true
		}
	}
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	m.hashers.New = func() any { return &hasher{Hash: hmac.New(sha256.New, key)} }
	return m
}

// Use makes the values plain that the routes of a rule set give to parameters, and how the
// verifications of its tokens end, at the doors of gateways: no client chose them.
func (m *Mask) Use(set *rules.Set) {
	words := set.RouteConstants()
	for _, t := range set.Tokens {
		words[t.Param] = make(map[string]bool)
		for outcome := rules.JWTAbsent; outcome <= rules.JWTUnavailable; outcome++ {
			words[t.Param][outcome.String()] = true
		}
	}
	m.words.Store(&words)
}

// isWord reports whether a value is one that [routes] or [tokens] give to the parameter.
func (m *Mask) isWord(door, name, value string) bool {
	words := m.words.Load()
	return words != nil && !doorname.Of(door).NamesParams() && (*words)[name][value]
}

// IsPseudonym reports whether a value has the form of a pseudonym.
func IsPseudonym(value string) bool {
	if len(value) != 1+2*pseudonymBytes || value[0] != '#' {
		return false
	}
	for _, c := range []byte(value[1:]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// hides reports whether a value is written as a pseudonym. Empty values are not,
// because conditions distinguish them, and neither is what describes the call
// instead of its caller. Values that are not UTF-8 always are: JSON cannot
// represent them, and with U+FFFD instead of the invalid bytes a replay would
// take two callers for one. No rule file contains such a value.
func (m *Mask) hides(door, name, value string) bool {
	shown := m.all || value == "" || name == "door" || m.shown[name] || !m.strict && (isPlain(door, name) || m.isWord(door, name, value))
	return !shown || !utf8.ValidString(value)
}

// isPlain reports whether a parameter describes the call instead of its caller at a door.
// It is the method, the scheme or the path, which has no query. Callers that name parameters
// may put anything into them: only the domain of a descriptor is plain there. The status of
// the response is plain wherever it is reported.
func isPlain(door, name string) bool {
	if name == "response.status" {
		return true
	}
	if at := doorname.Of(door); at.NamesParams() {
		return name == "domain" && at.Adds == doorname.Entries
	}
	return name == "method" || name == "scheme" || name == "path"
}

// Shows reports whether the setting shows all values of a parameter, at each door. The name
// is NAME or NAME@SOURCE.
func (m *Mask) Shows(name string) bool { return m.all || m.shown[paramOf(name)] }

// paramOf returns the parameter of a name NAME or NAME@SOURCE.
func paramOf(name string) string {
	param, _, _ := strings.Cut(name, "@")
	return param
}

// InIdentity is Value for a parameter of an identity, whose name is NAME or NAME@SOURCE.
func (m *Mask) InIdentity(door, name, value string) string {
	return m.Value(door, paramOf(name), value)
}

// Pseudonym returns the pseudonym of a value.
func (m *Mask) Pseudonym(value string) string { return string(m.appendPseudonym(nil, value)) }

// Value returns the value of a parameter at a door, or its pseudonym.
func (m *Mask) Value(door, name, value string) string {
	if !m.hides(door, name, value) {
		return value
	}
	return m.Pseudonym(value)
}

// appendTo appends the value of a parameter at a door, or its pseudonym, as a JSON
// string.
func (m *Mask) appendTo(b []byte, door, name, value string) []byte {
	if !m.hides(door, name, value) {
		return jsontext.AppendString(b, value)
	}
	return append(m.appendPseudonym(append(b, '"'), value), '"')
}

// appendPseudonym appends the pseudonym of a value.
func (m *Mask) appendPseudonym(b []byte, value string) []byte {
	h := m.hashers.Get().(*hasher)
	h.Reset()
	h.in = append(h.in[:0], value...)
	h.Write(h.in)
	b = hex.AppendEncode(append(b, '#'), h.Sum(h.sum[:0])[:pseudonymBytes])
	m.hashers.Put(h)
	return b
}
