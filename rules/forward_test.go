package rules

import (
	"strings"
	"testing"
)

// A changed [forward] is a change of the rules; the case of a header is none. Parameters that
// it has are used.
func TestForward(t *testing.T) {
	parse := func(forward string) *Set {
		t.Helper()
		text := "[params]\nuid : header X-Uid\nplan : gateway\n[forward]\nX-Plan : plan\n" + forward + "[rules]\nrule : [count] [ip=+] [time=1; count=1] [result=2; return=1]" + entries
		set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{Timezone: "UTC"})
		if set == nil || len(findings) != strings.Count(text, "uid : ")-strings.Count(text, ": uid") {
			t.Fatalf("%s: %v", forward, findings)
		}
		return set
	}
	none, upper, lower, other := parse(""), parse("X-User-Id : uid\n"), parse("x-user-id : uid\n"), parse("X-User : uid\n")
	for name, c := range map[string]struct {
		before, now *Set
		want        bool
	}{"added": {none, upper, true}, "removed": {upper, none, true}, "renamed": {upper, other, true}, "other case": {upper, lower, false}} {
		if changes := Compare(c.before, c.now); changes.Forwards != c.want || changes.Empty() == c.want {
			t.Errorf("%s: %+v", name, changes)
		}
	}
	if !upper.Needs("uid") || upper.Uses("uid") || upper.Needs("act") || !upper.Needs("ip") {
		t.Error("the set needs other parameters than uid, plan and ip")
	}
}

func TestForwardedValues(t *testing.T) {
	f := &Forward{Header: "X-User-Id", Param: "uid"}
	for name, c := range map[string]struct {
		value, want, wantUTF8 string
		isUnsent              bool
	}{
		"ordinary":         {"ann", "ann", "ann", false},
		"blanks around it": {" ann\t", "", "", true},
		"a newline after":  {"ann\n", "", "", true},
		"a no-break space": {"\u00a0ann", "", "", true},
		"a line separator": {"ann\u2028", "", "", true},
		"blanks in it":     {"a\t b", "a\t b", "a\t b", false},
		"only blanks":      {"  ", "", "", false},
		"umlauts":          {"Zoë", "Zoë", "Zoë", false},
		"not UTF-8":        {"\xff", "\xff", "", false},
		"a newline":        {"a\r\nb", "", "", true},
		"a NUL":            {"a\x00", "", "", true},
		"a delete":         {"a\x7f", "", "", true},
		"the longest":      {strings.Repeat("u", 1024), strings.Repeat("u", 1024), strings.Repeat("u", 1024), false},
		"too long":         {strings.Repeat("u", 1025), "", "", true},
	} {
		p := MakeParams(map[string]string{"uid": c.value})
		got, unsent := f.Value(p, false)
		gotUTF8, _ := f.Value(p, true)
		if got != c.want || gotUTF8 != c.wantUTF8 || (unsent != "") != c.isUnsent || strings.Contains(unsent, c.value) {
			t.Errorf("%s: %q, %q, %q", name, got, gotUTF8, unsent)
		}
	}
	p := MakeParams(map[string]string{"uid": "annabel"})
	p.Shorten("uid", "ann-and-a-digest")
	if got, unsent := f.Value(p, false); got != "" || unsent != "it is longer than max_value" {
		t.Errorf("a shortened value: %q, %q", got, unsent)
	}
	p.Set("uid", "bob")
	if got, unsent := f.Value(p, false); got != "bob" || unsent != "" {
		t.Errorf("a value after a shortened one: %q, %q", got, unsent)
	}
	if got, unsent := f.Value(new(Params), false); got != "" || unsent != "" {
		t.Errorf("without the parameter: %q, %q", got, unsent)
	}
}
