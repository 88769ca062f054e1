// Package hits reads numbers of hits from texts that gateways write: a count of tokens
// in a descriptor entry, in a header or in a line of an access log. Envoy writes large
// numbers with an exponent, so 2e+09 is a number of hits as 2000000000 is. The value is
// exact, whatever the spelling.
package hits

import (
	"errors"
	"strconv"
	"strings"
)

// Max is the largest number of hits.
const Max = 1_000_000_000_000_000

// maxDigits is the number of digits of Max.
const maxDigits = 16

// Parse returns the whole number 0 … Max that a text spells in decimal digits, with an
// optional plus sign, fraction and exponent: 600, 600.0 and 6e2 are equal. It reports
// false for other texts, including 1.5, -5 and numbers above Max. Blanks around the
// number are ignored.
func Parse(text string) (int64, bool) {
	n, ok := ParseAny(text)
	if n > Max {
		return 0, false
	}
	return n, ok
}

// ParseAny is Parse for callers that must distinguish a number above Max from no number:
// it returns Max+1 for every whole number above Max.
func ParseAny(text string) (int64, bool) {
	text = strings.TrimPrefix(strings.TrimSpace(text), "+")
	exponent := 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		var err error // beyond the range of int, exponent is the largest or the smallest one
		if exponent, err = strconv.Atoi(text[i+1:]); err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0, false
		}
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	significant := strings.TrimLeft(digits, "0")
	leading := len(digits) - len(significant)
	significant = strings.TrimRight(significant, "0")
	if significant == "" {
		return 0, true
	}
	const farthest = 1 << 30 // an exponent beyond it exceeds the length of any text
	length := len(whole) - leading + min(max(exponent, -farthest), farthest)
	if length < len(significant) {
		return 0, false
	}
	if length > maxDigits {
		return Max + 1, true
	}
	n, err := strconv.ParseInt(significant+strings.Repeat("0", length-len(significant)), 10, 64)
	return min(n, Max+1), err == nil
}
