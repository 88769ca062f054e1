package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/bench/stats"
	"github.com/koalagate/koalagate/bench/traffic"
)

// goal is a promised bound with its measured value.
type goal struct {
	what       string
	got        *stats.Value // nil if it was not measured
	must, more float64      // 0 without a promise: the value is for comparison only
	atMost     bool
	unit       string
}

// goals returns the table of all goals with their measured values.
func (r *run) goals() string {
	var b strings.Builder
	b.WriteString("\n## Goals\n\n| | measured | must | stretch | |\n| --- | --- | --- | --- | --- |\n")
	for _, g := range slices.Concat(r.goalsAlone(), r.goalsOfTrials(), r.goalsOfReceipts(), r.goalsOfQuotas(), r.goalsAgainstEnvoy()) {
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
			return g.got.Median <= bound
		}
		return g.got.Median >= bound
	}
	switch {
	case g.got == nil, g.must == 0:
		return ""
	case meets(g.more):
		return "met, also stretch"
	case meets(g.must):
		return "met"
	}
	return "**missed**"
}

// ratio returns one subject's metric divided by another's, or nil if one of them was
// not measured.
func ratio(a, b *figures, m metric) *stats.Value {
	if a == nil || b == nil {
		return nil
	}
	v := a.over(b, m)
	return &v
}

// goalsAlone returns the goals that need no other service.
func (r *run) goalsAlone() []goal {
	calm, attacked := rateLimitSection+traffic.Plain.Name, rateLimitSection+traffic.Attack.Name
	at := r.figures
	list := []goal{
		{what: "in process, calls/s relative to the constant answer", got: ratio(at(calm, inProcess), at(calm, constantly), rate), must: 0.7, more: 0.8},
		{what: "Redis, calls/s relative to the constant answer", got: ratio(at(calm, withRedis), at(calm, constantly), rate), must: 0.45, more: 0.55},
		{what: "90 % over the limit added to regular calls, Redis CPU relative to regular calls alone", got: medianRatio(at(onTop, withRedis), at(beforeAttack, withRedis), redisCPU), must: 0.15, more: 0.1, atMost: true},
		{what: "… 64 callers of the stores alone", got: medianRatio(at(storesSection+traffic.Attack.Name, bareRedis), at(storesSection+traffic.Plain.Name, bareRedis), redisCPU), must: 0.15, more: 0.1, atMost: true},
		{what: "… replacing nine tenths of the regular calls, 4000 calls/s each", got: medianRatio(at(equalRate+traffic.Attack.Name, withRedis), at(equalRate+traffic.Plain.Name, withRedis), redisCPU)},
		{what: "… 64 callers of the service, closed loops", got: medianRatio(at(attacked, withRedis), at(calm, withRedis), redisCPU)},
		{what: "a single caller, time relative to that without batching", got: ratio(at(batchingSection, withRedis), at(batchingSection, batchingOff), p50), must: 1.1, more: 1, atMost: true},
	}
	if f := at(rateLimitSection+traffic.Leased.Name, withRedis); f != nil {
		cpu := f.of(redisCPU)
		list = append(list,
			goal{what: "one counter with a lease, Redis, calls/s relative to the constant answer", got: ratio(f, at(rateLimitSection+traffic.Leased.Name, constantly), rate), must: 0.8, more: 0.9},
			goal{what: "… Redis CPU per call", got: &cpu, must: 1, more: 1, atMost: true, unit: " µs"})
	}
	list = append(list, goal{
		what: "auth_request in process, time relative to a handler with the same answer",
		got:  ratio(at(authRequestAlone, inProcess), at(authRequestAlone, sameAnswer), p50), must: 1.3, more: 1.2, atMost: true,
	})
	if f := at(rateLimitSection+traffic.Four.Name, withRedis); f != nil {
		late := f.of(func(s *sample) float64 { return (s.p99 - 2*s.p50) / 1000 })
		list = append(list, goal{what: "four descriptors, p99 minus twice p50", got: &late, must: 2, more: 2, atMost: true, unit: " ms"})
	}
	return list
}

// goalsAgainstEnvoy returns the goals relative to envoyproxy/ratelimit.
func (r *run) goalsAgainstEnvoy() []goal {
	of := func(name string, t traffic.Kind, m metric) *stats.Value {
		section := rateLimitSection + t.Name
		return ratio(r.figures(section, name), r.figures(section, envoyPeer), m)
	}
	against := func(t traffic.Kind, m metric) *stats.Value { return of(withRedis, t, m) }
	replacing := func(m metric) *stats.Value { return of(asPeer, traffic.Four, m) }
	return []goal{
		{what: "four descriptors, calls/s relative to envoyproxy/ratelimit", got: against(traffic.Four, rate), must: 2, more: 2.5},
		{what: "four descriptors, service and Redis CPU relative to envoyproxy/ratelimit", got: against(traffic.Four, totalCPU), must: 0.45, more: 0.4, atMost: true},
		{what: "four descriptors, p99 relative to envoyproxy/ratelimit", got: against(traffic.Four, p99), must: 0.55, more: 0.5, atMost: true},
		{what: "one counter, calls/s relative to envoyproxy/ratelimit", got: against(traffic.OneCounter, rate), must: 2, more: 2.5},
		{what: "… service and Redis CPU", got: against(traffic.OneCounter, totalCPU), must: 0.4, more: 0.33, atMost: true},
		{what: "one counter with a lease, calls/s relative to envoyproxy/ratelimit", got: against(traffic.Leased, rate), must: 3, more: 3.5},
		{what: "… service and Redis CPU", got: against(traffic.Leased, totalCPU), must: 0.25, more: 0.2, atMost: true},
		{what: "with the limits of envoyproxy/ratelimit, four descriptors: calls/s", got: replacing(rate), must: 1.8, more: 2.5},
		{what: "… service and Redis CPU", got: replacing(totalCPU), must: 0.45, more: 0.4, atMost: true},
		{what: "… p99", got: replacing(p99), must: 0.6, more: 0.5, atMost: true},
	}
}

// medianRatio compares subjects of different sections, whose rounds did not
// alternate.
func medianRatio(a, b *figures, m metric) *stats.Value {
	if a == nil || b == nil {
		return nil
	}
	x, y := a.of(m), b.of(m)
	return &stats.Value{Median: x.Median / y.Median, Least: x.Least / y.Most, Most: x.Most / y.Least}
}
