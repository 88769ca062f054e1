package trace

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// Mask hides the values of parameters in a log. A masked value is a pseudonym
// of 64 bits: equal values have the same, so that a replay counts them as one,
// and nobody can tell the value. The key is this process's own and kept nowhere,
// so that pseudonyms of two runs have nothing to do with each other.
type Mask struct {
	all   bool
	shown map[string]bool
	key   [32]byte
}

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
	_, _ = rand.Read(m.key[:]) // it never fails
	return m
}

// show is the value as it may be written. An empty one stays so, since
// conditions tell it from others; the door is no caller's word.
func (m *Mask) show(name, value string) string {
	if m.all || value == "" || name == "door" || m.shown[name] {
		return value
	}
	h := hmac.New(sha256.New, m.key[:])
	h.Write([]byte(value))
	return "#" + hex.EncodeToString(h.Sum(nil)[:8])
}
