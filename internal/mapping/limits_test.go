package mapping

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

func TestShorten(t *testing.T) {
	whole := strings.Repeat("x", DefaultMaxValue)
	for _, c := range []struct{ name, a, b string }{
		{"another end", whole + "a", whole + "b"},
		{"another length", whole + "a", whole + "aa"},
		{"another beginning", "a" + whole, "b" + whole},
		{"whole and cut", whole, whole + "a"},
		{"the digest spelled out", shorten(whole+"a", DefaultMaxValue), whole + "a"},
		{"bytes that are no characters", whole + "\xff", whole + "\xfe"},
		{"a NUL more", whole, whole + "\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if shorten(c.a, DefaultMaxValue) == shorten(c.b, DefaultMaxValue) {
				t.Errorf("two values have one form: %.40q…", shorten(c.a, DefaultMaxValue))
			}
		})
	}
	if got := shorten(whole, DefaultMaxValue); got != whole {
		t.Errorf("a value of %d bytes is changed", DefaultMaxValue)
	}
	if a, b := shorten(whole+"a", DefaultMaxValue), shorten("  "+whole+"a\t", DefaultMaxValue); a != b {
		t.Error("blanks around a value make another one of it")
	}
	for pad := range utf8.UTFMax {
		long := strings.Repeat("x", pad) + strings.Repeat("€", DefaultMaxValue)
		got := shorten(long, DefaultMaxValue)
		if !utf8.ValidString(got) {
			t.Errorf("behind %d bytes a character is cut in two", pad)
		}
		if len(got) <= DefaultMaxValue || len(got) > DefaultMaxValue+32 {
			t.Errorf("behind %d bytes the short form has %d bytes", pad, len(got))
		}
	}
}

func TestLongValues(t *testing.T) {
	long := strings.Repeat("long", 5*1024)
	set := with(t, "v : header X-Long\nh : header X-Long hashed", "* /{v} : act=routed")
	for _, c := range []struct {
		name string
		call *Request
	}{
		{"header", &Request{Door: doorname.ExtAuthz, Method: "GET", Path: "/", Headers: mapHeaders{"x-long": long}}},
		{"path", &Request{Door: doorname.ExtAuthz, Method: "GET", Path: "/" + long}},
		{"context", &Request{Door: doorname.ExtAuthz, Context: map[string]string{"v": long}}},
		{"argument", &Request{Door: doorname.Koala, Args: []Entry{{"v", long}}}},
		{"entry", &Request{Door: doorname.RateLimit, Entries: []Entry{{"v", long}}}},
		{"static argument", func() *Request { r := nginxCall(nil); r.Path += "?v=" + long; return r }()},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantParam(t, set, c.call, &Options{}, "v", shorten(long, DefaultMaxValue))
		})
	}
	// The digest covers the whole value, not the shortened one.
	r := &Request{Door: doorname.ExtAuthz, Method: "GET", Path: "/", Headers: mapHeaders{"x-long": long}}
	wantParam(t, set, r, &Options{}, "h", digest(long))
}

// An application gets a value as a client, a gateway or an issuer has written it, or none: one with
// a digest, or without the blanks around it, is the identity of nobody, or of somebody else.
func TestShortenedValuesReachNoApplication(t *testing.T) {
	set := with(t, "v : header X-V else cookie v\nh : header X-H hashed", "")
	const tooLong = "it is longer than max_value"
	for name, c := range map[string]struct {
		headers      mapHeaders
		want, unsent string
	}{
		"the longest":                {mapHeaders{"x-v": strings.Repeat("x", 100)}, strings.Repeat("x", 100), ""},
		"a byte more":                {mapHeaders{"x-v": strings.Repeat("x", 101)}, "", tooLong},
		"of a later source":          {mapHeaders{"cookie": "v=" + strings.Repeat("x", 101)}, "", tooLong},
		"short within blanks":        {mapHeaders{"x-v": "ann" + strings.Repeat(" ", 101)}, "", tooLong},
		"beyond the bound of values": {mapHeaders{"x-v": strings.Repeat("x", 2000)}, "", tooLong},
		"nothing":                    {mapHeaders{"x-v": strings.Repeat(" ", 101)}, "", ""},
	} {
		p := rules.MakeParams(map[string]string{"v": "of the request before"})
		r := &Request{Door: doorname.ExtAuthz, Method: "GET", Path: "/", Host: "shop.example", Peer: "203.0.113.9", Headers: c.headers}
		if err := Params(set, r, &Options{MaxValue: 100}, p); err != nil {
			t.Fatal(err)
		}
		if got, unsent := (&rules.Forward{Header: "X-User", Param: "v"}).Value(p, true); got != c.want || unsent != c.unsent {
			t.Errorf("%s: %q, %q; want %q, %q", name, got, unsent, c.want, c.unsent)
		}
	}
	// A hash is never long, and a shortened value keeps its source.
	p := new(rules.Params)
	long := strings.Repeat("x", 101)
	r := &Request{Door: doorname.ExtAuthz, Method: "GET", Path: "/", Host: "shop.example", Peer: "203.0.113.9", Headers: mapHeaders{"x-h": long, "cookie": "v=" + long}}
	if err := Params(set, r, &Options{MaxValue: 100}, p); err != nil {
		t.Fatal(err)
	}
	if got, unsent := (&rules.Forward{Header: "X-Hash", Param: "h"}).Value(p, true); got != digest(long) || unsent != "" {
		t.Errorf("the hash is %q, %q", got, unsent)
	}
	if name := p.FullName("v"); name != "v@cookie" {
		t.Errorf("the shortened value has the name %s", name)
	}
}

func TestBoundsAreSettings(t *testing.T) {
	set := with(t, "v : query v", "")
	for name, c := range map[string]struct {
		query string
		want  []Bound
		value string
	}{
		"within":                    {"v=" + strings.Repeat("x", 100), nil, strings.Repeat("x", 100)},
		"a long value":              {"v=" + strings.Repeat("x", 101), []Bound{BoundValueSize}, shorten(strings.Repeat("x", 101), 100)},
		"arguments without a rule":  {strings.Repeat("a=1&", 30) + manyArguments(30), []Bound{BoundParams}, ""},
		"two bounds, each reported": {"v=" + strings.Repeat("x", 200) + "&w=" + strings.Repeat("x", 200) + "&" + manyArguments(30), []Bound{BoundValueSize, BoundParams}, shorten(strings.Repeat("x", 200), 100)},
	} {
		r := nginxCall(map[string]string{"x-original-uri": "/a?" + c.query})
		r.Path += "?" + c.query
		var got []Bound
		o := &Options{MaxParams: 20, MaxValue: 100, Exceeded: func(b Bound) { got = append(got, b) }}
		var p rules.Params
		if err := Params(set, r, o, &p); err != nil {
			t.Fatal(err)
		}
		if v, _ := p.Get("v"); v != c.value || !slices.Equal(got, c.want) || p.Len() > 20 {
			t.Errorf("%s: v is %q, %d parameters, exceeded %v; want %q and %v", name, v, p.Len(), got, c.value, c.want)
		}
	}
}

// manyArguments returns a query with n names.
func manyArguments(n int) string {
	var query strings.Builder
	for i := range n {
		fmt.Fprintf(&query, "a%d=1&", i)
	}
	return query.String()
}

func TestTooManyParameters(t *testing.T) {
	context := map[string]string{"act": "view"}
	query := "act=view"
	entries := []Entry{}
	for i := range 1000 {
		name := fmt.Sprintf("a%03d", i) // before "act" in every order
		context[name] = "x"
		query = name + "=x&" + query
		entries = append(entries, Entry{name, "x"})
	}
	entries = append(entries, Entry{"act", "view"}, Entry{"act", "second"})
	static := nginxCall(nil)
	static.Path += "?" + query
	for _, r := range []*Request{
		{Door: doorname.ExtAuthz, Method: "GET", Path: "/", Context: context},
		{Door: doorname.RateLimit, Domain: "edge", Entries: entries},
		{Door: doorname.Koala, Args: entries},
		static,
	} {
		t.Run(r.Door, func(t *testing.T) {
			var p rules.Params
			if err := Params(plain(t), r, &Options{}, &p); err != nil {
				t.Fatal(err)
			}
			if p.Len() != DefaultMaxParams {
				t.Errorf("%d parameters, want %d", p.Len(), DefaultMaxParams)
			}
			if act, _ := p.Get("act"); act != "view" {
				t.Errorf("act, which a rule names, is %q, want view", act)
			}
		})
	}
}

// TestParametersNamedByRulesAreKept uses a call with twice the maximum number of
// parameters, all named by one rule, and as many that no rule names. If a named one
// were missing, the rule would not match and its limit would not apply.
func TestParametersNamedByRulesAreKept(t *testing.T) {
	var conditions []string
	context := make(map[string]string)
	var arguments []Entry
	for i := range 2 * DefaultMaxParams {
		name := fmt.Sprintf("n%d", i)
		conditions = append(conditions, name+"=+")
		context["a"+name], context[name] = "x", "x"
		arguments = append(arguments, Entry{"a" + name, "x"}, Entry{name, "x"})
	}
	set := parse(t, strings.Replace(plainRules, "act=+", strings.Join(conditions, ";"), 1))
	for _, r := range []*Request{
		{Door: doorname.ExtAuthz, Method: "GET", Path: "/", Context: context},
		{Door: doorname.RateLimit, Domain: "edge", Entries: arguments},
		{Door: doorname.Koala, Args: arguments},
	} {
		var p rules.Params
		if err := Params(set, r, &Options{}, &p); err != nil {
			t.Fatal(err)
		}
		var met rules.Matches
		if set.Match(&p, &met); len(met.List) != 1 {
			t.Errorf("%s: the rule is not met by %d parameters", r.Door, p.Len())
		}
		if p.Len() != 2*DefaultMaxParams {
			t.Errorf("%s: %d parameters stay; want the %d that the rule names", r.Door, p.Len(), 2*DefaultMaxParams)
		}
	}
}

// TestCostParameterIsNamed checks that a parameter that only sets the weight of a request
// counts as named by a rule.
func TestCostParameterIsNamed(t *testing.T) {
	set := parse(t, strings.Replace(plainRules, "count=1;", "count=1; cost=points;", 1))
	args := url.Values{}
	r := nginxCall(nil)
	for i := range 1000 {
		args.Set(fmt.Sprintf("a%03d", i), "x")
	}
	r.Path += "?" + args.Encode() + "&points=7"
	wantParam(t, set, r, &Options{}, "points", "7")
}
