// Package apikey makes keys that an operator hands out, and keeps the table of their hashes.
//
// A key is PREFIX_, 32 random characters of 0-9A-Za-z, and the CRC-32 (IEEE) of all before it in
// six digits of base62. So scanners for secrets can find keys in texts, and a mistyped key is
// told from an unknown one. The table has a hash per key, as `hashed` in [params] makes it, and
// never a key.
package apikey

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/koalagate/koalagate/internal/mapping"
)

// DefaultPrefix is the prefix of keys unless another is stated.
const DefaultPrefix = "koala"

const (
	secretLength = 32 // 190 bits
	checkLength  = 6
	maxPrefix    = 32

	// digits are the digits of base62, in the order of their values.
	digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// MaxLength is the length of the longest key, in bytes.
const MaxLength = maxPrefix + len("_") + secretLength + checkLength

var (
	// ErrForm is the error of a text that has another form than keys.
	ErrForm = errors.New("the key is mistyped or cut, or another program made it: it does not have the form PREFIX_ and 38 letters and digits")
	// ErrMistyped is the error of a key whose last six characters do not fit the others.
	ErrMistyped = errors.New("the key is mistyped: its last six characters do not fit the others")
)

// New returns a new key with the prefix, drawn from random. The prefix is a lower-case letter
// and up to 31 lower-case letters, digits and _.
func New(prefix string, random io.Reader) (string, error) {
	if !isPrefix(prefix) {
		return "", fmt.Errorf("the prefix is %q; want a lower-case letter, and up to 31 lower-case letters, digits and _", prefix)
	}
	key := append(make([]byte, 0, MaxLength), prefix+"_"...)
	// Bytes from 248 on are left out: the others are a multiple of 62, so that each digit is
	// equally likely.
	const even = 256 - 256%len(digits)
	var drawn [2 * secretLength]byte
	for left := secretLength; left > 0; {
		if _, err := io.ReadFull(random, drawn[:]); err != nil {
			return "", fmt.Errorf("drawing a key: %w", err)
		}
		for _, b := range drawn {
			if int(b) < even && left > 0 {
				key = append(key, digits[int(b)%len(digits)])
				left--
			}
		}
	}
	return string(appendCheck(key, key)), nil
}

// Check returns nil for a key that New may have made, ErrMistyped for one whose check digits do
// not fit, and ErrForm for any other text.
func Check(key string) error {
	random := len(key) - secretLength - checkLength
	if random < 2 || key[random-1] != '_' || !isPrefix(key[:random-1]) || strings.Trim(key[random:], digits) != "" {
		return ErrForm
	}
	end := len(key) - checkLength
	if want := appendCheck(nil, []byte(key[:end])); key[end:] != string(want) {
		return ErrMistyped
	}
	return nil
}

// Hash returns the hash of a key, as `hashed` in [params] makes it.
func Hash(key string) string { return mapping.Hashed(key) }

// appendCheck appends the check digits of a text to b, the most significant first.
func appendCheck(b, text []byte) []byte {
	sum := crc32.ChecksumIEEE(text)
	var check [checkLength]byte
	for i := range check {
		check[checkLength-1-i] = digits[sum%uint32(len(digits))]
		sum /= uint32(len(digits))
	}
	return append(b, check[:]...)
}

func isPrefix(text string) bool {
	if text == "" || len(text) > maxPrefix || !isLower(text[0]) {
		return false
	}
	for i := range len(text) {
		if c := text[i]; !isLower(c) && c != '_' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
