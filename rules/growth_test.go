package rules

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// repeated is a text with parts that are repeated. In a part, # stands for the number of the
// repetition.
type repeated struct {
	name                     string
	before, part, then, more string // then is between the repetitions of part and those of more
	after                    string
}

// text returns a text of about size bytes.
func (r *repeated) text(size int) string {
	number := size / (len(r.part) + len(r.more) + 4*strings.Count(r.part+r.more, "#"))
	var b strings.Builder
	repeat := func(part string) {
		for i := range number {
			b.WriteString(strings.ReplaceAll(part, "#", strconv.Itoa(i+1)))
		}
	}
	b.WriteString(r.before)
	repeat(r.part)
	b.WriteString(r.then)
	if r.more != "" {
		repeat(r.more)
	}
	b.WriteString(r.after)
	return b.String()
}

// some is the part of the tokens and places that TestTimeGrowsLinearly combines in the short form.
const some = 17

// growing are the texts of TestTimeGrowsLinearly: each token of the grammar in a line, and each
// line in a file.
func growing() (list []repeated) {
	number := 0
	const aRule = "rule : [count] [a=+] [time=60; count=5] [result=2; return=1]"
	// Each token, in the middle of a line of each section and in each bracket of a rule.
	for _, line := range []struct{ name, before, after string }{
		{"a word list", "[dicts]\na : p", ""},
		{"a table", "[tables]\na : p", ""},
		{"a token", "[tokens]\na : https://a/b; issuer=a", "; typ=a"},
		{"the method", "[rules]\nrule : [", "] [a=+] [] [result=2; return=1]"},
		{"a value", "[rules]\nrule : [direct] [a=b,", "] [] [result=2; return=1]"},
		{"a condition", "[rules]\nrule : [direct] [a=b;", "] [] [result=2; return=1]"},
		{"a pattern", "[rules]\nrule : [direct] [a ~ b", "] [] [result=2; return=1]"},
		{"a list", "[rules]\nrule : [direct] [a @ b", "] [] [result=2; return=1]"},
		{"a threshold", "[rules]\nrule : [count] [a=+] [time=60; count=", "] [result=2; return=1]"},
		{"an outcome", "[rules]\nrule : [direct] [a=+] [] [result=2; return=1; name=", "]"},
		{"after a rule", "[rules]\n" + aRule, ""},
		{"a result", "[result]\n2 : {\"Msg\":", "}"},
		{"a parameter", "[params]\na : header b", ""},
		{"a claim", "[params]\na : jwt b c", ""},
		{"a path", "[routes]\nGET /a", " : b=c"},
		{"a constant", "[routes]\nGET /a : b=c", ""},
		{"a header", "[forward]\nX-A : b", ""},
		{"a setting", "[settings]\ntimezone : UTC", ""},
		{"a head", "[", "]"},
		{"after the end", "[end]\n", ""},
	} {
		for _, token := range []string{
			" ", "a#", " a# ", ":", " : ", "://", "://a@", ";", "; a#=b", ",", ",a#", ", \"a#\"", "\"", " \"", "\\\"", ".\"", ".", "=", "!=", "~", "*?", "+", "{~}", "[", "]", "[];", "{", "}", "/a#", "/{a#}",
			" else ", " else header x", " else \"a\"", "; count=5", "; coun=5", "; issuer=a", ",header a#", "; from=header a#, header b", "{\"a#\":", "{\"a#\":1},", "#", " #", "-IN-", "-", "1_", "5-", "10.*.", "1.2.3.4/24,", "é", "，",
		} {
			if number++; !*long && number%some != 0 {
				continue
			}
			list = append(list, repeated{line.name + " with " + token, line.before, token, "", "", line.after + entries})
		}
	}
	// Lines that refer to each other, or have a name in common.
	const rulesHead, resultTwo = "[rules]\n", "[] [result=2; return=#]\n"
	blanks := strings.Repeat(" ", 30_000)
	many := strings.Join(func() (names []string) {
		for i := range maxConditions - 1 {
			names = append(names, fmt.Sprintf("c%d=1", i))
		}
		return names
	}(), "; ")
	for _, f := range []repeated{
		{"comments", "", "# a\n", "", "", ""},
		{"heads", "", "[a]\n", "", "", ""},
		{"blank lines", "", "\n", "", "", ""},
		{"one finding in a line of addresses", rulesHead + "x ", "://", "", "", ""},
		{"many findings in a line of addresses", rulesHead + "rule : [direct] [a=b", ",5*", "", "://", "] [] [result=2; return=1]\n"},
		{"colons of a parameter", "[params]\n", "a : ", "", "", "\n"},
		{"sources of a parameter", "[params]\na : sni", " else header x", "", "", "\n"},
		{"parts of a claim", "[params]\na : jwt b c", ".d", "", "", "\n"},
		{"word lists of a condition", rulesHead + "rule : [direct] [a @ b", ",a#", "", "", "] [] [result=2; return=1]\n"},
		{"places of a token", "[tokens]\na : https://a/b; issuer=a; from=bearer", ",header a#", "", "", "\n"},
		{"misspelled thresholds", rulesHead + "rule : [count] [a=+] [", "coun=5;", "time=60", ";base=1", "] [result=2; return=1]\n"},
		{"semicolons before blanks", rulesHead + "rule : [direct]", "[];", "", "  ", "\n"},
		{"equal parameters", "[params]\n" + blanks + "a : sni\n", "a : sni\n", "", "", ""},
		{"equal numbers", rulesHead + blanks + "rule : [direct] [a=1] [] [result=2; return=1]\n", "rule:[direct][a=1][][result=2;return=1]\n", "", "", ""},
		{"word lists", "[dicts]\n", "a# : p\n", rulesHead, "rule : [direct] [a @ a#] " + resultTwo, ""},
		{"unknown word lists", "[dicts]\n", "abcdefghijkabcdefghijk# : p\n", rulesHead, "rule : [direct] [a @ abcdefghijkbcdefghijk#] " + resultTwo, ""},
		{"tables", "[tables]\n", "a# : p\n", "[params]\n", "b# : table a#.rate by tenant\n", ""},
		{"unknown tables", "[tables]\n", "a# : p\n", "[params]\n", "b# : table c#.rate by tenant\n", ""},
		{"tokens", "[tokens]\n", "t# : https://a/k; issuer=a\n", "[params]\n", "p# : jwt t# sub\n", rulesHead + "rule : [count] [p1=+] [time=60; count=1] [result=2; return=1]\n"},
		{"tokens and rules", "[tokens]\n", "t# : https://a/k; issuer=a\n", rulesHead, "rule : [direct] [jwt.t#=invalid] " + resultTwo, ""},
		{"tokens and headers", "[tokens]\n", "t# : https://a/k; issuer=a; from=header x-#\n", "[params]\n", "p# : header y-#\n", ""},
		{"claims", "[tokens]\nt : https://a/k; issuer=a\n[params]\n", "p# : jwt t c#\n", "", "", rulesHead},
		{"rules and parameters", "[params]\n", "p# : header x-#\n", rulesHead, "rule : [count] [p#=+] [time=60; count=1] [result=2; return=#]\n", ""},
		{"parameters of one header", "[params]\n", "p# : header x\n", rulesHead, "rule : [count] [p1=+] [time=60; count=1] [result=2; return=#]\n", ""},
		{"parameters of one header, and absence", "[params]\n", "p# : header x\n", rulesHead, "rule : [direct] [p#!=+; z=1] " + resultTwo, "rule : [count] [p1=+] [time=60; count=1] [result=2; return=999999]\n"},
		{"routes", "[routes]\n", "GET /a#/{x#} : b=c#\n", rulesHead, "rule : [direct] [b=c#; x#=+] " + resultTwo, ""},
		{"rules of a constant", "[routes]\n", "GET /a# : b=c#\n", rulesHead, "rule : [direct] [b~*d?e] " + resultTwo, ""},
		{"rules of long constants", "[routes]\nGET /a : b=c", "ddddddddddddddddddddddddddd", "\n" + rulesHead, "rule:[direct][b~*d?e][][result=2;return=#]\n", ""},
		{"a pattern and a text", rulesHead + "rule : [direct] [a ~ *b?", "c", "] [] [result=2; return=1]\nrule : [direct] [a = bb", "c", "] [] [result=2; return=2]\n"},
		{"results", rulesHead, "rule : [direct] [a=#] [] [result=#; return=#]\n", "[result]\n", "# : {\"Err_no\":1}\n", "0 : {}\n1 : {}\n"},
		{"headers", "[forward]\n", "x-# : p\n", "", "", ""},
		{"equal rules", rulesHead, "rule : [direct] [a=b] " + resultTwo, "", "", ""},
		{"rules that differ in a condition of many", rulesHead, "rule : [direct] [" + many + "; d=#] " + resultTwo, "", "", ""},
		{"limits with many conditions", "[params]\nc0 : header c\n" + rulesHead, "rule : [count] [" + many + "; d=#] [time=60; count=1] [result=2; return=#]\n", "", "", ""},
		{"limits with many open conditions", "[params]\nc0 : header c\n" + rulesHead, "rule : [count] [" + strings.ReplaceAll(many, "=1", "=+") + "; d=#] [time=60; count=1] [result=2; return=#]\n", "", "", ""},
		{"estimates with long lists", rulesHead + "rule : [count] [a=b", ",x#", "] [time=60; count=1; settle=60] [result=2; return=1]\nrule : [count] [a=c", ",y#", "] [time=60; count=1; settle=60] [result=2; return=2]\n"},
		{"ranges", rulesHead, "rule : [count] [a=#-1000000] [time=60; count=1] [result=2; return=#]\n", "", "", ""},
		{"names", rulesHead, "rule : [direct] [a=#] [] [result=2; return=#; name=n#]\n", "", "", ""},
	} {
		f.after += entries
		list = append(list, f)
	}
	return list
}

// TestTimeGrowsLinearly checks that a text which is four times as long takes less than ten times
// as long: whoever may check a draft could keep a processor busy with one line otherwise. It
// measures the time of its own thread, and only a long time counts, several times in a row, so
// that other programs do not matter.
func TestTimeGrowsLinearly(t *testing.T) {
	const size, most, enough, attempts = maxLine - 8<<10, 10, 100 * time.Millisecond, 3
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	o := Options{
		Timezone: "UTC",
		OpenDict: func(_, path string) (*Dict, error) { return ParseDict(path, strings.NewReader("a\n")) },
		OpenTable: func(_, path string) (*Table, error) {
			return ParseTable(path, strings.NewReader("tenant,rate\n7,5\n"))
		},
		OpenKeys: openKeys, OpenToken: openToken,
	}
	takes := func(text string) time.Duration {
		source := Source{Name: "rules.conf", Text: []byte(text)}
		before := threadTime(t)
		Parse([]Source{source}, o)
		Format(source)
		return threadTime(t) - before
	}
	for _, r := range growing() {
		text := r.text(size)
		for attempt := 1; ; attempt++ {
			all := takes(text)
			if all < enough {
				break
			}
			quarter := takes(r.text(size / 4))
			t.Logf("%s: %v for %d bytes, %v for a quarter", r.name, all, len(text), quarter)
			if all < most*quarter {
				break
			}
			if attempt == attempts {
				t.Errorf("%s: %v for %d bytes, and %v for a quarter; want less than %d times as long", r.name, all, len(text), quarter, most)
				break
			}
		}
	}
}

// threadTime returns the time for which the thread has run.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	const thisThread = 1 // RUSAGE_THREAD of Linux
	var u syscall.Rusage
	if err := syscall.Getrusage(thisThread, &u); err != nil {
		t.Fatal(err) // only Linux tells the time of a thread
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
