package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// unit is a suffix of a number in a rule file.
type unit struct {
	name   string
	factor int64
	means  string // for hints; "" if the name is clear
}

// units are the units of one kind of number.
type units struct {
	list []unit
	// others are spellings that rule files do not accept, in lower case, with their
	// factors, for suggestions.
	others map[string]int64
	// name follows a number without a unit in hints: " seconds"; "" for hits.
	name string
}

// The units of spans of time, in seconds, and of numbers of hits. Tables, parameters
// and protocols have no units.
var (
	spanUnits = units{[]unit{{"s", 1, ""}, {"m", 60, ""}, {"h", 3600, ""}}, map[string]int64{
		"sec": 1, "secs": 1, "second": 1, "seconds": 1,
		"min": 60, "mins": 60, "minute": 60, "minutes": 60,
		"hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600,
		"d": Day, "day": Day, "days": Day, "w": 7 * Day, "week": 7 * Day, "weeks": 7 * Day,
	}, " seconds"}
	countUnits = units{[]unit{{"k", 1000, "1000"}, {"M", 1_000_000, "1000000"}}, map[string]int64{
		"mio": 1_000_000, "million": 1_000_000, "g": 1_000_000_000, "b": 1_000_000_000,
	}, ""}
)

// quantity reads a whole number that may have one of the units and underscores between
// its digits, such as 90, 24h, 10k or 5_000. The name names the number in
// findings. It returns 0 for a value that it reports, and for an empty one.
func (p *parser) quantity(name string, value span, units *units, least, most int64) int64 {
	text := value.text()
	if text == "" {
		return 0
	}
	number, factor := units.cut(text)
	digits, ok := plainDigits(number)
	if !ok {
		p.reportQuantity(name, value, units, most)
		return 0
	}
	n, ok := parseInteger(digits)
	if !ok || n < 0 || n > most/factor || n*factor < least {
		p.reportf(value, errRange, fmt.Sprintf("want %d … %d%s", least, most, units.name), "%s=%s is out of range", name, value.mention())
		return 0
	}
	return n * factor
}

// quantities returns the bounds of a range that are written as the hits of a threshold: at
// least one has a unit or an underscore.
func quantities(left, right string) (low, high int64, ok bool) {
	low, isLow := parseHits(left)
	high, isHigh := parseHits(right)
	return low, high, isLow && isHigh && low <= high
}

// parseHits reads a number of hits with or without a unit.
func parseHits(text string) (int64, bool) {
	number, factor := countUnits.cut(text)
	digits, ok := plainDigits(number)
	n, fits := parseInteger(digits)
	return n * factor, ok && fits && n >= 0 && n <= maxExact/factor
}

// cut returns the text before a unit at its end, and the factor of the unit, 1 without one.
func (u *units) cut(text string) (number string, factor int64) {
	for _, one := range u.list {
		if before, found := strings.CutSuffix(text, one.name); found {
			return before, one.factor
		}
	}
	return text, 1
}

// plainDigits returns an integer without the underscores between its digits. It
// returns false for any other text.
func plainDigits(text string) (string, bool) {
	if strings.IndexByte(text, '_') < 0 { // the usual case
		return text, hasIntegerForm(text)
	}
	for group := range strings.SplitSeq(strings.TrimPrefix(text, "-"), "_") {
		if group == "" || group[0] == '-' || !hasIntegerForm(group) {
			return "", false
		}
	}
	return strings.ReplaceAll(text, "_", ""), true
}

// reportQuantity reports a value that is not a number with a unit.
func (p *parser) reportQuantity(name string, value span, units *units, most int64) {
	text := value.text()
	f := Finding{
		Message:    fmt.Sprintf("%s=%s is not a whole number", name, value.mention()),
		Hint:       "want digits, optionally followed by " + unitList(units),
		Suggestion: likelyQuantity(text, units, most),
	}
	_, suffix := cutDigits(text)
	switch {
	case halfWidthHint(text, "") != "":
		f.Hint = "want digits only; " + halfWidthHint(text, "")
	case f.Suggestion == "" && strings.ContainsAny(text, ",="):
		f.Hint = "want digits only; put a ; before the next word"
	case suffix != text && isLetters(suffix) && !slices.ContainsFunc(units.list, func(u unit) bool { return u.name == suffix }):
		f.Message, f.Hint = fmt.Sprintf("unknown unit %q in %s=%s", suffix, name, value.mention()), "want "+unitList(units)
	case strings.Contains(text, "_"):
		f.Message, f.Hint = fmt.Sprintf("misplaced underscore in %s=%s", name, value.mention()), "want underscores between digits only"
	}
	p.found.add(errNumber, value, f)
}

// unitList returns units as a list for hints: `k (1000) or M (1000000)`.
func unitList(units *units) string {
	list := make([]string, len(units.list))
	for i, u := range units.list {
		list[i] = u.name
		if u.means != "" {
			list[i] += " (" + u.means + ")"
		}
	}
	return oneOf(list)
}

// cutDigits cuts a text after its leading digits and underscores.
func cutDigits(text string) (digits, rest string) {
	rest = strings.TrimLeft(text, "0123456789_")
	return text[:len(text)-len(rest)], rest
}

func isLetters(text string) bool {
	for i := range len(text) {
		if lower := text[i] | 0x20; lower < 'a' || lower > 'z' {
			return false
		}
	}
	return text != ""
}

// likelyQuantity returns the number that was probably meant by an invalid one: 24h by
// 1d, 90m by 1h30m, 1500 by 1.5k. It returns "" if there is none up to most.
func likelyQuantity(text string, units *units, most int64) string {
	if len(text) > 32 { // bounds the sum as well
		return ""
	}
	most = min(most, maxExact)
	total, last := int64(0), int64(0) // last is the factor of the last unit, 0 without one
	for rest := ungroup(text); rest != ""; {
		end := len(rest) - len(strings.TrimLeft(rest, "0123456789_."))
		thousandths, ok := parseThousandths(strings.ReplaceAll(rest[:end], "_", ""))
		rest = strings.TrimSpace(rest[end:])
		word := rest[:len(rest)-len(strings.TrimLeft(rest, letters))]
		rest = strings.TrimSpace(rest[len(word):])
		factor, known := likelyFactor(word, units)
		if !ok || !known || thousandths > most*1000/factor || thousandths*factor%1000 != 0 {
			return ""
		}
		total, last = total+thousandths*factor/1000, factor
		if word == "" {
			last = 0
		}
	}
	if total <= 0 || total > most {
		return ""
	}
	return spellQuantity(total, last, units)
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// spellQuantity returns a number with the unit of the factor, or with the largest one, as
// long as it has no remainder. A factor of 0 is no unit.
func spellQuantity(n, factor int64, units *units) string {
	best := unit{}
	for _, u := range units.list {
		if factor > 0 && best.factor != factor && n%u.factor == 0 {
			best = u
		}
	}
	return strconv.FormatInt(n/max(best.factor, 1), 10) + best.name
}

// likelyFactor returns the factor of a unit that is misspelled, 1 for no unit.
func likelyFactor(word string, units *units) (int64, bool) {
	if word == "" {
		return 1, true
	}
	for _, u := range units.list {
		if strings.EqualFold(word, u.name) {
			return u.factor, true
		}
	}
	factor, known := units.others[strings.ToLower(word)]
	return factor, known
}

// ungroup removes the separators of a number whose digits are in groups of three, as in
// 10,000.
func ungroup(text string) string {
	for _, separator := range []string{",", "'", " "} {
		groups := strings.Split(text, separator)
		ok := len(groups) > 1
		for i, group := range groups {
			digits, rest := cutDigits(group)
			ok = ok && (i == 0 && rest == "" && len(digits) <= 3 || i > 0 && len(digits) == 3 && (rest == "" || i == len(groups)-1))
		}
		if ok {
			return strings.Join(groups, "")
		}
	}
	return text
}

// parseThousandths reads a decimal number with at most two decimals, because a third
// one may be a group of digits.
func parseThousandths(text string) (int64, bool) {
	whole, decimals, _ := strings.Cut(text, ".")
	if len(whole) == 0 || len(whole) > 12 || len(decimals) > 2 || strings.Contains(decimals, ".") {
		return 0, false
	}
	return parseInteger(whole + (decimals + "000")[:3])
}
