package trace

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/jsontext"
)

// Mask hides the values of parameters in a log. A masked value is a pseudonym
// of 64 bits: equal values have the same, so that a replay counts them as one,
// and nobody can tell the value. The key is this process's own and kept nowhere,
// so that pseudonyms of two runs have nothing to do with each other.
type Mask struct {
	all     bool
	shown   map[string]bool
	hashers sync.Pool
}

// hasher makes pseudonyms, without an allocation.
type hasher struct {
	hash.Hash
	in  []byte
	sum [sha256.Size]byte
}

// pseudonymBytes are enough for some hundred million values without two that
// share one.
const pseudonymBytes = 8

// The words of a mask's setting.
const (
	ShowAll  = "all"    // no value is masked
	ShowNone = "masked" // every value is
)

// NewMask makes a mask of a setting: ShowAll, ShowNone, or the names of the
// parameters whose values are shown.
func NewMask(setting []string) *Mask {
	m := &Mask{shown: make(map[string]bool)}
	for _, name := range setting {
		switch name {
		case ShowAll:
			m.all = true
		case ShowNone:
		default:
			m.shown[name] = true
		}
	}
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails
	m.hashers.New = func() any { return &hasher{Hash: hmac.New(sha256.New, key)} }
	return m
}

// IsPseudonym tells whether a value is what a mask made of another.
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

// hides tells whether a value is written as a pseudonym. An empty one is not,
// since conditions tell it from others; the door is no caller's word. What is no
// UTF-8 always is: JSON cannot say it, and with U+FFFD in place of its bytes two
// callers would be one in a replay. No rule file names such a value.
func (m *Mask) hides(name, value string) bool {
	shown := m.all || value == "" || name == "door" || m.shown[name]
	return !shown || !utf8.ValidString(value)
}

// appendTo appends the value as it may be written, as JSON.
func (m *Mask) appendTo(b []byte, name, value string) []byte {
	if !m.hides(name, value) {
		return jsontext.AppendString(b, value)
	}
	h := m.hashers.Get().(*hasher)
	h.Reset()
	h.in = append(h.in[:0], value...)
	h.Write(h.in)
	b = append(b, `"#`...)
	b = hex.AppendEncode(b, h.Sum(h.sum[:0])[:pseudonymBytes])
	m.hashers.Put(h)
	return append(b, '"')
}
