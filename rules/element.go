package rules

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"go4.org/netipx"
)

// elementKind is what one value of a condition's list is.
type elementKind uint8

const (
	wordElement    elementKind = iota
	quotedElement              // compared as text, always
	integerElement             // text among single values, an integer in a list of ranges
	addressElement
	integerRange
	addressRange // a block, too
	patternElement
)

// ranged tells whether the element makes its list one of ranges.
func (k elementKind) ranged() bool { return k >= integerRange }

// element is one value of a condition's list.
type element struct {
	kind     elementKind
	text     string // what a word, a quoted value or an integer compares as
	low      int64
	high     int64
	from, to netip.Addr
	pattern  pattern
}

// pattern is an IPv4 address in which some octets may be anything.
type pattern struct{ value, mask uint32 }

func (p pattern) matches(a netip.Addr) bool {
	return a.Is4() && ipv4(a)&p.mask == p.value
}

func ipv4(a netip.Addr) uint32 {
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// slip is what is wrong with an element, or looks so.
type slip struct {
	code    *Code
	message string
	hint    string
}

// classify tells what an unquoted value is. It returns a slip of an error, in
// which case the element is worth nothing, or of a warning, or nil.
func classify(text string) (element, *slip) {
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
			return element{text: text}, &slip{
				warnLooksLike, fmt.Sprintf("%q is taken as a word", text),
				"a range of addresses has an address on both sides; quote it if it is a word",
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

func classifyIntegers(text, left, right string) (element, *slip) {
	low, ok := parseInteger(left)
	if !ok {
		return element{}, beyond64(left)
	}
	high, ok := parseInteger(right)
	if !ok {
		return element{}, beyond64(right)
	}
	if low > high {
		return element{}, &slip{errReversed, fmt.Sprintf("the range %s is reversed", text), fmt.Sprintf("write %d-%d, or quote it if it is a word", high, low)}
	}
	var short [2*len("-9223372036854775808") + 1]byte
	spelling := strconv.AppendInt(append(strconv.AppendInt(short[:0], low, 10), '-'), high, 10)
	return element{kind: integerRange, text: same(text, spelling), low: low, high: high}, nil
}

func beyond64(text string) *slip {
	return &slip{errInteger, text + " is beyond 64 bits", "integers are compared from -9223372036854775808 to 9223372036854775807"}
}

// addressLike tells whether text is meant as an address: it is one, or has the
// four parts of an IPv4 address or pattern.
func addressLike(text string) bool {
	if _, ok := parseAddress(text); ok {
		return true
	}
	return strings.Count(text, ".") == 3 && onlyOctets(text) && !strings.HasPrefix(text, ".") && !strings.HasSuffix(text, ".") && !strings.Contains(text, "..")
}

// onlyOctets tells whether text consists of digits, stars and at least one dot.
func onlyOctets(text string) bool {
	return strings.Contains(text, ".") && strings.Trim(text, "0123456789.*") == ""
}

func classifyAddress(text string) (element, *slip) {
	if a, ok := parseAddress(text); ok {
		var short [maxAddress]byte
		return element{kind: addressElement, text: same(text, a.AppendTo(short[:0])), from: a, to: a}, nil
	}
	_, _, p, s := octets(text)
	return element{kind: patternElement, text: text, pattern: p}, s
}

// octets reads an IPv4 pattern: the least and the greatest address that a `*`
// leaves open, and the pattern itself.
func octets(text string) (low, high netip.Addr, p pattern, s *slip) {
	var from, to, mask [4]byte
	for i, part := range strings.SplitN(text, ".", 4) {
		if part == "*" {
			to[i] = 255
			continue
		}
		n, err := strconv.ParseUint(part, 10, 8)
		switch {
		case strings.Contains(part, "*"):
			return low, high, p, &slip{errAddress, fmt.Sprintf("%q is no octet", part), "a * stands for a whole octet, as in 10.*.24.*"}
		case err != nil:
			return low, high, p, &slip{errAddress, fmt.Sprintf("the octet %s is above 255", part), "want four numbers from 0 to 255"}
		case len(part) > 1 && part[0] == '0':
			return low, high, p, &slip{errAddress, fmt.Sprintf("the octet %s has a leading zero", part), fmt.Sprintf("write %d: some programs read it as octal", n)}
		}
		from[i], to[i], mask[i] = byte(n), byte(n), 255
	}
	low, high = netip.AddrFrom4(from), netip.AddrFrom4(to)
	return low, high, pattern{ipv4(low), ipv4(netip.AddrFrom4(mask))}, nil
}

func classifyAddresses(text, left, right string) (element, *slip) {
	from, s := bound(left, false)
	if s != nil {
		return element{}, s
	}
	to, s := bound(right, true)
	if s != nil {
		return element{}, s
	}
	switch {
	case from.Is4() != to.Is4():
		return element{}, &slip{errAddress, fmt.Sprintf("the range %s goes from one family of addresses to the other", text), "want IPv4 or IPv6 on both sides"}
	case from.Compare(to) > 0:
		return element{}, &slip{errReversed, fmt.Sprintf("the range %s is reversed", text), fmt.Sprintf("write %s-%s", right, left)}
	}
	return element{kind: addressRange, text: left + "-" + right, from: from, to: to}, nil
}

// bound is the end of a range: a `*` is 0 below and 255 above.
func bound(text string, above bool) (netip.Addr, *slip) {
	if a, ok := parseAddress(text); ok {
		return a, nil
	}
	low, high, _, s := octets(text)
	if above {
		return high, s
	}
	return low, s
}

func classifyBlock(text string) (element, *slip) {
	prefix, err := parseBlock(text)
	if err != nil {
		return element{}, &slip{errAddress, fmt.Sprintf("%q is not a block of addresses", text), "want an address and the length of its prefix, as in 10.0.0.0/8 or 2001:db8::/32"}
	}
	var warning *slip
	if prefix != prefix.Masked() {
		warning = &slip{warnHostBits, fmt.Sprintf("the block of %s is %s", text, prefix.Masked()), "write that, or another prefix if fewer addresses are meant"}
	}
	all := netipx.RangeOfPrefix(prefix.Masked())
	var short [maxAddress + len("/128")]byte
	return element{kind: addressRange, text: same(text, prefix.AppendTo(short[:0])), from: all.From(), to: all.To()}, warning
}

// parseBlock reads a CIDR block. One of IPv4 addresses mapped into IPv6 is the
// IPv4 block.
func parseBlock(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, err
	}
	if a := prefix.Addr(); a.Is4In6() {
		const mapped = 128 - 32
		if prefix.Bits() < mapped {
			return prefix, fmt.Errorf("%s holds more than the addresses of IPv4", text)
		}
		return netip.PrefixFrom(a.Unmap(), prefix.Bits()-mapped), nil
	}
	return prefix, nil
}

// isDotted tells whether text is integers with several dots between, as other
// languages write a range.
func isDotted(text string) bool {
	left, right, found := strings.Cut(text, "..")
	return found && hasIntegerForm(left) && hasIntegerForm(strings.TrimLeft(right, ".="))
}

// oddWord is what makes a word look like a slip.
func oddWord(text string) *slip {
	switch {
	case strings.Contains(text, "*"):
		return &slip{warnLooksLike, fmt.Sprintf("%q is taken as a word", text), "a * stands for an octet of an IPv4 address only, and + for any value; quote it if it is a word"}
	case strings.Contains(text, "；"):
		return &slip{warnLooksLike, fmt.Sprintf("%q is taken as a word", text), halfWidthHint(text, ";") + " before another condition, or quote it"}
	case strings.Contains(text, "="):
		return &slip{warnLooksLike, fmt.Sprintf("%q is taken as a word", text), "put a ; before it if it is another condition, or quote it"}
	case strings.HasPrefix(text, "'") && strings.HasSuffix(text, "'") || strings.ContainsAny(text, "“”‘’"):
		return &slip{warnLooksLike, fmt.Sprintf("the quotes of %s are taken as part of the word", text), `quotes are "; without blanks or punctuation a word needs none`}
	case strings.ContainsAny(text[:1], "<>"):
		return &slip{warnLooksLike, fmt.Sprintf("%q is taken as a word", text), "only < and > compare: in place of n>=5 write n>4, of n<=5 n<6; quote it if it is a word"}
	case text[0] == '~':
		return &slip{warnLooksLike, fmt.Sprintf("%q is taken as a word", text), "there are no regular expressions; quote it if it is a word"}
	case isDotted(text):
		return &slip{warnLooksLike, fmt.Sprintf("%q is taken as a word", text), "a range is written with a hyphen, as 1-100; quote it if it is a word"}
	case strings.ContainsAny(text, "，；：【】＝＋！"):
		return &slip{warnLooksLike, fmt.Sprintf("%q holds full-width punctuation, which is taken as part of the word", text), "write it half-width, or quote the word"}
	}
	return nil
}
