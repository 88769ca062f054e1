package rules

import (
	"strings"
	"unicode/utf8"
)

// The wildcards of a pattern's text, as bytes that UTF-8 never contains: any text, and
// one character.
const (
	anyText      = '\xff'
	anyCharacter = '\xfe'
)

// globs are the patterns of a condition, each for a whole value. A value and patterns that are
// twice as long each take four times as long to match. Matching allocates only if the stepped
// patterns have more than 2,000 bytes.
type globs struct {
	patterns []string // texts in UTF-8 with wildcards
	searched []glob
	stepped  *automaton // the other patterns; nil without any
}

// newGlobs returns the globs of patterns.
func newGlobs(patterns []string) *globs {
	g := &globs{patterns: patterns}
	var stepped []string
	for _, pattern := range patterns {
		if one, ok := newGlob(pattern); ok {
			g.searched = append(g.searched, one)
		} else {
			stepped = append(stepped, pattern)
		}
	}
	if stepped != nil {
		g.stepped = newAutomaton(stepped)
	}
	return g
}

// match reports whether one of the patterns matches all of value.
func (g *globs) match(value string) bool {
	for i := range g.searched {
		if g.searched[i].matches(value) {
			return true
		}
	}
	return g.stepped != nil && g.stepped.matches(value)
}

// maxSteps is the maximum number of steps for texts that isQuickFor reports as quick: about 1 ms.
const maxSteps = 1 << 20

// isQuickFor reports whether the globs match all these texts within a millisecond or so.
func (g *globs) isQuickFor(texts []string) bool {
	words := len(g.searched) + 1
	if g.stepped != nil {
		words += len(g.stepped.begin)
	}
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	return size <= maxSteps/words
}

// mayMatchHash reports whether all texts of a pattern may be parts of a hashed value.
func mayMatchHash(pattern string) bool {
	length := 0
	for i := range len(pattern) {
		switch b := pattern[i]; {
		case b == anyText:
			continue
		case b != anyCharacter && strings.IndexByte("0123456789abcdef", b) < 0:
			return false
		}
		length++
	}
	return length == hashLength || length < hashLength && strings.IndexByte(pattern, anyText) >= 0
}

// maxSearches is the maximum number of texts that a glob searches for. An automaton takes
// less time for more.
const maxSearches = 3

// glob is a pattern without anyCharacter.
type glob struct {
	start     string   // at the beginning of the value
	between   []string // after each other, each as early as possible
	end       string   // at the end of the value
	stretches bool     // anyText follows start
}

// newGlob returns the glob of a pattern, if a glob is a good way to match it.
func newGlob(pattern string) (g glob, ok bool) {
	if strings.IndexByte(pattern, anyCharacter) >= 0 {
		return g, false
	}
	var rest string
	g.start, rest, g.stretches = cutAnyText(pattern)
	for follows := g.stretches; follows; {
		var text string
		if text, rest, follows = cutAnyText(rest); !follows {
			g.end = text
		} else if text != "" {
			g.between = append(g.between, text)
		}
	}
	return g, len(g.between) <= maxSearches
}

// cutAnyText cuts a pattern around the first anyText.
func cutAnyText(pattern string) (before, after string, found bool) {
	if i := strings.IndexByte(pattern, anyText); i >= 0 {
		return pattern[:i], pattern[i+1:], true
	}
	return pattern, "", false
}

// matches reports whether the pattern matches all of value. A text is found at whole
// characters only, because its first byte is never inside one.
func (g *glob) matches(value string) bool {
	value, ok := strings.CutPrefix(value, g.start)
	if !ok || !g.stretches {
		return ok && value == ""
	}
	if value, ok = strings.CutSuffix(value, g.end); !ok {
		return false
	}
	for _, text := range g.between {
		if _, value, ok = strings.Cut(value, text); !ok {
			return false
		}
	}
	return true
}

// automaton matches several patterns at once, byte by byte. Its state is a set of places, a
// bit for each: a place is in front of a byte or an anyCharacter of a pattern, or at its end.
type automaton struct {
	begin []uint64   // the places at which patterns begin
	end   []uint64   // the places at which patterns end
	kinds [256]uint8 // of bytes: one for each that is in a pattern, and two for the others
	steps []step     // for each kind, a step for each word of the state
}

// step is what a byte does to a word of the state.
type step struct {
	moves uint64 // the places to which the byte moves the places in front of them
	stays uint64 // the places that remain
}

// The kinds of bytes that are in no pattern.
const (
	kindBegins    = iota // it begins a character, or is not UTF-8
	kindContinues        // it continues a character
	kindsOfOthers
)

const (
	wordBits  = 64
	roomWords = 32 // the words behind the first for which matching allocates nothing
)

// newAutomaton returns the automaton of at least one pattern.
func newAutomaton(patterns []string) *automaton {
	a := new(automaton)
	samples := []byte{kindBegins: 0xff, kindContinues: 0x80} // a byte of each kind
	for b := range len(a.kinds) {
		if !utf8.RuneStart(byte(b)) {
			a.kinds[b] = kindContinues
		}
	}
	places := 0
	for _, pattern := range patterns {
		for _, b := range []byte(pattern) {
			if b != anyText {
				places++
			}
			if b != anyText && b != anyCharacter && a.kinds[b] < kindsOfOthers {
				a.kinds[b] = uint8(len(samples))
				samples = append(samples, b)
			}
		}
		places++
	}
	words := (places + wordBits - 1) / wordBits
	a.begin, a.end, a.steps = make([]uint64, words), make([]uint64, words), make([]step, len(samples)*words)
	at := func(kind, place int) (*step, uint64) {
		return &a.steps[kind*words+place/wordBits], 1 << (place % wordBits)
	}
	move := func(kind, to int) { s, bit := at(kind, to); s.moves |= bit }
	stay := func(kind, place int) { s, bit := at(kind, place); s.stays |= bit }
	place := 0
	for _, pattern := range patterns {
		a.begin[place/wordBits] |= 1 << (place % wordBits)
		for _, b := range []byte(pattern) {
			if b == anyText {
				for kind := range samples {
					stay(kind, place)
				}
				continue
			}
			place++
			if b != anyCharacter {
				move(int(a.kinds[b]), place)
				continue
			}
			for kind, sample := range samples {
				if utf8.RuneStart(sample) {
					move(kind, place)
				} else {
					stay(kind, place) // until the character ends
				}
			}
		}
		a.end[place/wordBits] |= 1 << (place % wordBits)
		place++
	}
	return a
}

// matches reports whether one of the patterns matches all of value.
func (a *automaton) matches(value string) bool {
	var room [roomWords]uint64
	first, others := a.begin[0], append(room[:0], a.begin[1:]...)
	next := 0 // the place of the next character
	for i := range len(value) {
		kind := a.kinds[value[i]]
		if value[i] >= utf8.RuneSelf && i >= next {
			_, size := utf8.DecodeRuneInString(value[i:])
			if size == 1 {
				kind = kindBegins
			}
			next = i + size
		}
		steps := a.steps[int(kind)*len(a.begin):]
		carry := first >> (wordBits - 1)
		first = first<<1&steps[0].moves | first&steps[0].stays
		left := first
		if len(others) > 0 {
			left |= advance(others, steps[1:], carry)
		}
		if left == 0 {
			return false
		}
	}
	if first&a.end[0] != 0 {
		return true
	}
	for i, word := range others {
		if word&a.end[i+1] != 0 {
			return true
		}
	}
	return false
}

// advance does the steps of a byte to words of a state, and returns all their bits as one.
func advance(words []uint64, steps []step, carry uint64) (left uint64) {
	steps = steps[:len(words)]
	for i, word := range words {
		words[i] = (word<<1|carry)&steps[i].moves | word&steps[i].stays
		carry = word >> (wordBits - 1)
		left |= words[i]
	}
	return left
}
