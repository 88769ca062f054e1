package tokens

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/koalagate/koalagate/rules"
)

// claim returns the value of a claim within the member that its path begins with; "" if it has
// none, or a form that parameters do not have.
func claim(value jsontext.Value, c *rules.Claim) string {
	for _, name := range c.Path[1:] {
		var inner jsontext.Value
		err := members(value, func(member string, v jsontext.Value) error {
			if member == name {
				inner = v.Clone()
			}
			return nil
		})
		if err != nil || inner == nil {
			return ""
		}
		value = inner
	}
	if c.Has == "" {
		return plain(value)
	}
	if hasWord(value, c.Has) {
		return "yes"
	}
	return ""
}

// plain returns a text as it is, a whole number in digits, and true or false.
func plain(value jsontext.Value) (s string) {
	switch value.Kind() {
	case '"':
		if text(value, &s) != nil {
			return ""
		}
	case 't', 'f':
		s = string(value)
	case '0':
		if strings.ContainsAny(string(value), ".eE") {
			return ""
		}
		s = string(value)
	}
	return s
}

// hasWord reports whether a value is a list with the text word, or a text with that word
// between blanks.
func hasWord(value jsontext.Value, word string) bool {
	if value.Kind() == '"' {
		var s string
		return text(value, &s) == nil && slices.Contains(strings.FieldsFunc(s, isBlank), word)
	}
	found := false
	err := elements(value, func(s string) { found = found || s == word })
	return err == nil && found
}

// isBlank reports whether a character separates words. Blanks of other scripts do not, because
// programs that read a scope (RFC 6749, section 3.3) take them for parts of words.
func isBlank(r rune) bool { return r == ' ' || r == '\t' }

// isFor reports whether a value is one of the audiences, or a list of texts with one of them.
func isFor(value jsontext.Value, audiences []string) bool {
	var s string
	if text(value, &s) == nil {
		return slices.Contains(audiences, s)
	}
	found := false
	err := values(value, func(one jsontext.Value) error {
		err := text(one, &s)
		found = found || err == nil && slices.Contains(audiences, s)
		return err
	})
	return err == nil && found
}

// elements calls visit for each text of a list.
func elements(list jsontext.Value, visit func(string)) error {
	return values(list, func(value jsontext.Value) error {
		var s string
		if text(value, &s) == nil {
			visit(s)
		}
		return nil
	})
}

// values calls visit for each value of a list.
func values(list jsontext.Value, visit func(jsontext.Value) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(list))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '[' {
		return errForm
	}
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err == nil {
			err = visit(value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
