package rules

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// The wildcards of a pattern's text, as bytes that UTF-8 never contains: any text, and
// one character.
const (
	anyText      = '\xff'
	anyCharacter = '\xfe'
)

// glob is a pattern of characters and wildcards for a whole value. Matching takes time
// linear in the length of the value times that of the pattern, and allocates nothing.
type glob struct {
	start     globPart   // at the beginning of the value
	between   []globPart // after each other, each as early as possible; each begins with text
	end       globPart   // at the end of the value
	stretches bool       // anyText follows start
}

// globPart is a part of a pattern without anyText.
type globPart []globPiece

// globPiece is a number of any characters, and then a text.
type globPiece struct {
	skipped int
	text    string
}

// newGlob returns the glob of a text in UTF-8 with wildcards. Parts after anyText begin
// with text: the wildcards of characters after it are moved in front of it, which means
// the same.
func newGlob(pattern string) glob {
	parts := []globPart{nil}
	follows := false // anyText precedes the next text
	for pattern != "" {
		length := textLength(pattern)
		switch part := &parts[len(parts)-1]; {
		case pattern[0] == anyText:
			follows = true
		case pattern[0] == anyCharacter:
			part.skip()
		case follows:
			parts, follows = append(parts, globPart{{text: pattern[:length]}}), false
		default:
			part.add(pattern[:length])
		}
		pattern = pattern[max(length, 1):]
	}
	if follows {
		parts = append(parts, nil)
	}
	last := len(parts) - 1
	if last == 0 {
		return glob{start: parts[0]}
	}
	return glob{start: parts[0], between: parts[1:last], end: parts[last], stretches: true}
}

// textLength returns the length of the text in front of the first wildcard.
func textLength(pattern string) int {
	for i := range len(pattern) {
		if pattern[i] == anyText || pattern[i] == anyCharacter {
			return i
		}
	}
	return len(pattern)
}

// skip appends the wildcard of one character.
func (p *globPart) skip() {
	if last := len(*p) - 1; last >= 0 && (*p)[last].text == "" {
		(*p)[last].skipped++
		return
	}
	*p = append(*p, globPiece{skipped: 1})
}

// add appends a text.
func (p *globPart) add(text string) {
	if last := len(*p) - 1; last >= 0 && (*p)[last].text == "" {
		(*p)[last].text = text
		return
	}
	*p = append(*p, globPiece{text: text})
}

// matches reports whether the pattern matches all of value.
func (g *glob) matches(value string) bool {
	value, ok := g.start.cut(value)
	if !ok || !g.stretches {
		return ok && value == ""
	}
	if value, ok = g.end.cutEnd(value); !ok {
		return false
	}
	for _, part := range g.between {
		if value, ok = part.find(value); !ok {
			return false
		}
	}
	return true
}

// cut removes the part from the beginning of value.
func (p globPart) cut(value string) (rest string, ok bool) {
	for i := range p {
		for range p[i].skipped {
			if value == "" {
				return "", false
			}
			_, size := utf8.DecodeRuneInString(value) // 1 where value is not UTF-8
			value = value[size:]
		}
		if value, ok = strings.CutPrefix(value, p[i].text); !ok {
			return "", false
		}
	}
	return value, true
}

// cutEnd removes the part from the end of value.
func (p globPart) cutEnd(value string) (rest string, ok bool) {
	for i := len(p) - 1; i >= 0; i-- {
		if value, ok = strings.CutSuffix(value, p[i].text); !ok {
			return "", false
		}
		for range p[i].skipped {
			if value == "" {
				return "", false
			}
			_, size := utf8.DecodeLastRuneInString(value)
			value = value[:len(value)-size]
		}
	}
	return value, true
}

// find removes the beginning of value up to the end of the first place of the part, which
// begins with text. A text is found at whole characters only, because its first byte is
// never inside one.
func (p globPart) find(value string) (rest string, ok bool) {
	first := p[0].text
	for {
		at := strings.Index(value, first)
		if at < 0 {
			return "", false
		}
		if rest, ok = p[1:].cut(value[at+len(first):]); ok {
			return rest, true
		}
		value = value[at+1:]
	}
}

// mayMatchHash reports whether all texts of the pattern may be parts of a hashed value.
func (g *glob) mayMatchHash() bool {
	length := 0
	for _, part := range slices.Concat([]globPart{g.start}, g.between, []globPart{g.end}) {
		for _, piece := range part {
			length += piece.skipped + len(piece.text)
			if strings.Trim(piece.text, "0123456789abcdef") != "" {
				return false
			}
		}
	}
	return length == hashLength || g.stretches && length < hashLength
}
