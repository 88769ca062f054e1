package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
	"github.com/koalagate/koalagate/store"
)

const entries = "[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10, \"Str_reason\":\"Deny\"}\n[end]\n"

// kind is a way to write many rules, of which the request meets one.
type kind struct {
	name  string
	rule  func(i int) string // its conditions
	name1 string             // the parameter that chooses the rule,
	value string             // and its value
}

var kinds = []kind{
	{"words", func(i int) string { return fmt.Sprintf("act=act%d; uid=+", i) }, "act", "act7"},
	{"ranges of integers", func(i int) string { return fmt.Sprintf("n=%d-%d; uid=+", 10*i, 10*i+8) }, "n", "75"},
	{"bounds of integers", func(i int) string { return fmt.Sprintf("n>%d; uid=+", i) }, "n", "1"},
	{"blocks of IPv4", func(i int) string { return fmt.Sprintf("ip=10.%d.%d.0/24; uid=+", i>>8, i&255) }, "ip", "10.0.7.1"},
	{"blocks of IPv6", func(i int) string { return fmt.Sprintf("ip=2001:db8:%x::/48; uid=+", i) }, "ip", "2001:db8:7::1"},
	{"patterns of addresses", func(i int) string { return fmt.Sprintf("ip=10.%d.%d.*; uid=+", i>>8, i&255) }, "ip", "10.0.7.1"},
	{"parameters that are there", func(i int) string { return fmt.Sprintf("p%d=+; uid=+", i) }, "p7", "1"},
	{"ten word lists, and an act for each rule", func(i int) string { return fmt.Sprintf("uid @ list%d; act=act%d", i%10, i) }, "act", "act7"},
}

// ruleText is a rule file of n rules.
func (k kind) ruleText(n int) []byte {
	var b strings.Builder
	b.WriteString("[settings]\ntimezone : UTC\n[dicts]\n")
	for i := range 10 {
		fmt.Fprintf(&b, "list%d : list\n", i)
	}
	b.WriteString("[rules]\n")
	for i := range n {
		fmt.Fprintf(&b, "rule : [count] [%s] [time=60; count=1000000000;] [result=2; return=%d]\n", k.rule(i), i+1)
	}
	b.WriteString(entries)
	return []byte(b.String())
}

func (k kind) params() *rules.Params {
	return rules.MakeParams(map[string]string{"door": "extauthz", "method": "GET", "path": "/", "uid": "1001", k.name1: k.value})
}

func parse(text []byte) (*rules.Set, error) {
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: text}}, rules.Options{
		OpenDict: func(_, path string) (*rules.Dict, error) {
			return rules.ParseDict(path, strings.NewReader("1000\n1001\n1002\n"))
		},
	})
	if set == nil {
		return nil, findings
	}
	return set, nil
}

// decisions compares 10,000 rules with 10: the match alone, and the whole
// decision with the counters in process.
func decisions(ctx context.Context) ([]figure, error) {
	var figures []figure
	for _, k := range kinds {
		var match, decide [2]float64
		for i, n := range []int{10, 10_000} {
			set, err := parse(k.ruleText(n))
			if err != nil {
				return nil, err
			}
			if match[i], err = matching(k, set); err != nil {
				return nil, err
			}
			if decide[i], err = deciding(ctx, k, set); err != nil {
				return nil, err
			}
		}
		ratio := decide[1] / decide[0]
		figures = append(figures, figure{
			what: k.name,
			got:  fmt.Sprintf("%.2f times: %.0f ns with 10, %.0f ns with 10,000; the match alone %.0f and %.0f ns", ratio, decide[0], decide[1], match[0], match[1]),
			goal: "10,000 rules decide within 1.5 times the time of 10", met: ratio <= 1.5,
		})
	}
	return figures, nil
}

func matching(k kind, set *rules.Set) (float64, error) {
	p := k.params()
	var m rules.Matches
	if set.Match(p, &m); len(m.List) != 1 {
		return 0, fmt.Errorf("%s: %d rules match; want 1", k.name, len(m.List))
	}
	return least(100_000, func(int) { set.Match(p, &m) }), nil
}

func deciding(ctx context.Context, k kind, set *rules.Set) (float64, error) {
	memory := store.NewMemory(store.MemoryOptions{})
	defer memory.Close()
	e := engine.New(memory, set)
	var failed error
	p := k.params()
	took := least(50_000, func(int) {
		if _, err := decide(ctx, e, p); err != nil {
			failed = err
		}
	})
	return took, failed
}

// decide takes one hit.
func decide(ctx context.Context, e *engine.Engine, p *rules.Params) (*engine.Decision, error) {
	return e.Decide(ctx, &engine.Call{Op: engine.Take, Sets: []engine.Input{{Params: p, Hits: 1}}})
}
