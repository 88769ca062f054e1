package wordlist

import (
	"hash/maphash"
	"iter"
	"math/bits"
	"runtime"
)

// key is an entry in sixteen bytes: a short word with its length, the hash of a
// long word, or an address. It is a struct of two numbers, because the compiler
// keeps those in registers and an array in memory.
type key struct{ high, low uint64 }

// keySet is a set of keys. It takes 16 bytes per slot, and a look-up reads one
// cache line: among ten million entries nearly all the cost of a look-up is the
// wait for memory, and Go's map waits several times. It has no pointers, so the
// garbage collector does not scan it.
type keySet struct {
	lines   []cacheLine // a power of two; nil while the set is empty
	count   int
	hasZero bool // the zero key, which marks an empty slot, is in the set
}

// cacheLine is four slots, filled from the front. A key whose line is full goes
// to the next line that has a free slot.
type cacheLine [4]key

// keySeed is random for each process, so that clients cannot choose values that
// all fall on one line.
var keySeed = maphash.MakeSeed()

var keySecrets = key{maphash.Comparable(keySeed, 0), maphash.Comparable(keySeed, 1)}

// home returns the number of the line where the search for k begins. The hash is
// computed in registers: maphash reads its argument from memory, so the processor
// would wait for the store of k, which waits for the previous look-up. See the comment of
// the package for the difference.
func (s *keySet) home(k key) int {
	high, low := bits.Mul64(k.high^keySecrets.high, k.low^keySecrets.low)
	return int(high^low) & (len(s.lines) - 1)
}

// contains reports whether k is in the set.
func (s *keySet) contains(k key) bool {
	if k == (key{}) {
		return s.hasZero
	}
	if len(s.lines) == 0 {
		return false
	}
	for i := s.home(k); ; i = (i + 1) & (len(s.lines) - 1) {
		// Four comparisons in a row instead of a loop: the processor predicts
		// them and meanwhile loads the line of the next look-up.
		l := &s.lines[i]
		if l[0] == k || l[1] == k || l[2] == k || l[3] == k {
			return true
		}
		if l[3] == (key{}) {
			return false
		}
	}
}

// insert adds k to the set.
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

// isCrowded reports whether the lines are half full, which is the limit. At that
// load one line in thirty is full, so the processor predicts correctly that a
// look-up ends at its first line, and loads the lines of later look-ups meanwhile.
func isCrowded(count int, lines []cacheLine) bool { return count >= 2*len(lines) }

// place puts k into a slot and reports whether it is new.
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
	old := s.lines
	s.lines = newLines(2 * len(old))
	for i := range old {
		if i%yieldLines == 0 {
			runtime.Gosched()
		}
		for _, k := range old[i] {
			if k != (key{}) {
				s.place(k)
			}
		}
	}
}

// yieldLines is the number of lines after which decisions that wait for a processor run:
// lists of millions of words load and are compared while older rules decide.
const yieldLines = 1024

// newLines returns n empty lines, and four if n is less.
func newLines(n int) []cacheLine { return make([]cacheLine, max(4, n)) }

// all iterates over the keys of the set, in no particular order.
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
