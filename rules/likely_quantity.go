package rules

import (
	"strconv"
	"strings"
)

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
