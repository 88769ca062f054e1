package rules

import (
	"cmp"
	"encoding/json"
	"strings"
)

// jsonKind is the kind of a JSON value.
type jsonKind uint8

const (
	jsonOther  jsonKind = iota // true, false, null
	jsonString                 // a text
	jsonNumber
	jsonObject
	jsonArray
)

// member is a member of a JSON object, with its places in the line. The
// standard library knows no places, and takes a key that stands twice.
type member struct {
	name  string
	at    span // the key
	kind  jsonKind
	value span
	text  string // a text, decoded
}

// jsonScanner goes through one JSON object. It looks at its members alone:
// what they hold is checked as a whole.
type jsonScanner struct {
	*parser
	object span
	at     int
}

// object reads the members of a JSON object.
func (p *parser) object(s span) ([]member, bool) {
	j := &jsonScanner{parser: p, object: s}
	if !j.take('{') {
		return nil, j.fault("an entry is a JSON object on one line: N : {…}", "want a {")
	}
	var list []member
	if j.take('}') {
		return list, j.end()
	}
	for {
		if j.skip(); j.at == len(s.text()) {
			return nil, j.notClosed()
		}
		m, ok := j.member()
		if !ok {
			return nil, false
		}
		list = append(list, m)
		switch {
		case j.take(','):
			if j.skip(); strings.HasPrefix(s.text()[j.at:], "}") {
				return nil, j.fault("take the comma before it out", "a field is missing")
			}
		case j.take('}'):
			return list, j.end()
		case j.at == len(s.text()): // take passed over the blanks
			return nil, j.notClosed()
		default:
			return nil, j.fault("want a comma or a }", "a comma is missing")
		}
	}
}

// notClosed reports an object that goes on behind the end of the line, or
// nowhere.
func (j *jsonScanner) notClosed() bool {
	return j.fault("write all of the entry on one line, up to its }", "the object is not closed")
}

// skip passes over blanks.
func (j *jsonScanner) skip() {
	for j.at < len(j.object.text()) && isBlank(j.object.text()[j.at]) {
		j.at++
	}
}

// take passes over a sign, if it is next.
func (j *jsonScanner) take(sign byte) bool {
	j.skip()
	if text := j.object.text(); j.at == len(text) || text[j.at] != sign {
		return false
	}
	j.at++
	return true
}

func (j *jsonScanner) fault(hint, message string) bool {
	j.skip()
	rest := j.object.tail(j.at)
	j.reportf(rest, errJSON, cmp.Or(halfWidthHint(firstRune(rest.text()), ""), hint), "%s", message)
	return false
}

func (j *jsonScanner) end() bool {
	j.skip()
	return j.at == len(j.object.text()) || j.fault("take it out", "text behind the object")
}

// member reads `"key": value`.
func (j *jsonScanner) member() (m member, ok bool) {
	j.skip()
	m.at, ok = j.value()
	if !ok || kindOf(m.at) != jsonString {
		if ok {
			j.at = m.at.from - j.object.from
			j.fault(`write it between double quotes, as "Err_no"`, "the name of a field is missing")
		}
		return m, false
	}
	if m.name, ok = j.decode(m.at); !ok {
		return m, false
	}
	if !j.take(':') {
		return m, j.fault("want a colon behind the name of a field", "a colon is missing")
	}
	j.skip()
	if m.value, ok = j.value(); !ok {
		return m, false
	}
	m.kind = kindOf(m.value)
	if m.kind == jsonString {
		m.text, ok = j.decode(m.value)
		return m, ok
	}
	if m.kind != jsonObject && !json.Valid([]byte(m.value.text())) {
		j.at = m.value.from - j.object.from
		return m, j.fault(cmp.Or(halfWidthHint(m.value.text(), ""), "want a number, or text between quotes"), "this is no JSON value")
	}
	return m, true
}

func kindOf(value span) jsonKind {
	switch b := value.text()[0]; {
	case b == '"':
		return jsonString
	case b == '{':
		return jsonObject
	case b == '[':
		return jsonArray
	case b == '-' || '0' <= b && b <= '9':
		return jsonNumber
	}
	return jsonOther
}

// decode is the text that a JSON string stands for.
func (j *jsonScanner) decode(s span) (text string, ok bool) {
	if err := json.Unmarshal([]byte(s.text()), &text); err != nil {
		j.reportf(s, errJSON, `inside quotes \ begins one of \" \\ \/ \b \f \n \r \t \uXXXX`, "the text cannot be read")
		return "", false
	}
	return text, true
}

// value passes over a value: it ends where its brackets and quotes are closed.
func (j *jsonScanner) value() (span, bool) {
	text, start, depth := j.object.text(), j.at, 0
	for ; j.at < len(text); j.at++ {
		switch b := text[j.at]; {
		case b == '"':
			end := closingQuote(text, j.at)
			if end < 0 {
				return span{}, j.fault(`close it with a "`, "the quote is not closed")
			}
			j.at = end
			if depth == 0 && text[start] == '"' {
				j.at++
				return j.object.slice(start, j.at), true
			}
		case b == '{' || b == '[':
			depth++
		case depth > 0 && (b == '}' || b == ']'):
			if depth--; depth == 0 {
				j.at++
				return j.object.slice(start, j.at), true
			}
		case depth == 0 && strings.IndexByte(",:}] \t", b) >= 0:
			if j.at == start {
				return span{}, j.fault("write one", "a value is missing")
			}
			return j.object.slice(start, j.at), true
		}
	}
	if depth > 0 {
		j.at = start
		return span{}, j.fault("close it on the same line", "the value is not closed")
	}
	return j.object.slice(start, j.at), j.at > start || j.fault("write one", "a value is missing")
}
