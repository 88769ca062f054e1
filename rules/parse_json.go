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
	jsonString                 // text
	jsonNumber
	jsonObject
	jsonArray
)

// member is a member of a JSON object with its spans in the line, which
// encoding/json does not report. It also accepts duplicate keys.
type member struct {
	name  string
	at    span // the key
	kind  jsonKind
	value span
	text  string // of a string, decoded
}

// jsonScanner reads the members of one JSON object. It does not look inside their
// values, which encoding/json checks as a whole.
type jsonScanner struct {
	*parser
	object span
	at     int
}

// object reads the members of a JSON object.
func (p *parser) object(s span) ([]member, bool) {
	j := &jsonScanner{parser: p, object: s}
	if !j.take('{') {
		return nil, j.report("want a JSON object on one line, N : {…}", "missing {")
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
				return nil, j.report("remove the comma before it", "missing field")
			}
		case j.take('}'):
			return list, j.end()
		case j.at == len(s.text()): // take has skipped the blanks
			return nil, j.notClosed()
		default:
			return nil, j.report("want a comma or }", "missing comma")
		}
	}
}

// notClosed reports an object without its closing brace on the line.
func (j *jsonScanner) notClosed() bool {
	return j.report("write the whole entry on one line, including its }", "the object is not closed")
}

// skip skips blanks.
func (j *jsonScanner) skip() {
	for j.at < len(j.object.text()) && isBlank(j.object.text()[j.at]) {
		j.at++
	}
}

// take skips a character if it is next, and reports whether it was.
func (j *jsonScanner) take(c byte) bool {
	j.skip()
	if text := j.object.text(); j.at == len(text) || text[j.at] != c {
		return false
	}
	j.at++
	return true
}

func (j *jsonScanner) report(hint, message string) bool {
	j.skip()
	rest := j.object.tail(j.at)
	j.reportf(rest, errJSON, cmp.Or(halfWidthHint(firstRune(rest.text()), ""), hint), "%s", message)
	return false
}

func (j *jsonScanner) end() bool {
	j.skip()
	return j.at == len(j.object.text()) || j.report("remove it", "text after the object")
}

// member reads `"key": value`.
func (j *jsonScanner) member() (m member, ok bool) {
	j.skip()
	m.at, ok = j.value()
	if !ok || kindOf(m.at) != jsonString {
		if ok {
			j.at = m.at.from - j.object.from
			j.report(`want a name in double quotes, such as "Err_no"`, "missing field name")
		}
		return m, false
	}
	if m.name, ok = j.decode(m.at); !ok {
		return m, false
	}
	if !j.take(':') {
		return m, j.report("want a colon after the field name", "missing colon")
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
		return m, j.report(cmp.Or(halfWidthHint(m.value.text(), ""), "want a number, or text in quotes"), "invalid JSON value")
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

// decode returns the text of a JSON string.
func (j *jsonScanner) decode(s span) (text string, ok bool) {
	if err := json.Unmarshal([]byte(s.text()), &text); err != nil {
		j.reportf(s, errJSON, `want one of the escapes \" \\ \/ \b \f \n \r \t \uXXXX`, "invalid JSON string")
		return "", false
	}
	return text, true
}

// value skips a value, which ends where its brackets and quotes are closed.
func (j *jsonScanner) value() (span, bool) {
	text, start, depth := j.object.text(), j.at, 0
	for ; j.at < len(text); j.at++ {
		switch b := text[j.at]; {
		case b == '"':
			end := closingQuote(text, j.at)
			if end < 0 {
				return span{}, j.report(`close it with "`, "the quote is not closed")
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
				return span{}, j.report("write a value", "missing value")
			}
			return j.object.slice(start, j.at), true
		}
	}
	if depth > 0 {
		j.at = start
		return span{}, j.report("close it on the same line", "the value is not closed")
	}
	return j.object.slice(start, j.at), j.at > start || j.report("write a value", "missing value")
}
