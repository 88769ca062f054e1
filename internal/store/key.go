package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// A key in Redis is PREFIX:1:{S}, and PREFIX:1:{S}:TAG for the log of a leak
// counter. 1 is the version of the layout. The braces make Redis Cluster keep
// what belongs to a subject in one slot. With a fixed tag a key is
// PREFIX:1:{*PREFIX}{S}, and so all of them are in one.
const (
	// DefaultPrefix begins every key unless another prefix is set.
	DefaultPrefix = "koala"
	// MaxPrefix is the most bytes that a prefix has.
	MaxPrefix = 64
	// MaxKey is the most bytes that a key has, prefix included.
	MaxKey = 256

	// maxSubject is the most bytes that S has, unless S is a hash. It keeps the
	// identities that people choose legible: two UUIDs still fit. Within MaxKey
	// it leaves room for any prefix and a tag, but not for a long prefix twice,
	// as keys with a fixed tag have it: then S has less.
	maxSubject = 128
	// aroundSubject is what a key has beside its begin and S: the braces, and
	// the longest tag of a log.
	aroundSubject = len("{}") + len(":17179869183")
)

// checkPrefix tells what is wrong with a prefix. Braces would move the hash
// tag, and blanks or other odd bytes be a trap for whoever looks for the keys.
func checkPrefix(prefix string) error {
	if prefix == "" || len(prefix) > MaxPrefix {
		return fmt.Errorf("redis prefix %q: it has %d bytes; want 1 … %d", prefix, len(prefix), MaxPrefix)
	}
	for i := range len(prefix) {
		if c := prefix[i]; c <= ' ' || c > '~' || c == '{' || c == '}' {
			return fmt.Errorf("redis prefix %q: byte %d is %q; want printable ASCII without blanks and braces", prefix, i, c)
		}
	}
	return nil
}

// keyBegin is what all keys of a prefix begin with. A fixed tag puts them into
// one slot: Redis Cluster goes by the first braces.
func keyBegin(prefix string, fixed bool) string {
	if fixed {
		return prefix + ":1:{*" + prefix + "}"
	}
	return prefix + ":1:"
}

// appendKey appends the key of a subject.
func appendKey(b []byte, begin string, subject []byte) []byte {
	b = append(b, begin...)
	b = append(b, '{')
	b = appendSubject(b, subject, min(maxSubject, MaxKey-aroundSubject-len(begin)))
	return append(b, '}')
}

// appendSubject appends S: the subject with its odd bytes as %XX if that has at
// most so many bytes, else # and the first 128 bits of its SHA-256. Both are printable, and
// no two subjects share one: # itself is an odd byte.
func appendSubject(b, subject []byte, most int) []byte {
	begin := len(b)
	if len(subject) == 0 {
		return append(b, '#') // Redis Cluster does not go by empty braces
	}
	for _, c := range subject {
		if len(b)-begin > most {
			break
		}
		if plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	if len(b)-begin <= most {
		return b
	}
	sum := sha256.Sum256(subject)
	return hex.AppendEncode(append(b[:begin], '#'), sum[:16])
}

const digits = "0123456789ABCDEF"

// plain tells whether a byte stands for itself in a key.
func plain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	switch c {
	case '-', '_', '.', ':', '/', '@', '+', ',', '=':
		return true
	}
	return false
}
