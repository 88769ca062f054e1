package main

import (
	"fmt"
	"strings"
)

// goal is what was promised, beside what came of it.
type goal struct {
	what       string
	got        *value  // nil where it was not measured
	must, more float64 // 0 where nothing was promised: it is told for what it says about the others
	atMost     bool
	unit       string
}

// goals is the table of all goals, with what was measured.
func (r *run) goals() string {
	var b strings.Builder
	b.WriteString("\n## Goals\n\n| | measured | must | stretch | |\n| --- | --- | --- | --- | --- |\n")
	for _, g := range append(r.goalsAlone(), r.goalsAgainstEnvoys()...) {
		sign := "≥"
		if g.atMost {
			sign = "≤"
		}
		got := "not measured"
		if g.got != nil {
			got = g.got.String() + g.unit
		}
		bound := func(n float64) string {
			if n == 0 {
				return ""
			}
			return fmt.Sprintf("%s %.4g%s", sign, n, g.unit)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", g.what, got, bound(g.must), bound(g.more), g.verdict())
	}
	return b.String()
}

func (g *goal) verdict() string {
	meets := func(bound float64) bool {
		if g.atMost {
			return g.got.median <= bound
		}
		return g.got.median >= bound
	}
	switch {
	case g.got == nil, g.must == 0:
		return ""
	case meets(g.more):
		return "met, stretch too"
	case meets(g.must):
		return "met"
	}
	return "**missed**"
}

// ratio is one subject's metric over another's, nil where either was not
// measured.
func ratio(a, b *figures, m metric) *value {
	if a == nil || b == nil {
		return nil
	}
	v := a.over(b, m)
	return &v
}

// goalsAlone are those that need no other service.
func (r *run) goalsAlone() []goal {
	calm, attacked := rateLimitSection+plain.name, rateLimitSection+attack.name
	at := r.figures
	list := []goal{
		{what: "in process, calls/s of the constant answer's", got: ratio(at(calm, inProcess), at(calm, constantly), rate), must: 0.6, more: 0.75},
		{what: "Redis, calls/s of the constant answer's", got: ratio(at(calm, withRedis), at(calm, constantly), rate), must: 0.45, more: 0.55},
		{what: "90 % over the limit on top of what is calm, Redis CPU of the calm case's", got: medianRatio(at(onTop, withRedis), at(beforeAttack, withRedis), redisCPU), must: 0.15, more: 0.1, atMost: true},
		{what: "… 64 callers of the stores alone", got: medianRatio(at(storesSection+attack.name, bareRedis), at(storesSection+plain.name, bareRedis), redisCPU), must: 0.15, more: 0.1, atMost: true},
		{what: "… in place of nine tenths of what is calm, 4000 calls/s each", got: medianRatio(at(equalRate+attack.name, withRedis), at(equalRate+plain.name, withRedis), redisCPU)},
		{what: "… 64 callers of the service, closed loops", got: medianRatio(at(attacked, withRedis), at(calm, withRedis), redisCPU)},
		{what: "one lone caller, time of that without batching", got: ratio(at(batchingSection, withRedis), at(batchingSection, batchingOff), p50), must: 1.1, more: 1, atMost: true},
	}
	list = append(list, goal{
		what: "auth_request in process, time of a call of a handler with the same answer",
		got:  ratio(at(authRequestAlone, inProcess), at(authRequestAlone, sameAnswer), p50), must: 1.3, more: 1.2, atMost: true,
	})
	if f := at(rateLimitSection+four.name, withRedis); f != nil {
		scale := r.incr() / referenceINCR.Seconds()
		cpu, late := f.of(totalCPU), f.of(func(s *sample) float64 { return (s.p99 - 2*s.p50) / 1000 })
		list = append(list,
			goal{what: "four descriptors, service and Redis CPU a call", got: &cpu, must: 45 * scale, more: 36 * scale, atMost: true, unit: " µs"},
			goal{what: "four descriptors, p99 less twice p50", got: &late, must: 2, more: 2, atMost: true, unit: " ms"})
	}
	return list
}

// goalsAgainstEnvoys are those against envoyproxy/ratelimit.
func (r *run) goalsAgainstEnvoys() []goal {
	against := func(t traffic, m metric) *value {
		section := rateLimitSection + t.name
		return ratio(r.figures(section, withRedis), r.figures(section, envoysOwn), m)
	}
	return []goal{
		{what: "four descriptors, calls/s of envoyproxy/ratelimit's", got: against(four, rate), must: 1.8, more: 2.5},
		{what: "four descriptors, service and Redis CPU of envoyproxy/ratelimit's", got: against(four, totalCPU), must: 0.5, more: 0.4, atMost: true},
		{what: "four descriptors, p99 of envoyproxy/ratelimit's", got: against(four, p99), must: 0.6, more: 0.5, atMost: true},
		{what: "one counter, calls/s of envoyproxy/ratelimit's", got: against(oneCounter, rate), must: 1.5, more: 2},
	}
}

// medianRatio compares subjects of different sections, whose rounds were not
// in turns.
func medianRatio(a, b *figures, m metric) *value {
	if a == nil || b == nil {
		return nil
	}
	x, y := a.of(m), b.of(m)
	return &value{x.median / y.median, x.least / y.most, x.most / y.least}
}
