package rules

import (
	"fmt"
	"slices"
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
}

// The units of spans of time, in seconds, and of numbers of hits. Tables, parameters
// and protocols have no units.
var (
	spanUnits = units{[]unit{{"s", 1, ""}, {"m", 60, ""}, {"h", 3600, ""}}, map[string]int64{
		"sec": 1, "secs": 1, "second": 1, "seconds": 1,
		"min": 60, "mins": 60, "minute": 60, "minutes": 60,
		"hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600,
		"d": Day, "day": Day, "days": Day, "w": 7 * Day, "week": 7 * Day, "weeks": 7 * Day,
	}}
	countUnits = units{[]unit{{"k", 1000, "1000"}, {"M", 1_000_000, "1000000"}}, map[string]int64{
		"mio": 1_000_000, "million": 1_000_000, "g": 1_000_000_000, "b": 1_000_000_000,
	}}
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
		p.reportf(value, errRange, fmt.Sprintf("want %d … %d", least, most), "%s=%s is out of range", name, value.mention())
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
