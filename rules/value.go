package rules

import (
	"math"
	"net/netip"
	"slices"
	"sort"
	"strings"
)

// hasIntegerForm reports whether text matches `-?[0-9]+`.
func hasIntegerForm(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return digits != ""
}

// parseInteger reads a 64-bit integer. Unlike strconv.ParseInt it does not allocate
// for invalid text.
func parseInteger(text string) (int64, bool) {
	if !hasIntegerForm(text) {
		return 0, false
	}
	negative, limit := false, uint64(math.MaxInt64)
	if text[0] == '-' {
		negative, limit, text = true, limit+1, text[1:]
	}
	var n uint64
	for i := range len(text) {
		digit := uint64(text[i] - '0')
		if n > (limit-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	if negative {
		return -int64(n), true // -2^63 wraps to itself
	}
	return int64(n), true
}

// maxAddress is the length of the longest spelling of an address:
// `ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255`.
const maxAddress = 45

// parseAddress reads an IPv4 or IPv6 address. It returns an IPv4 address mapped into
// IPv6 as the IPv4 address. Addresses with a zone (`fe80::1%eth0`) are not accepted,
// because they have a meaning on one machine only.
func parseAddress(text string) (netip.Addr, bool) {
	if !hasAddressForm(text) {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// hasAddressForm reports whether text may be an address. It is a fast filter, because
// netip allocates for invalid text, and most values are not addresses.
func hasAddressForm[T string | []byte](text T) bool {
	if len(text) < 2 || len(text) > maxAddress {
		return false
	}
	dots, colons := 0, 0
	for i := range len(text) {
		switch b := text[i]; {
		case '0' <= b && b <= '9':
		case 'a' <= b && b <= 'f', 'A' <= b && b <= 'F':
		case b == '.':
			dots++
		case b == ':':
			colons++
		default:
			return false
		}
	}
	return colons >= 2 || colons == 0 && dots == 3
}

// interval is a range that includes both ends.
type interval[T any] struct{ low, high T }

// merge sorts intervals and joins overlapping ones, as contains requires.
func merge[T any](list []interval[T], compare func(a, b T) int) []interval[T] {
	if len(list) < 2 {
		return list
	}
	slices.SortFunc(list, func(a, b interval[T]) int { return compare(a.low, b.low) })
	merged := list[:0]
	for _, i := range list {
		if last := len(merged) - 1; last >= 0 && compare(i.low, merged[last].high) <= 0 {
			if compare(i.high, merged[last].high) > 0 {
				merged[last].high = i.high
			}
			continue
		}
		merged = append(merged, i)
	}
	return slices.Clip(merged)
}

// contains reports whether v is in one of the merged intervals.
func contains[T any](list []interval[T], v T, compare func(a, b T) int) bool {
	return encloses(list, interval[T]{v, v}, compare)
}

// encloses reports whether one of the merged intervals contains all of inner.
func encloses[T any](list []interval[T], inner interval[T], compare func(a, b T) int) bool {
	i := sort.Search(len(list), func(i int) bool { return compare(list[i].high, inner.high) >= 0 })
	return i < len(list) && compare(list[i].low, inner.low) <= 0
}

// hashLength is the length of a hashed value: the first digits of a SHA-256 in hex.
const hashLength = 32

// hasHashForm reports whether text has the form of a hashed value.
func hasHashForm[T string | []byte](text T) bool {
	if len(text) != hashLength {
		return false
	}
	for i := range len(text) {
		if b := text[i]; (b < '0' || b > '9') && (b < 'a' || b > 'f') {
			return false
		}
	}
	return true
}

// quoter escapes the text of a quoted value.
var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// unquoter undoes it.
var unquoter = strings.NewReplacer(`\\`, `\`, `\"`, `"`)
