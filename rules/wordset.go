package rules

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// wordSet is a set of words that are not empty.
type wordSet struct {
	short keySet
	long  longWords
}

func (s *wordSet) len() int { return s.short.count + s.long.count }

func (s *wordSet) contains(word string) bool {
	if len(word) <= maxShort {
		return s.short.contains(wordKey(word))
	}
	return s.long.contains(word)
}

func (s *wordSet) insert(word []byte) {
	if len(word) <= maxShort {
		s.short.insert(wordKey(word))
	} else {
		s.long.insert(word)
	}
}

// maxShort is the length of the longest word that stands in a key, in bytes.
const maxShort = 15

// wordKey is a short word as a key: its bytes, and its length in the last one.
// It reads the word in registers; what is assembled in memory would have to be
// written there before it could be read.
func wordKey[T string | []byte](word T) key {
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
func first8[T string | []byte](b T) uint64 {
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// longWords is a set of words of any length. The words stand one after the
// other in chunks, each behind its length, and are found by slots.
type longWords struct {
	chunks [][]byte
	slots  []uint64 // a power of two; nil while empty
	count  int
}

// A slot that is not 0 is the upper 24 bits of a word's hash, which spare most
// looks at words that are others, above 40 bits of its place: the number of
// its chunk, and its offset there plus 1.
const (
	placeBits = 40
	placeMask = 1<<placeBits - 1
	chunkBits = 20
	chunkSize = 1 << chunkBits
)

// at is the word at a place.
func (l *longWords) at(place uint64) []byte {
	chunk := l.chunks[place>>chunkBits][place&(chunkSize-1)-1:]
	length, n := binary.Uvarint(chunk)
	return chunk[n : n+int(length)]
}

func (l *longWords) contains(word string) bool {
	if l.count == 0 {
		return false
	}
	hash := maphash.String(keySeed, word)
	for i := hash; ; i++ {
		slot := l.slots[i&uint64(len(l.slots)-1)]
		if slot == 0 {
			return false
		}
		if slot>>placeBits == hash>>placeBits && string(l.at(slot&placeMask)) == word {
			return true
		}
	}
}

func (l *longWords) insert(word []byte) {
	if l.count >= len(l.slots)/2 {
		l.grow()
	}
	hash := maphash.Bytes(keySeed, word)
	for i := hash; ; i++ {
		slot := &l.slots[i&uint64(len(l.slots)-1)]
		if *slot == 0 {
			*slot = hash>>placeBits<<placeBits | l.keep(word)
			l.count++
			return
		}
		if *slot>>placeBits == hash>>placeBits && bytes.Equal(l.at(*slot&placeMask), word) {
			return
		}
	}
}

// keep appends a word to the chunks, and returns its place. No word is as long
// as a chunk.
func (l *longWords) keep(word []byte) uint64 {
	last := len(l.chunks) - 1
	if last < 0 || len(l.chunks[last])+binary.MaxVarintLen16+len(word) >= chunkSize {
		l.chunks = append(l.chunks, make([]byte, 0, chunkSize))
		last++
	}
	chunk := &l.chunks[last]
	place := uint64(last)<<chunkBits | uint64(len(*chunk)+1)
	*chunk = append(binary.AppendUvarint(*chunk, uint64(len(word))), word...)
	return place
}

func (l *longWords) grow() {
	before := l.slots
	l.slots = make([]uint64, max(16, 2*len(before)))
	for _, slot := range before {
		if slot == 0 {
			continue
		}
		i := maphash.Bytes(keySeed, l.at(slot&placeMask))
		for l.slots[i&uint64(len(l.slots)-1)] != 0 {
			i++
		}
		l.slots[i&uint64(len(l.slots)-1)] = slot
	}
}
