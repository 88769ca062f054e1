package rules

import (
	"hash/maphash"
	"iter"
	"math/bits"
)

// key is an entry of a word list in sixteen bytes: a short word with its
// length, or an address. It is no array because those are kept in memory, and
// two numbers in registers.
type key struct{ high, low uint64 }

// keySet is a set of keys. It takes 16 bytes a slot and one line of the
// processor's cache a look-up: among ten million entries the wait for memory
// is nearly all that a look-up costs, and Go's map waits several times. There
// are no pointers in it, so the garbage collector passes it over.
type keySet struct {
	lines   []cacheLine // a power of two; nil while empty
	count   int
	hasZero bool // the key of zeros, which marks an empty slot, is in the set
}

// cacheLine is four slots, filled from the front. A key that finds its line
// full stands in the next one that is not.
type cacheLine [4]key

// keySeed is the process's own, so that nobody can make requests whose values
// all fall on one line.
var keySeed = maphash.MakeSeed()

var keySecrets = key{maphash.Comparable(keySeed, 0), maphash.Comparable(keySeed, 1)}

// home is the number of the line where the search for k begins. The hash stays
// in registers: one that reads k from memory, as those of maphash do, waits
// for k to be written there, which waits for the look-up before this one.
func (s *keySet) home(k key) int {
	high, low := bits.Mul64(k.high^keySecrets.high, k.low^keySecrets.low)
	return int(high^low) & (len(s.lines) - 1)
}

// contains tells whether k is in the set.
func (s *keySet) contains(k key) bool {
	if k == (key{}) {
		return s.hasZero
	}
	if len(s.lines) == 0 {
		return false
	}
	for i := s.home(k); ; i = (i + 1) & (len(s.lines) - 1) {
		// Four comparisons in a row and not in a loop: the processor guesses
		// them right, and goes on to the next line of memory meanwhile.
		l := &s.lines[i]
		if l[0] == k || l[1] == k || l[2] == k || l[3] == k {
			return true
		}
		if l[3] == (key{}) {
			return false
		}
	}
}

// insert puts k into the set.
func (s *keySet) insert(k key) {
	if k == (key{}) {
		if !s.hasZero {
			s.hasZero = true
			s.count++
		}
		return
	}
	if isCrowded(s.count, s.lines) {
		s.grow()
	}
	if s.place(k) {
		s.count++
	}
}

// isCrowded tells whether so many lines with so many keys are too few: they are
// half full at most. Then one line in thirty is full, and whether a look-up goes
// on to the next is what the processor has guessed: it is waiting for the lines
// of the look-ups behind this one meanwhile.
func isCrowded(count int, lines []cacheLine) bool { return count >= 2*len(lines) }

// place puts a key into a slot, and tells whether it was not there yet.
func (s *keySet) place(k key) bool {
	for i := s.home(k); ; i = (i + 1) & (len(s.lines) - 1) {
		for slot := range s.lines[i] {
			switch s.lines[i][slot] {
			case k:
				return false
			case key{}:
				s.lines[i][slot] = k
				return true
			}
		}
	}
}

func (s *keySet) grow() {
	before := s.lines
	s.lines = make([]cacheLine, max(4, 2*len(before)))
	inHugePages(s.lines)
	for i := range before {
		for _, k := range before[i] {
			if k != (key{}) {
				s.place(k)
			}
		}
	}
}

// all are the keys of the set, in no order.
func (s *keySet) all() iter.Seq[key] {
	return func(yield func(key) bool) {
		if s.hasZero && !yield(key{}) {
			return
		}
		for i := range s.lines {
			for _, k := range s.lines[i] {
				if k != (key{}) && !yield(k) {
					return
				}
			}
		}
	}
}
