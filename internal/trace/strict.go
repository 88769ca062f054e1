package trace

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxFault is the length of an error, which may name parts of the line.
const maxFault = 300

var errNotUTF8 = errors.New("the line is not UTF-8; want UTF-8, in which each caller keeps a value of its own")

// shortened returns an error that terminals may show, of about maxFault bytes.
func shortened(err error) error {
	text := err.Error()
	isShort := len(text) <= maxFault
	if isShort && strings.IndexFunc(text, isUnprintable) < 0 {
		return err
	}
	if !isShort {
		half := maxFault / 2
		text = strings.ToValidUTF8(text[:half], "") + " … " + strings.ToValidUTF8(text[len(text)-half:], "")
	}
	return errors.New(strings.Map(func(r rune) rune {
		if isUnprintable(r) {
			return '?'
		}
		return r
	}, text))
}

func isUnprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// keys finds what encoding/json takes silently, in the text of a valid JSON object: a key
// that occurs twice, of which only the last value would count, and an escape of half a
// character, which would become the same character as any other.
type keys struct {
	text []byte
	at   int
}

// checkKeys returns the fault of a line, or nil.
func checkKeys(text []byte) error {
	k := keys{text: text}
	return k.value()
}

// value reads a value. JSON of encoding/json has at most 10,000 levels.
func (k *keys) value() error {
	for ; k.at < len(k.text); k.at++ {
		switch k.text[k.at] {
		case '{':
			return k.object()
		case '[':
			return k.array()
		case '"':
			_, err := k.word()
			return err
		case ',', ']', '}':
			return nil // behind a number or a literal
		}
	}
	return nil
}

func (k *keys) array() error {
	for k.at++; k.at < len(k.text); {
		switch k.text[k.at] {
		case ']':
			k.at++
			return nil
		case ' ', '\t', '\r', '\n', ',':
			k.at++
		default:
			if err := k.value(); err != nil {
				return err
			}
		}
	}
	return nil
}

// few is the number of keys that are compared one by one.
const few = 32

func (k *keys) object() error {
	var memory [few]string
	list := memory[:0]
	var many map[string]bool
	for k.at++; k.at < len(k.text); {
		switch k.text[k.at] {
		case '}':
			k.at++
			return nil
		case '"':
			name, err := k.word()
			if err != nil {
				return err
			}
			if many, list, err = noted(many, list, name); err != nil {
				return err
			}
			k.at += bytes.IndexByte(k.text[k.at:], ':') + 1
			if err := k.value(); err != nil {
				return err
			}
		default:
			k.at++
		}
	}
	return nil
}

// noted adds a key to those of its object.
func noted(many map[string]bool, list []string, name string) (map[string]bool, []string, error) {
	isKnown := many[name]
	for _, other := range list {
		isKnown = isKnown || other == name
	}
	if isKnown && !strings.ContainsRune(name, utf8.RuneError) { // for which a log has names that are not UTF-8
		return nil, nil, fmt.Errorf("%q occurs twice in an object; want each name once", name)
	}
	if many == nil && len(list) < few {
		return nil, append(list, name), nil
	}
	if many == nil {
		many = make(map[string]bool)
	}
	many[name] = true
	return many, list, nil
}

// word reads a string.
func (k *keys) word() (string, error) {
	from, isEscaped := k.at+1, false
	for k.at++; k.text[k.at] != '"'; k.at++ {
		if k.text[k.at] == '\\' {
			isEscaped = true
			k.at++
		}
	}
	text := string(k.text[from:k.at])
	k.at++
	if !isEscaped {
		return text, nil
	}
	return unescaped(text)
}

// unescaped returns the text of a string with escapes.
func unescaped(text string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			b.WriteByte(text[i])
			continue
		}
		i++
		if text[i] != 'u' {
			b.WriteByte(simpleEscapes[text[i]])
			continue
		}
		r := hexRune(text[i+1:])
		i += 4
		if r >= 0xd800 && r < 0xe000 { // half a character
			low := rune(-1)
			if r < 0xdc00 && strings.HasPrefix(text[i+1:], `\u`) {
				low = hexRune(text[i+3:])
			}
			if low < 0xdc00 || low >= 0xe000 {
				return "", fmt.Errorf(`the escape \u%04x is half a character; want both halves`, r)
			}
			r = (r-0xd800)<<10 | (low - 0xdc00) + 0x10000
			i += 6
		}
		b.WriteRune(r)
	}
	return b.String(), nil
}

var simpleEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// hexRune returns the number of the four hexadecimal digits that begin a text.
func hexRune(text string) rune {
	n, err := strconv.ParseUint(text[:min(4, len(text))], 16, 16)
	if err != nil {
		return -1 // encoding/json has refused it
	}
	return rune(n)
}
