package main

import (
	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/stats"
	"github.com/koalagate/koalagate/bench/traffic"
)

// compared adds the figures that compare subjects, by names that goals refer to.
func (r *run) compared() {
	r.comparedAlone()
	r.comparedTrials()
	r.comparedReceipts()
	r.comparedQuotas()
	r.comparedWithPeer()
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

// comparedAlone adds the figures that need no other service.
func (r *run) comparedAlone() {
	calm, attacked := rateLimitSection+traffic.Plain.Name, rateLimitSection+traffic.Attack.Name
	at := r.figures
	r.Figure("in process, calls/s relative to the constant answer", ratio(at(calm, inProcess), at(calm, constantly), rate))
	r.Figure("Redis, calls/s relative to the constant answer", ratio(at(calm, withRedis), at(calm, constantly), rate))
	r.Figure("90 % over the limit added to regular calls, Redis CPU relative to regular calls alone",
		medianRatio(at(onTop, withRedis), at(beforeAttack, withRedis), redisCPU))
	r.Figure("90 % over the limit, 64 callers of the store alone, Redis CPU relative to regular calls",
		medianRatio(at(storesSection+traffic.Attack.Name, bareRedis), at(storesSection+traffic.Plain.Name, bareRedis), redisCPU))
	r.Figure("90 % over the limit replacing regular calls, 4000 calls/s each, Redis CPU relative to regular calls",
		medianRatio(at(equalRate+traffic.Attack.Name, withRedis), at(equalRate+traffic.Plain.Name, withRedis), redisCPU))
	r.Figure("90 % over the limit, 64 callers of the service, Redis CPU relative to regular calls",
		medianRatio(at(attacked, withRedis), at(calm, withRedis), redisCPU))
	r.Figure("a single caller, time relative to that without batching", ratio(at(batchingSection, withRedis), at(batchingSection, batchingOff), p50))
	leased := rateLimitSection + traffic.Leased.Name
	r.Figure("one counter with a lease, Redis, calls/s relative to the constant answer", ratio(at(leased, withRedis), at(leased, constantly), rate))
	r.Figure("one counter with a lease, Redis, calls/s relative to in process", ratio(at(leased, withRedis), at(leased, inProcess), rate))
	r.FigureIn(" µs", "one counter with a lease, Redis CPU per call", value(at(leased, withRedis), redisCPU))
	r.Figure("auth_request in process, time relative to a handler with the same answer", ratio(at(authRequestAlone, inProcess), at(authRequestAlone, sameAnswer), p50))
	r.FigureIn(" ms", "four descriptors, p99 minus twice p50",
		value(at(rateLimitSection+traffic.Four.Name, withRedis), func(s *sample) float64 { return (s.p99 - 2*s.p50) / 1000 }))
	r.Figure("four limits of one identity, service and Redis CPU relative to four identities",
		medianRatio(at(rateLimitSection+traffic.FourOfOne.Name, withRedis), at(rateLimitSection+traffic.Four.Name, withRedis), totalCPU))
}

// comparedWithPeer adds the figures relative to envoyproxy/ratelimit.
func (r *run) comparedWithPeer() {
	for _, one := range []struct {
		what, subject string
		traffic       traffic.Kind
	}{
		{"four descriptors", withRedis, traffic.Four},
		{traffic.FourOfOneValue.Name, withRedis, traffic.FourOfOneValue},
		{"one counter", withRedis, traffic.OneCounter},
		{"one counter with a lease", withRedis, traffic.Leased},
		{"with the limits of envoyproxy/ratelimit, four descriptors", asPeer, traffic.Four},
	} {
		section := rateLimitSection + one.traffic.Name
		ours, theirs := r.figures(section, one.subject), r.figures(section, envoyPeer)
		r.Figure(one.what+", calls/s"+report.PeerMark, ratio(ours, theirs, rate))
		r.Figure(one.what+", service and Redis CPU"+report.PeerMark, ratio(ours, theirs, totalCPU))
		r.Figure(one.what+", p99"+report.PeerMark, ratio(ours, theirs, p99))
	}
}

// value returns a metric of a subject, or nil if it was not measured.
func value(f *figures, m metric) *stats.Value {
	if f == nil {
		return nil
	}
	v := f.of(m)
	return &v
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
