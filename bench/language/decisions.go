package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/stats"
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

const entries = "[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10, \"Str_reason\":\"Deny\"}\n[end]\n"

// kind is a form of many rules, of which the request meets one.
type kind struct {
	name  string
	rule  func(i int) string // conditions of rule i
	name1 string             // parameter that selects the rule,
	value string             // and its value
}

var kinds = []kind{
	{"words", func(i int) string { return fmt.Sprintf("act=act%d; uid=+", i) }, "act", "act7"},
	{"ranges of integers", func(i int) string { return fmt.Sprintf("n=%d-%d; uid=+", 10*i, 10*i+8) }, "n", "75"},
	{"bounds of integers", func(i int) string { return fmt.Sprintf("n>%d; uid=+", i) }, "n", "1"},
	{"blocks of IPv4", func(i int) string { return fmt.Sprintf("ip=10.%d.%d.0/24; uid=+", i>>8, i&255) }, "ip", "10.0.7.1"},
	{"blocks of IPv6", func(i int) string { return fmt.Sprintf("ip=2001:db8:%x::/48; uid=+", i) }, "ip", "2001:db8:7::1"},
	{"patterns of addresses", func(i int) string { return fmt.Sprintf("ip=10.%d.%d.*; uid=+", i>>8, i&255) }, "ip", "10.0.7.1"},
	{"parameters that are present", func(i int) string { return fmt.Sprintf("p%d=+; uid=+", i) }, "p7", "1"},
	{"ten word lists, and an act for each rule", func(i int) string { return fmt.Sprintf("uid @ list%d; act=act%d", i%10, i) }, "act", "act7"},
}

// ruleText returns a rule file of n rules.
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
		OpenTable: plans,
	})
	if set == nil {
		return nil, findings
	}
	return set, nil
}

// decisions compares 10,000 rules with 10: matching alone, and the whole decision with
// in-process counters.
func (r *run) decisions(ctx context.Context, s *report.Section) error {
	s.Text = "One rule of many matches. Times are ns of the fastest turn."
	table := report.Table{Columns: []string{"rules of", "10,000 rules relative to 10", "10 rules", "10,000 rules", "10 rules, the match alone", "10,000 rules, the match alone"}}
	var most stats.Value
	for _, k := range kinds {
		few, err := k.runner(ctx, 10)
		if err != nil {
			return err
		}
		many, err := k.runner(ctx, 10_000)
		if err != nil {
			return err
		}
		match, _ := r.race(few.match, many.match)
		whole, ratio := r.race(few.decide, many.decide)
		few.memory.Close()
		many.memory.Close()
		if err := errors.Join(few.failed, many.failed); err != nil {
			return err
		}
		if ratio.Median > most.Median {
			most = ratio
		}
		table.Rows = append(table.Rows, []string{k.name, ratio.String(), ns(whole[0]), ns(whole[1]), ns(match[0]), ns(match[1])})
	}
	s.Tables = []report.Table{table}
	r.Figure("10,000 rules, time of a decision relative to 10 rules, kind with the largest ratio", &most)
	return nil
}

func ns(n float64) string { return fmt.Sprintf("%.0f", n) }

// runner decides one request by one set of rules.
type runner struct {
	ctx     context.Context
	set     *rules.Set
	params  *rules.Params
	matches rules.Matches
	memory  *memory.Store
	engine  *engine.Engine
	failed  error
}

func (k kind) runner(ctx context.Context, n int) (*runner, error) {
	set, err := parse(k.ruleText(n))
	if err != nil {
		return nil, err
	}
	r := &runner{ctx: ctx, set: set, params: k.params(), memory: memory.New(memory.Options{})}
	r.engine = engine.New(set, wiring.CountIn(r.memory))
	if r.match(); len(r.matches.List) != 1 {
		return nil, fmt.Errorf("%s: %d rules match; want 1", k.name, len(r.matches.List))
	}
	return r, nil
}

func (r *runner) match() { r.set.Match(r.params, &r.matches) }

func (r *runner) decide() {
	if _, err := decide(r.ctx, r.engine, r.params); err != nil {
		r.failed = err
	}
}

// decide takes one hit.
func decide(ctx context.Context, e *engine.Engine, p *rules.Params) (*engine.Decision, error) {
	return e.Decide(ctx, &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: p, Hits: 1}}})
}
