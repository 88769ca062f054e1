package rules

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"go4.org/netipx"

	"github.com/koalagate/koalagate/internal/vocabulary"
)

// elementKind is the kind of a value in a condition's list.
type elementKind uint8

const (
	wordElement    elementKind = iota
	quotedElement              // compared as text, always
	integerElement             // a text in a list of single values, an integer in a list of ranges
	addressElement
	integerRange
	addressRange // or a block
	patternElement
)

// ranged reports whether the element makes its list a list of ranges.
func (k elementKind) ranged() bool { return k >= integerRange }

// element is one value of a condition's list.
type element struct {
	kind     elementKind
	text     string // canonical; a word, a quoted value or an integer compares as this
	low      int64
	high     int64
	from, to netip.Addr
	pattern  pattern
}

// mistake is an error in an element, or something that looks like one.
type mistake struct {
	code    *vocabulary.Code
	message string
	hint    string
}

// classify returns the element of an unquoted value. The mistake is an error, which
// makes the element invalid, or a warning, or nil.
func classify(text string) (element, *mistake) {
	if hasIntegerForm(text) {
		n, _ := parseInteger(text)
		return element{kind: integerElement, text: text, low: n, high: n}, nil
	}
	if low, high, ok := cutIntegers(text); ok {
		return classifyIntegers(text, low, high)
	}
	if left, bits, ok := strings.Cut(text, "/"); ok && (addressLike(left) || onlyOctets(left) && hasIntegerForm(bits)) {
		return classifyBlock(text)
	}
	if addressLike(text) {
		return classifyAddress(text)
	}
	if left, right, ok := strings.Cut(text, "-"); ok {
		left, right = strings.TrimSpace(left), strings.TrimSpace(right)
		switch l, r := addressLike(left), addressLike(right); {
		case l && r:
			return classifyAddresses(text, left, right)
		case l || r:
			return element{text: text}, &mistake{
				warnLooksLike, fmt.Sprintf("%q is read as a word", text),
				"want an address on both sides of a range; quote it if it is a word",
			}
		}
		if low, high, ok := quantities(left, right); ok {
			return element{text: text}, &mistake{
				warnLooksLike, fmt.Sprintf("%q is read as a word", text),
				fmt.Sprintf("only thresholds have units and underscores: write %d-%d, or quote it if it is a word", low, high),
			}
		}
	}
	return element{text: text}, oddWord(text)
}

// cutIntegers cuts `1-100` and `-5--1` at the hyphen between the integers.
func cutIntegers(text string) (low, high string, ok bool) {
	i := strings.IndexByte(strings.TrimPrefix(text, "-"), '-')
	if i < 0 {
		return "", "", false
	}
	i += len(text) - len(strings.TrimPrefix(text, "-"))
	low, high = strings.TrimSpace(text[:i]), strings.TrimSpace(text[i+1:])
	return low, high, hasIntegerForm(low) && hasIntegerForm(high)
}

func classifyIntegers(text, left, right string) (element, *mistake) {
	low, ok := parseInteger(left)
	if !ok {
		return element{}, outOfInt64(left)
	}
	high, ok := parseInteger(right)
	if !ok {
		return element{}, outOfInt64(right)
	}
	if low > high {
		return element{}, &mistake{errReversed, fmt.Sprintf("the range %s is reversed", text), fmt.Sprintf("write %d-%d, or quote it if it is a word", high, low)}
	}
	var short [2*len("-9223372036854775808") + 1]byte
	spelling := strconv.AppendInt(append(strconv.AppendInt(short[:0], low, 10), '-'), high, 10)
	return element{kind: integerRange, text: intern(text, spelling), low: low, high: high}, nil
}

func outOfInt64(text string) *mistake {
	return &mistake{errInteger, text + " is not a 64-bit integer", "want an integer from -9223372036854775808 to 9223372036854775807"}
}

// addressLike reports whether text is an address, or has the four parts of an IPv4
// address or pattern.
func addressLike(text string) bool {
	if _, ok := parseAddress(text); ok {
		return true
	}
	return strings.Count(text, ".") == 3 && onlyOctets(text) && !strings.HasPrefix(text, ".") && !strings.HasSuffix(text, ".") && !strings.Contains(text, "..")
}

// onlyOctets reports whether text consists of digits, asterisks and at least one dot.
func onlyOctets(text string) bool {
	return strings.Contains(text, ".") && strings.Trim(text, "0123456789.*") == ""
}

func classifyAddress(text string) (element, *mistake) {
	if a, ok := parseAddress(text); ok {
		var short [maxAddress]byte
		return element{kind: addressElement, text: intern(text, a.AppendTo(short[:0])), from: a, to: a}, nil
	}
	_, _, p, m := octets(text)
	return element{kind: patternElement, text: text, pattern: p}, m
}

// octets reads an IPv4 pattern. It returns the lowest and the highest address that
// match, and the pattern itself.
func octets(text string) (low, high netip.Addr, p pattern, m *mistake) {
	var from, to, mask [4]byte
	for i, part := range strings.SplitN(text, ".", 4) {
		if part == "*" {
			to[i] = 255
			continue
		}
		n, err := strconv.ParseUint(part, 10, 8)
		switch {
		case strings.Contains(part, "*"):
			return low, high, p, &mistake{errAddress, fmt.Sprintf("invalid octet %q", part), "* replaces a whole octet, as in 10.*.24.*"}
		case err != nil:
			return low, high, p, &mistake{errAddress, fmt.Sprintf("the octet %s is greater than 255", part), "want four numbers from 0 to 255"}
		case len(part) > 1 && part[0] == '0':
			return low, high, p, &mistake{errAddress, fmt.Sprintf("the octet %s has a leading zero", part), fmt.Sprintf("write %d; some programs read a leading zero as octal", n)}
		}
		from[i], to[i], mask[i] = byte(n), byte(n), 255
	}
	low, high = netip.AddrFrom4(from), netip.AddrFrom4(to)
	return low, high, pattern{ipv4(low), ipv4(netip.AddrFrom4(mask))}, nil
}

func classifyAddresses(text, left, right string) (element, *mistake) {
	from, m := bound(left, false)
	if m != nil {
		return element{}, m
	}
	to, m := bound(right, true)
	if m != nil {
		return element{}, m
	}
	switch {
	case from.Is4() != to.Is4():
		return element{}, &mistake{errAddress, fmt.Sprintf("the range %s mixes IPv4 and IPv6", text), "want two addresses of the same family"}
	case from.Compare(to) > 0:
		return element{}, &mistake{errReversed, fmt.Sprintf("the range %s is reversed", text), fmt.Sprintf("write %s-%s", right, left)}
	}
	return element{kind: addressRange, text: left + "-" + right, from: from, to: to}, nil
}

// bound returns one end of a range: a `*` is 0 in the lower end and 255 in the upper.
func bound(text string, upper bool) (netip.Addr, *mistake) {
	if a, ok := parseAddress(text); ok {
		return a, nil
	}
	low, high, _, m := octets(text)
	if upper {
		return high, m
	}
	return low, m
}

func classifyBlock(text string) (element, *mistake) {
	prefix, err := parseBlock(text)
	if err != nil {
		return element{}, &mistake{errAddress, fmt.Sprintf("%q is not a block of addresses", text), "want an address and a prefix length, as in 10.0.0.0/8 or 2001:db8::/32"}
	}
	var warning *mistake
	if prefix != prefix.Masked() {
		warning = &mistake{warnHostBits, fmt.Sprintf("%s has host bits set; the block is %s", text, prefix.Masked()), "write the block, or a longer prefix if fewer addresses are meant"}
	}
	all := netipx.RangeOfPrefix(prefix.Masked())
	var short [maxAddress + len("/128")]byte
	return element{kind: addressRange, text: intern(text, prefix.AppendTo(short[:0])), from: all.From(), to: all.To()}, warning
}

// parseBlock reads a CIDR block. It returns a block of IPv4 addresses mapped into
// IPv6 as the IPv4 block.
func parseBlock(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, err
	}
	if a := prefix.Addr(); a.Is4In6() {
		const mapped = 128 - 32
		if prefix.Bits() < mapped {
			return prefix, fmt.Errorf("%s contains addresses other than IPv4", text)
		}
		return netip.PrefixFrom(a.Unmap(), prefix.Bits()-mapped), nil
	}
	return prefix, nil
}

// isDotted reports whether text is two integers with dots between them, the range
// syntax of other languages.
func isDotted(text string) bool {
	left, right, found := strings.Cut(text, "..")
	return found && hasIntegerForm(left) && hasIntegerForm(strings.TrimLeft(right, ".="))
}

// oddWord returns the reason why a word looks like a mistake, nil if it does not. Without
// a hint, the word is probably a pattern.
func oddWord(text string) *mistake {
	switch {
	case strings.Contains(text, "*"):
		return &mistake{warnLooksLike, fmt.Sprintf("%q is read as a word", text), ""}
	case strings.Contains(text, "；"):
		return &mistake{warnLooksLike, fmt.Sprintf("%q is read as a word", text), halfWidthHint(text, ";") + " before another condition, or quote it"}
	case strings.Contains(text, "="):
		return &mistake{warnLooksLike, fmt.Sprintf("%q is read as a word", text), "put a ; before it if it is another condition, or quote it"}
	case strings.HasPrefix(text, "'") && strings.HasSuffix(text, "'") || strings.ContainsAny(text, "“”‘’"):
		return &mistake{warnLooksLike, fmt.Sprintf("the quotes of %s are read as part of the word", text), `quote with "; a word without blanks or punctuation needs no quotes`}
	case strings.ContainsAny(text[:1], "<>"):
		return &mistake{warnLooksLike, fmt.Sprintf("%q is read as a word", text), "write n>4 instead of n>=5, and n<6 instead of n<=5; quote it if it is a word"}
	case text[0] == '@':
		return &mistake{warnLooksLike, fmt.Sprintf("%q is read as a word", text), "write name @ list or name !@ list, without =, for a word list; quote it if it is a word"}
	case text[0] == '~':
		return &mistake{warnLooksLike, fmt.Sprintf("%q is read as a word", text), "write name ~ pattern or name !~ pattern, without =; quote it if it is a word"}
	case isDotted(text):
		return &mistake{warnLooksLike, fmt.Sprintf("%q is read as a word", text), "write a range with a hyphen, as 1-100; quote it if it is a word"}
	case strings.ContainsAny(text, "，；：【】＝＋！"):
		return &mistake{warnLooksLike, fmt.Sprintf("the full-width punctuation of %q is read as part of the word", text), "write it half-width, or quote the word"}
	}
	return nil
}
