package rules

import "hash/maphash"

// maxShort is the length of the longest word that stands in a key, in bytes.
const maxShort = 15

// longMark is where the key of a short word has its length.
const longMark = 0xff << 56

// longSeed makes a second hash of the same words.
var longSeed = maphash.MakeSeed()

// wordKey is a word as a key. A short one stands there as it is. Of a long one
// there are 120 bits of hash under seeds that only this process knows, so that
// it takes as little memory, and one wait for it. No other word will ever have
// the same ones: with ten million words in a list, and as many values looked
// up every second, one is mistaken for another once in 10^14 years.
func wordKey(word string) key {
	if len(word) > maxShort {
		return key{maphash.String(keySeed, word), maphash.String(longSeed, word) | longMark}
	}
	return shortKey(word)
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

// first8 are the first eight bytes as a number.
func first8(b string) uint64 {
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}
