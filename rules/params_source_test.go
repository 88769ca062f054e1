package rules

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// identityOf returns the identity of the one matching rule of set.
func identityOf(t *testing.T, set *Set, p *Params) (string, []Param) {
	t.Helper()
	var m Matches
	set.Match(p, &m)
	if len(m.List) != 1 {
		t.Fatalf("%d rules match, want 1", len(m.List))
	}
	return string(m.List[0].Identity), m.List[0].Values()
}

func TestKindOfALaterSourceIsPartOfTheIdentity(t *testing.T) {
	set, findings := Parse([]Source{{Name: "rules.conf", Text: []byte(`
[rules]
rule : [count] [uid=+; ip!=10.0.0.1; n=0-99] [time=60; count=1] [result=1; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":1}
`)}}, Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	seen := map[string]string{}
	for name, uid := range map[string][2]string{
		"first":             {"uid", "1.2.3.4"},
		"client-ip":         {"uid@client-ip", "1.2.3.4"},
		"cookie":            {"uid@cookie", "1.2.3.4"},
		"imitation":         {"uid", "client-ip=1.2.3.4"},
		"imitation, blank":  {"uid", " client-ip=1.2.3.4 "},
		"imitation, cookie": {"uid@cookie", "client-ip=1.2.3.4"},
	} {
		p := new(Params)
		p.SetNamed(uid[0], uid[1])
		p.Set("ip", "::ffff:10.1.1.1")
		p.SetNamed("n@query", "007")
		identity, values := identityOf(t, set, p)
		if other, double := seen[identity]; double && (name != "imitation, blank" && name != "imitation" || other != "imitation" && other != "imitation, blank") {
			t.Errorf("%s and %s share a counter", name, other)
		}
		seen[identity] = name
		if name == "client-ip" {
			want := []Param{{"ip", "10.1.1.1"}, {"n@query", "7"}, {"uid@client-ip", "1.2.3.4"}}
			if diff := cmp.Diff(want, values); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d identities, want 5: %q", len(seen), seen)
	}
}

func TestLaterSourceEndsWithItsValue(t *testing.T) {
	p := new(Params)
	p.SetFrom(FromClientIP, "uid", "1.2.3.4")
	if got := p.FullName("uid"); got != "uid@client-ip" {
		t.Errorf("the full name is %q", got)
	}
	p.Set("uid", "ann")
	if got := p.FullName("uid"); got != "uid" {
		t.Errorf("after Set: the full name is %q", got)
	}
	p.SetFrom(FromCookie, "uid", "bob")
	p.Delete("uid")
	p.Set("uid", "eve")
	if got := p.FullName("uid"); got != "uid" {
		t.Errorf("after Delete: the full name is %q", got)
	}
	p.SetFrom(FromCookie, "uid", "bob")
	p.Reset()
	if _, later := p.laterKind("uid"); later {
		t.Error("Reset keeps the source")
	}
	p.SetNamed("a@b", "1")
	p.SetNamed("@cookie", "1")
	if _, ok := p.Get("a@b"); !ok || len(p.later) != 0 {
		t.Error("an unknown kind is a part of the name")
	}
}
