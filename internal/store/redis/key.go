package redis

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// A key in Redis is PREFIX:2:{S}, and PREFIX:2:{S}:TAG for the log of a leak
// counter. 2 is the layout. The braces make a Redis Cluster keep all keys of a
// subject in one slot. With a fixed tag a key is PREFIX:2:{*PREFIX}{S}, which puts
// all keys into one slot.
const (
	// DefaultPrefix is the default prefix of every key.
	DefaultPrefix = "koala"
	// MaxPrefix is the largest length of a prefix, in bytes.
	MaxPrefix = 64
	// MaxKey is the largest length of a key with its prefix, in bytes.
	MaxKey = 256

	// layout is the version of keys and values, which lua/plan.lua has, too.
	layout = 2

	// maxSubject is the largest length of S, in bytes, unless S is a hash. It
	// keeps common identities legible: two UUIDs still fit. Within MaxKey it
	// leaves space for any prefix and a tag, but not for a long prefix twice, as
	// keys with a fixed tag contain it: then S is shorter.
	maxSubject = 128
	// aroundSubject is the length of the rest of a key, besides its beginning and
	// S: the braces, and the longest tag of a log.
	aroundSubject = len("{}") + len(":17179869183")
)

// checkPrefix returns an error if the prefix is invalid. Braces would change the
// hash tag, and blanks or unprintable bytes make the keys hard to find.
func checkPrefix(prefix string) error {
	if prefix == "" || len(prefix) > MaxPrefix {
		return fmt.Errorf("redis prefix %q: %d bytes; want 1 … %d", prefix, len(prefix), MaxPrefix)
	}
	for i := range len(prefix) {
		if c := prefix[i]; c <= ' ' || c > '~' || c == '{' || c == '}' {
			return fmt.Errorf("redis prefix %q: byte %d is %q; want printable ASCII without blanks and braces", prefix, i, c)
		}
	}
	return nil
}

// keyBegin returns the beginning of all keys of a prefix, and of a space or "". A fixed
// tag puts them into one slot: Redis Cluster hashes the content of the first braces. The
// keys of a subject have one slot in all spaces.
func keyBegin(prefix, space string, fixed bool) string {
	begin := fmt.Sprintf("%s:%d:", spaced(prefix, space), layout)
	if fixed {
		return begin + "{*" + prefix + "}"
	}
	return begin
}

// spaced returns the prefix of the keys of a space.
func spaced(prefix, space string) string {
	if space == "" {
		return prefix
	}
	return prefix + ":" + space
}

// appendKey appends the key of a subject.
func appendKey(b []byte, begin string, subject []byte) []byte {
	b = append(b, begin...)
	b = append(b, '{')
	b = appendSubject(b, subject, subjectRoom(begin))
	return append(b, '}')
}

// subjectRoom returns the largest length of S in keys that begin with begin.
func subjectRoom(begin string) int { return min(maxSubject, MaxKey-aroundSubject-len(begin)) }

// literalSubject reports whether a text is an S.
func literalSubject(text []byte) bool {
	for _, c := range text {
		if !plain(c) && c != '%' && c != '#' {
			return false
		}
	}
	return len(text) > 0
}

// appendSubject appends S: the subject with special bytes as %XX if that has at
// most that many bytes, else # and the first 128 bits of its SHA-256. Both are
// printable, and no two subjects share one, because # itself is a special byte.
func appendSubject(b, subject []byte, most int) []byte {
	begin := len(b)
	if len(subject) == 0 {
		return append(b, '#') // Redis Cluster ignores empty braces
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

// plain reports whether a byte appears unescaped in a key.
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
