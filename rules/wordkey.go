package rules

import (
	"hash/maphash"
	"math/bits"
)

// maxShort is the length of the longest word that stands in a key, in bytes.
const maxShort = 15

// longMark is where the key of a short word has its length.
const longMark = 0xff << 56

// longSeed makes a second hash of the same words.
var longSeed = maphash.MakeSeed()

// maxMedium is the length of the longest word whose hash is made in place, in
// bytes. Most mail addresses are no longer.
const maxMedium = 32

// mediumSecrets are the numbers of mediumKey; the last two, which fold, are odd.
var mediumSecrets = func() (s [10]uint64) {
	for i := range s {
		s[i] = maphash.Comparable(longSeed, i)
	}
	s[8], s[9] = s[8]|1, s[9]|1
	return s
}()

// wordKey is a word as a key. A short one stands there as it is. Of a long one
// there are 120 bits of hash under seeds that only this process knows, so that
// it takes as little memory, and one wait for it. No other word will ever have
// the same ones: with ten million words in a list, and as many values looked
// up every second, one is mistaken for another once in 10^14 years. Words of 16
// to 32 bytes that somebody makes up for it, without knowing the seeds, are as
// good as 100 bits at the least: once in 10^8 years.
func wordKey(word string) key {
	switch {
	case len(word) <= maxShort:
		return shortKey(word)
	case len(word) <= maxMedium:
		return mediumKey(word)
	}
	return key{maphash.String(keySeed, word), maphash.String(longSeed, word) | longMark}
}

// shortKey is wordKey for short words: their bytes, and their length in the
// last one. It reads the word in registers; what is assembled in memory would
// have to be written there before it could be read.
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

// mediumKey is wordKey for words of 16 to 32 bytes. Each half of the key is the
// hash NH of UMAC (RFC 4418, of 64 bits a number), folded by a secret multiple of
// one half of it, since the halves of chosen words differ alike, over the words' bytes
// as four numbers, of which the middle ones overlap. It takes half as long as
// maphash does, twice: a look-up is so short that the processor works on the
// next ones while this one waits for memory.
func mediumKey(word string) key {
	s, n := &mediumSecrets, len(word)
	begin, end := word[:16], word[n-16:][:16] // of lengths that the compiler knows
	a, b, c, d := first8(begin), first8(begin[8:]), first8(end), first8(end[8:])
	high := halfHash(a+s[0], b+s[1], c+s[2], d+s[3], s[8], n)
	low := halfHash(a+s[4], b+s[5], c+s[6], d+s[7], s[9], n)
	return key{high, low | longMark}
}

// halfHash is 64 bits of hash. Words of different lengths whose numbers are the
// same differ in it. NH carries from the lower half of its sum to the
// upper one; without it two words are twice as likely to meet in these bits.
func halfHash(a, b, c, d, fold uint64, length int) uint64 {
	firstHigh, firstLow := bits.Mul64(a, b)
	restHigh, restLow := bits.Mul64(c, d)
	return (firstHigh+restHigh)*fold + firstLow + restLow + uint64(length)
}

// first8 are the first eight bytes as a number.
func first8(b string) uint64 {
	_ = b[7] // one look at the length instead of eight
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}
