package wordlist

import (
	"hash/maphash"
	"math/bits"
)

// maxShort is the length of the longest word that a key stores whole, in bytes.
const maxShort = 15

// longMark marks the key of a long word in the byte that holds the length of a
// short word.
const longMark = 0xff << 56

// longSeed is the seed of the second hash of a long word.
var longSeed = maphash.MakeSeed()

// maxMedium is the length of the longest word that mediumKey hashes, in bytes. Most
// mail addresses fit.
const maxMedium = 32

// mediumSecrets are the secret numbers of mediumKey. The last two are multipliers
// and therefore odd.
var mediumSecrets = func() (s [10]uint64) {
	for i := range s {
		s[i] = maphash.Comparable(longSeed, i)
	}
	s[8], s[9] = s[8]|1, s[9]|1
	return s
}()

// wordKey returns the key of a word. The key of a short word is the word itself.
// The key of a long word is 120 bits of hash under seeds that only this process
// knows, so that it takes no more memory, and no more waits for memory, than a
// short one. Collisions can be ignored: with ten million words in a list and ten
// million look-ups per second, one value is mistaken for a word in 10^14 years.
// Against words of 16 to 32 bytes that an attacker constructs without knowing the
// seeds, the hash is worth at least 100 bits: once in 10^8 years.
func wordKey(word string) key {
	switch {
	case len(word) <= maxShort:
		return shortKey(word)
	case len(word) <= maxMedium:
		return mediumKey(word)
	}
	return key{maphash.String(keySeed, word), maphash.String(longSeed, word) | longMark}
}

// shortKey is wordKey for short words: the bytes of the word, and its length in
// the last byte. It assembles the key in registers, because the processor would
// have to wait for a key that is assembled in memory.
func shortKey(word string) key {
	var first, rest uint64
	n := len(word)
	if n >= 8 {
		first = first8(word)
		rest = first8(word[n-8:]) >> (8 * (16 - n))
	} else {
		for i := range n {
			first |= uint64(word[i]) << (8 * i)
		}
	}
	return key{first, rest | uint64(n)<<56}
}

// mediumKey is wordKey for words of 16 to 32 bytes. It reads the word as four
// numbers of 64 bits, of which the middle two may overlap. Each half of the key is
// the hash NH of UMAC (RFC 4418, with numbers of 64 bits) over these numbers. One
// half of NH's result is multiplied by a secret, because both halves change in the
// same way between chosen words. It takes half the time of two calls of maphash,
// which counts: look-ups are so short that the processor works on the next ones
// while one waits for memory.
func mediumKey(word string) key {
	s, n := &mediumSecrets, len(word)
	begin, end := word[:16], word[n-16:][:16] // of lengths that the compiler knows
	a, b, c, d := first8(begin), first8(begin[8:]), first8(end), first8(end[8:])
	high := halfHash(a+s[0], b+s[1], c+s[2], d+s[3], s[8], n)
	low := halfHash(a+s[4], b+s[5], c+s[6], d+s[7], s[9], n)
	return key{high, low | longMark}
}

// halfHash returns 64 bits of hash. The length is part of it, because words of
// different lengths may have the same four numbers. Unlike NH it does not carry from
// the lower half of the sum to the upper one, which makes a collision in these bits
// twice as likely.
func halfHash(a, b, c, d, fold uint64, length int) uint64 {
	firstHigh, firstLow := bits.Mul64(a, b)
	restHigh, restLow := bits.Mul64(c, d)
	return (firstHigh+restHigh)*fold + firstLow + restLow + uint64(length)
}

// first8 returns the first eight bytes as a number.
func first8(b string) uint64 {
	_ = b[7] // one bounds check instead of eight
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}
