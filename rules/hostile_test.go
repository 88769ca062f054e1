package rules

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/vocabulary"
)

var long = flag.Bool("long", false, "parse a million rules instead of 100,000")

// utf16 returns text as Windows saves it, without a byte order mark.
func utf16(text string) string {
	var b strings.Builder
	for _, r := range text {
		b.WriteByte(byte(r))
		b.WriteByte(byte(r >> 8))
	}
	return b.String()
}

const (
	goodRules = "[rules]\nrule : [count] [act=ask] [time=60; count=5] [result=2; return=1]\n"
	hundredMB = 100 << 20
)

// TestOtherFilesAreRejectedWithPosition parses the files that editors,
// shells and accidents produce. Each is rejected with a code and a position that
// explain why, in time and memory linear in its length.
func TestOtherFilesAreRejectedWithPosition(t *testing.T) {
	for _, c := range []struct {
		name, text string
		code       *vocabulary.Code
		at, says   string
	}{
		{"nothing", "", errSectionMissing, "1:1", "missing"},
		{"UTF-16, little end first", "\xff\xfe" + utf16(goodRules+entries), errEncoding, "1:1", "the file is UTF-16; save it as UTF-8"},
		{"UTF-16, big end first", "\xfe\xff\x00[\x00r", errEncoding, "1:1", "the file is UTF-16"},
		{"UTF-16 without a mark", utf16(goodRules + entries), errNUL, "1:2", "want a text file in UTF-8"},
		{"GBK", "[rules]\n# \xd1\xcf\xbd\xfb\n" + goodRules[8:] + entries, errEncoding, "2:3", "(GBK?)"},
		{"a NUL byte", goodRules + "\x00" + entries, errNUL, "3:1", "a NUL byte"},
		{"zeros, as after a crash", goodRules + strings.Repeat("\x00", 4096), errNUL, "3:1", "a NUL byte"},
		{"a line of 100 MB", goodRules + "# " + strings.Repeat("x", hundredMB) + entries, errLongLine, "3:1", "104857602 bytes"},
		{"100 MB without a line", strings.Repeat("\x00", hundredMB), errLongLine, "1:1", "104857600 bytes"},
		{"a million lines of another format", strings.Repeat("location / { deny all; }\n", 1_000_000), errNoSection, "1:1", "before the first section"},
		{"a hundred thousand rules with a mistake in each", "[rules]\n" + strings.Repeat("rule : [cuont] [a=1] [] []\n", 100_000) + entries, errMore, "101:26", "errors that are not shown"},
		{"an integer beyond 64 bits, as a bound", rule("n>9223372036854775808"), errInteger, "2:20", "is not a 64-bit integer"},
		{"an integer beyond 64 bits, in a range", rule("n=1-99999999999999999999"), errInteger, "2:20", "is not a 64-bit integer"},
		{"an integer beyond 64 bits, among ranges", rule("n=1-2,-9223372036854775809"), errInteger, "2:24", "is not a 64-bit integer"},
		{"a count beyond 64 bits", strings.Replace(goodRules, "count=5", "count=99999999999999999999", 1) + entries, errRange, "2:42", "out of range"},
		{"a return beyond 64 bits", strings.Replace(goodRules, "return=1", "return=99999999999999999999", 1) + entries, errRange, "2:63", "out of range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, findings := Parse([]Source{{"rules.conf", []byte(c.text)}}, Options{})
			if set != nil {
				t.Fatal("it is accepted")
			}
			if len(findings) > 2*maxFindings+2 {
				t.Errorf("%d findings; want a bound", len(findings))
			}
			if !slices.ContainsFunc(findings, func(f Finding) bool {
				return f.Code == c.code.ID && fmt.Sprintf("%d:%d", f.Position.Line, f.Position.Column) == c.at && strings.Contains(f.Error(), c.says)
			}) {
				t.Errorf("want %s at %s that says %q; got\n%.2000v", c.code.ID, c.at, c.says, findings)
			}
		})
	}
}

// TestBinaryFilesAreReportedOnce parses programs and images: once they are
// reported as binary, there are no findings about their lines.
func TestBinaryFilesAreReportedOnce(t *testing.T) {
	noise := "\n[x]\nrule : [cuont] [\n"
	for name, text := range map[string]string{
		"NUL first":  "\x7fELF\x00\x01\n\xff\xd8" + noise,
		"NUL second": goodRules + "\xff\xd8\n\x00" + noise,
	} {
		_, findings := Parse([]Source{{"program", []byte(text)}}, Options{})
		if len(findings) != 2 || findings[0].Code == findings[1].Code {
			t.Errorf("%s: want %s and %s alone; got\n%v", name, errNUL.ID, errEncoding.ID, findings)
		}
	}
}

// TestParseMemoryIsLinear parses rules with similar conditions, each kind in
// the worst case of its index: a rule among 10,000 takes about as much memory as one
// among 1,000.
func TestParseMemoryIsLinear(t *testing.T) {
	const few, many = 1_000, 10_000
	for name, condition := range map[string]func(i int) string{
		"a word each":                      func(i int) string { return fmt.Sprintf("act=a%d", i) },
		"the same word":                    func(int) string { return "act=a" },
		"ranges inside each other":         func(i int) string { return fmt.Sprintf("n=%d-%d", i, 1_000_000-i) },
		"bounds":                           func(i int) string { return fmt.Sprintf("n>%d", i) },
		"blocks and patterns, overlapping": func(i int) string { return fmt.Sprintf("ip=10.0.0.0/%d,10.*.%d.*", 8+i%24, i%256) },
		"negations":                        func(i int) string { return fmt.Sprintf("act!=a%d; n!=%d-%d", i, i, i+9) },
		"parameters each of its own":       func(i int) string { return fmt.Sprintf("p%d=+; q%d!=+", i, i) },
	} {
		t.Run(name, func(t *testing.T) {
			var each [2]float64
			for i, n := range []int{few, many} {
				each[i] = parsedBytes(t, n, condition)
			}
			if each[1] > 2*each[0] {
				t.Errorf("a rule takes %.0f bytes among %d and %.0f among %d", each[0], few, each[1], many)
			}
		})
	}
}

// parsedBytes returns the bytes that the parser allocates per rule.
func parsedBytes(t *testing.T, n int, condition func(i int) string) float64 {
	t.Helper()
	var b strings.Builder
	b.WriteString("[rules]\n")
	for i := range n {
		fmt.Fprintf(&b, "rule : [count] [%s; uid=+] [time=60; count=5] [result=2; return=%d]\n", condition(i), i+1)
	}
	text := []byte(b.String() + entries)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	set, findings := Parse([]Source{{"rules.conf", text}}, Options{Timezone: "UTC"})
	runtime.ReadMemStats(&after)
	if set == nil || len(set.Rules) != n {
		t.Fatalf("%.500v", findings)
	}
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
}

// rule returns a file with one rule that has this condition.
func rule(condition string) string {
	return "[rules]\nrule : [direct] [" + condition + "] [] [result=2; return=1]" + entries
}

func TestByteOrderMarksAndLineEndsAreAccepted(t *testing.T) {
	for name, text := range map[string]string{
		"a byte order mark":    byteOrderMark + goodRules + entries,
		"CRLF":                 strings.ReplaceAll(goodRules+entries, "\n", "\r\n"),
		"no line end at last":  strings.TrimRight(goodRules+entries, "\n"),
		"many files with both": byteOrderMark + strings.ReplaceAll(goodRules+entries, "\n", "\r\n"),
	} {
		set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{})
		if set == nil || len(set.Rules) != 1 || len(findings) > 0 {
			t.Errorf("%s: %v", name, findings)
		}
	}
}

func TestRandomBytesAreRejected(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	for length := 1; length < 100_000; length += 1 + length/2 {
		text := make([]byte, length)
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		// Alone, and in the place of a file's end.
		for _, text := range []string{string(text), goodRules + string(text), goodRules + "rule : [count] [a=" + string(text)} {
			set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{})
			if set != nil {
				t.Fatalf("%d random bytes are accepted", length)
			}
			checkPositions(t, text, findings)
		}
	}
}

// TestVeryManyRulesParse parses a file of 100,000 rules, and in the long form of
// 10^6, each with a different word. They take memory in proportion, and the last one
// matches.
func TestVeryManyRulesParse(t *testing.T) {
	number := 100_000
	if *long {
		number = 1_000_000
	}
	b := []byte("[rules]\n")
	for i := range number {
		b = fmt.Appendf(b, "rule:[direct][a=%d][][result=2;return=%d]\n", i, i+1)
	}
	b = append(b, entries...)
	before, start := heapInUse(), time.Now()
	set, findings := Parse([]Source{{"rules.conf", b}}, Options{})
	took := time.Since(start)
	if set == nil || len(set.Rules) != number || len(findings) > 0 {
		t.Fatalf("%.500v", findings)
	}
	each := (heapInUse() - before) / uint64(number)
	t.Logf("%d rules, %d MB of text: %v, %d bytes a rule", number, len(b)>>20, took.Round(time.Millisecond), each)
	if each > 1500 {
		t.Errorf("a rule takes %d bytes; want 1500 or less", each)
	}
	var m Matches
	if set.Match(MakeParams(map[string]string{"a": strconv.Itoa(number - 1)}), &m); len(m.List) != 1 || m.List[0].Rule != set.Rules[number-1] {
		t.Errorf("%d rules match; want the last one", len(m.List))
	}
}
