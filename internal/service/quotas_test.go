package service

import (
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// The hits that a gateway has decided by itself count as decisions of its door, by rule and by
// identity, whatever it reports.
func TestReportsCount(t *testing.T) {
	set := parseRules(t, "rule : [token] [tenant=+] [time=1; count=100; burst=200; lease=20%] [result=2; return=201; name=wide]\n"+
		"rule : [token] [tenant=+] [time=1; count=10; burst=20; lease=20%] [result=2; return=202]")
	m, h := metrics.New(metrics.Build{}), heavy.New(heavy.Options{Rule: set.Rule})
	counts := newRuleCounts(m, h, 0.8)
	counts.observeReport(&engine.Call{Door: "rlqs"}, set, nil, &engine.Usage{Allowed: 1}, &engine.Assignment{}) // before any rules
	counts.load(set)
	store := memory.New(memory.Options{})
	defer store.Close()
	e := engine.New(set, wiring.CountIn(store), engine.ObserveReports(counts.observeReport))
	report := func(allowed, denied uint64) {
		c := &engine.Call{Rules: set, Op: engine.Take, Door: "rlqs", Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"tenant": "acme"})}}}
		u := &engine.Usage{Holder: "edge-1", Reported: true, Allowed: allowed, Denied: denied, Elapsed: 5 * time.Second, Lasts: 7 * time.Second}
		if _, err := e.Assign(t.Context(), c, u); err != nil {
			t.Fatal(err)
		}
	}
	report(30, 4)
	report(1, 1<<63)
	text := metricsText(m)
	for _, want := range []string{
		`koalagate_decisions_total{door="rlqs",verdict="allow"} 32`,
		`koalagate_decisions_total{door="rlqs",verdict="deny"} 4.2949673e+09`,
		`koalagate_rule_admitted_total{name="wide",rule="201"} 31`,
		`koalagate_rule_refused_total{name="wide",rule="201"} 0`,
		`koalagate_rule_refused_total{name="",rule="202"} 4.2949673e+09`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	rows, _ := h.Top(t.Context(), heavy.Question{By: heavy.Refused})
	if len(rows) != 1 || rows[0].Rule != 202 || rows[0].Refused != 1<<32+4 {
		t.Errorf("the most refused are %+v; want %d hits of rule 202", rows, 1<<32+4)
	}
}
