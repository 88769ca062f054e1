package rules

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestConformanceRuleFilesParse parses the rule files of the conformance cases. The
// engine tests their decisions.
func TestConformanceRuleFilesParse(t *testing.T) {
	file, err := os.Open("testdata/conformance.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	number := 0
	for lines := bufio.NewScanner(file); lines.Scan(); number++ {
		var c struct {
			Name, Rules string
			Dicts       map[string][]string
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		set, findings := Parse([]Source{{"rules.conf", []byte(c.Rules)}}, Options{OpenDict: func(_, path string) (*Dict, error) {
			return ParseDict(path, strings.NewReader(strings.Join(c.Dicts[strings.TrimSuffix(path, ".dat")], "\n")))
		}})
		if set == nil {
			t.Errorf("%s: %v", c.Name, findings)
			continue
		}
		if want := strings.Count(c.Rules, "\nrule :"); len(set.Rules) != want {
			t.Errorf("%s: %d rules; want %d", c.Name, len(set.Rules), want)
		}
	}
	if number < 70 {
		t.Fatalf("%d cases; want 70 or more", number)
	}
}

func TestMatchesAreInFileOrder(t *testing.T) {
	sources := []Source{
		{"b.conf", []byte("[rules]\nrule : [count] [a=+] [time=1; count=1] [result=2; return=9]\nrule : [direct] [a=2] [] [result=2; return=3]\n")},
		{"a.conf", []byte("[rules]\nrule : [leak] [a=1-5] [time=1; count=1] [result=2; return=1]" + entries)},
	}
	set, findings := Parse(sources, Options{})
	if set == nil {
		t.Fatal(findings)
	}
	m := Matches{List: make([]Match, 7)} // Match must replace its contents
	set.Match(MakeParams(map[string]string{"a": "2", "b": "x"}), &m)
	var numbers []int64
	for _, match := range m.List {
		numbers = append(numbers, match.Rule.Return)
		if set.Rule(match.Rule.Return) != match.Rule {
			t.Errorf("Rule(%d) is another rule", match.Rule.Return)
		}
	}
	if fmt.Sprint(numbers) != "[9 3 1]" || set.Rule(2) != nil {
		t.Errorf("the rules %v match; want [9 3 1]; Rule(2) is %v", numbers, set.Rule(2))
	}
	if at := set.Rules[2].Pos.String(); at != "a.conf:2:1" {
		t.Errorf("the third rule is at %s; want a.conf:2:1", at)
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	set := ruleSet(t, "act=ask,list; uid=+; ip=10.0.0.0/8", "n=1-100; ip @ nets", "uid @ vip", "ip=2001:db8::/32", "ip!=10.9.9.9", "n!=5", "agent ~ *bot*,curl/?*", "exp after now; paid !=+", "paid before now")
	for i, ip := range []string{"::ffff:10.1.1.1", "2001:db8::1", "unknown"} {
		p := MakeParams(map[string]string{"act": "ask", "uid": "7", "ip": ip, "n": "00000000000000000000000007", "extra": "1", "agent": "ExampleBot/é", "exp": "1780286405", "paid": []string{"2026-06-01", "2026-02-31", "soon"}[i]})
		var m Matches
		set.Match(p, &m)
		if n := testing.AllocsPerRun(100, func() { set.Match(p, &m) }); n != 0 {
			t.Errorf("ip=%s: %v allocations a match; want none", ip, n)
		}
	}
}

func TestHashDependsOnContent(t *testing.T) {
	parse := func(name, text, list string) string {
		t.Helper()
		set, findings := Parse([]Source{{name, []byte(text)}}, Options{OpenDict: func(_, path string) (*Dict, error) {
			return ParseDict(path, strings.NewReader(list))
		}})
		if set == nil {
			t.Fatal(findings)
		}
		return set.Hash
	}
	text := "[dicts]\nvip : v\n[rules]\nrule : [direct] [a @ vip] [] [result=2; return=1]" + entries
	hash := parse("a.conf", text, "7\n")
	if other := parse("b.conf", text, "7\n"); other != hash {
		t.Error("the name of a file is no content")
	}
	if parse("a.conf", text+"\n", "7\n") == hash || parse("a.conf", text, "8\n") == hash {
		t.Error("another text or another list has the same hash")
	}
}

func TestEntryHasKoalaForm(t *testing.T) {
	r := &Result{RetType: 2, RetCode: 7, ErrNo: 10, StrReason: "Deny"}
	want := `{"Ret_type":2,"Ret_code":500,"Err_no":10,"Err_msg":"","Str_reason":"Deny","Need_vcode":0,"Vcode_len":0,"Vcode_type":0,"Other":"","Version":0}`
	if got := string(r.Entry(500)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string((&Result{ErrMsg: `<a&b> "太快"`}).Entry(0)); !strings.Contains(got, `"Err_msg":"<a&b> \"太快\""`) {
		t.Errorf("got %s; want the message unchanged", got)
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, rules := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprintf("%d rules", rules), func(b *testing.B) {
			conditions := make([]string, rules)
			for i := range conditions {
				conditions[i] = fmt.Sprintf("act=act%d; uid=+", i)
			}
			set := ruleSet(b, conditions...)
			p := MakeParams(map[string]string{"act": "act7", "uid": "7", "ip": "10.0.0.1"})
			var m Matches
			b.ReportAllocs()
			for b.Loop() {
				set.Match(p, &m)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	text.WriteString("[rules]\n")
	for i := range 100_000 {
		fmt.Fprintf(&text, "rule : [count] [act=act%d; uid=+; ip=10.0.0.0/8] [time=60; count=5;] [result=2; return=%d]\n", i, i+1)
	}
	text.WriteString(entries)
	b.ReportAllocs()
	for b.Loop() {
		if set, findings := Parse([]Source{{"rules.conf", []byte(text.String())}}, Options{}); set == nil {
			b.Fatal(findings)
		}
	}
}
