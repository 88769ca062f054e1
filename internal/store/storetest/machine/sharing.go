package machine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// Sharer is a store that assigns shares beside other calls.
type Sharer interface {
	store.Store
	store.Assigner
}

// Shares are gateways that share limits with each other and with calls of single hits. They
// check that no limit is exceeded: not in any time by more than its burst, its refill and
// what late messages may add.
type Shares struct {
	Now      int64 // the time
	Admitted int64 // hits, over all
	Single   int64 // hits of other calls among them
	Assigned int   // assignments
	Refused  map[store.Reason]int

	store    Sharer
	rules    []store.Rule
	meters   []meter
	gateways []*gateway
	lasts    int64
	skew     int64        // of the store's clock
	drift    int64        // thousandths by which the callers' clocks are faster
	delay    func() int64 // of a message
	fail     func(format string, a ...any)
	names    int
	streams  int // that are named so far
	leaves   int
}

// meter measures hits against one limit.
type meter struct {
	level   float64 // of a bucket, in hits
	at      int64
	hits    int64 // of a window
	closes  int64
	allowed float64 // hits that late messages may add
	known   int64   // of a bucket, the latest instant by the clock of the store at which it was used
}

// NewShares returns gateways at an instant, with no traffic yet. delay returns how long a
// message is under way, in ms; fail is called when a limit is exceeded.
func NewShares(s Sharer, now int64, rules []store.Rule, gateways int, delay func() int64, fail func(string, ...any)) *Shares {
	f := &Shares{Now: now, store: s, rules: rules, lasts: 7000, delay: delay, fail: fail, Refused: map[store.Reason]int{}}
	f.meters = make([]meter, len(rules))
	for i := range rules {
		f.meters[i] = meter{level: float64(rules[i].Burst), at: now}
	}
	for range gateways {
		f.Add()
	}
	return f
}

// Add adds a gateway.
func (f *Shares) Add() {
	f.names++
	f.streams++
	f.gateways = append(f.gateways, &gateway{name: fmt.Sprint("gateway ", f.names), stream: f.streams, reports: math.MaxInt64, occasion: math.MaxInt64})
}

// Drift lets the clocks of callers and of a gateway run faster by thousandths, or slower.
func (f *Shares) Drift(i int, callers, gateway int64) {
	f.drift, f.gateways[i].speed = callers, gateway
}

// Jump moves the clock of the store ahead or back, as a failover to a server with another clock
// may do. Ahead, buckets are refilled by as much, and shares last so much longer than the store
// counts on. Back, nothing is refilled until the clock is where it was, and shares stay reserved
// for longer; but what gateways admit by their rates in the time that the store does not know to
// have passed, and do not report, may be lent again.
func (f *Shares) Jump(ms int64) {
	before := f.clock()
	f.skew += ms
	if ms < 0 {
		for i := range f.meters {
			m, unknown := &f.meters[i], -ms
			if f.rules[i].Method == store.Token {
				unknown = min(unknown, before-m.known)
			}
			for _, g := range f.gateways {
				rate, _ := g.most()
				hits := float64(rate) * float64(max(unknown, 0)) / 10_000
				if f.rules[i].Method != store.Token {
					hits = math.Ceil(hits) // a window counts whole hits
				}
				m.allowed += hits
			}
		}
		return
	}
	for _, g := range f.gateways {
		rate, burst := g.most()
		f.add(float64(rate)*float64(ms)/10_000 + float64(burst))
	}
	for i := range f.rules {
		if r := &f.rules[i]; r.Method == store.Token {
			f.meters[i].allowed += float64(r.Count) * float64(ms) / float64(r.Time*1000)
		}
	}
}

// clock returns the clock of the store.
func (f *Shares) clock() int64 { return f.Now + f.skew }

// fill fills the bucket of a gateway.
func (f *Shares) fill(g *gateway) {
	if more := g.fill(f.Now); more > 0 {
		f.add(more)
	}
}

// Gateways returns the number of gateways.
func (f *Shares) Gateways() int { return len(f.gateways) }

// Kill ends a gateway, with all that it has not reported.
func (f *Shares) Kill(i int) {
	f.drop(f.gateways[i])
	f.gateways = append(f.gateways[:i:i], f.gateways[i+1:]...)
}

// Succeed adds a gateway with the name of another one, as a hot restart does: both run. It waits
// for the first report of one that has come back, as Return does for the only one of its name.
func (f *Shares) Succeed(i int) {
	old := f.gateways[i]
	if old.returns {
		return
	}
	f.Add()
	g := f.gateways[len(f.gateways)-1]
	g.name, g.shares, old.shares = old.name, true, true
}

// Return has a gateway report by another stream from now on, unless others have its name: then
// it might go on with the share of one of them.
func (f *Shares) Return(i int) {
	if g := f.gateways[i]; !g.shares && !g.returns && g.reported > 0 {
		f.streams++
		g.former, g.stream, g.returns = g.stream, f.streams, true
	}
}

// Lose loses the next report of a gateway, as one that finds no instance is lost.
func (f *Shares) Lose(i int) { f.gateways[i].loses = true }

// Blanket replaces the bucket of a gateway by a blanket rule, which refuses.
func (f *Shares) Blanket(i int) {
	g := f.gateways[i]
	f.drop(g)
	g.burst, g.fresh = 0, true
}

// Look checks that a look at what the gateways hold changes nothing.
func (f *Shares) Look() {
	var seen [2]store.Assignment
	for i := range seen {
		var err error
		seen[i], err = f.store.Assign(context.Background(), &store.Usage{Now: f.clock(), Zone: time.UTC, Rules: f.rules[:1], Look: true})
		if err != nil {
			f.fail("%v", err)
		}
	}
	if a := &seen[0]; *a != seen[1] || a.Holders < 0 || a.Holders > int64(f.names) || a.Lent < 0 || a.Holders == 0 && a.Lent > 0 {
		f.fail("at %d looks at what %d gateways hold: %+v", f.Now, f.names, seen)
	}
}

// Leave has a gateway that is idle forget its bucket, in turns with its last report and without
// it.
func (f *Shares) Leave(i int) {
	g := f.gateways[i]
	if g.burst > 0 {
		u := &store.Usage{Leave: true}
		if f.leaves++; f.leaves%2 == 0 {
			u.Reported, u.Allowed, u.Denied, u.Elapsed = true, g.allowed, g.denied, f.Now-g.reported
			for _, m := range g.inbox {
				u.Allowed, u.Denied = u.Allowed+m.allowed, u.Denied+m.denied
			}
		}
		f.assign(g, u)
		f.drop(g)
		g.burst, g.reports, g.occasion, g.allowed, g.denied = 0, math.MaxInt64, math.MaxInt64, 0, 0
	}
}

// Ask asks a gateway for n hits, and returns how many it admits.
func (f *Shares) Ask(i int, n int64) int64 {
	g := f.gateways[i]
	if g.reports == math.MaxInt64 { // a new bucket is reported at once
		g.reports, g.reported = f.Now, f.Now
	}
	f.fill(g)
	admitted := g.ask(n)
	f.admit(admitted, -1)
	return admitted
}

// Take takes n single hits from one of the counters, or from all for -1, and returns how many
// the store admits.
func (f *Shares) Take(rule int, n int64) (admitted int64) { return f.takes(rule, n, 1) }

// takes takes hits n times, so many at a time.
func (f *Shares) takes(rule int, n, weight int64) (admitted int64) {
	list := slices.Clone(f.rules)
	if rule >= 0 {
		list = list[rule : rule+1]
	}
	for i := range list {
		list[i].Weight = weight
	}
	p := &store.Plan{Op: store.Take, Now: f.clock(), Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: list}}}
	for range n {
		var a store.Answers
		if err := f.store.Evaluate(context.Background(), p, &a); err != nil {
			f.fail("%v", err)
		}
		if p.Allowed(&a) {
			admitted += weight
			f.admit(weight, rule)
			f.knows(rule)
		}
	}
	f.Single += admitted
	return admitted
}

// knows takes note that one of the counters is used, or that all are for -1.
func (f *Shares) knows(rule int) {
	for i := range f.meters {
		if m := &f.meters[i]; rule < 0 || rule == i {
			m.known = max(m.known, f.clock())
		}
	}
}

// admit measures hits of one of the counters, or of all for -1.
func (f *Shares) admit(n int64, rule int) {
	f.Admitted += n
	for i := range f.meters {
		if n > 0 && (rule < 0 || rule == i) {
			if over := f.meters[i].add(&f.rules[i], n, f.Now, f.clock()) - f.overdue(f.gateways...); over > 1e-6 {
				f.fail("at %d %.3f hits above the limit of rule %d are admitted", f.Now, over, f.rules[i].Return)
			}
		}
	}
}

// add measures n hits, and returns by how much they exceed the limit. Windows are those of the
// store's clock.
func (m *meter) add(r *store.Rule, n, now, clock int64) (over float64) {
	if r.Method == store.Token {
		m.level = min(float64(r.Burst), m.level+float64(r.Count)*float64(now-m.at)/float64(r.Time*1000))
		m.level, m.at = m.level-float64(n), now
		return -m.level - m.allowed
	}
	m.open(r, clock)
	m.hits += n
	return float64(m.hits-r.Count) - m.allowed
}

// open opens a window if none is open.
func (m *meter) open(r *store.Rule, clock int64) {
	if r.Method == store.Token || clock < m.closes {
		return
	}
	m.hits, m.closes = 0, clock+r.Time*1000
	if r.Unit == store.Epoch {
		m.closes = clock - clock%(r.Time*1000) + r.Time*1000
	}
}

// Pass lets time pass, in which messages arrive, gateways report, and the caller looks at
// shares once a second.
func (f *Shares) Pass(ms int64) {
	until := f.Now + ms
	for {
		next, do := until, func() {}
		for _, g := range f.gateways {
			if len(g.inbox) > 0 && g.inbox[0].arrives < next {
				next, do = g.inbox[0].arrives, func() { f.receive(g) }
			}
			if g.reports < next {
				next, do = g.reports, func() { f.report(g) }
			}
			if g.occasion < next {
				next, do = g.occasion, func() { f.look(g) }
			}
		}
		f.Now = max(f.Now, next)
		if next >= until {
			return
		}
		do()
	}
}

// send puts a message on its way. Messages do not overtake each other.
func (f *Shares) send(g *gateway, m message) {
	m.sent, m.arrives, m.rate = f.Now, f.Now+f.delay(), max(g.rate, m.assigned.Rate)
	at := len(g.inbox)
	for i := range g.inbox {
		if g.inbox[i].toCaller == m.toCaller {
			m.arrives = max(m.arrives, g.inbox[i].arrives)
		}
	}
	for at > 0 && g.inbox[at-1].arrives > m.arrives {
		at--
	}
	g.inbox = append(g.inbox[:at:at], append([]message{m}, g.inbox[at:]...)...)
}

// report sends the counts of a gateway, every 5 s.
func (f *Shares) report(g *gateway) {
	if !g.loses {
		f.send(g, message{toCaller: true, allowed: g.allowed, denied: g.denied})
	}
	g.allowed, g.denied, g.reports, g.loses = 0, 0, f.Now+5000, false
}

// receive delivers the next message.
func (f *Shares) receive(g *gateway) {
	m := g.inbox[0]
	g.inbox = g.inbox[1:]
	f.fill(g)
	f.add(f.late(g, &m))
	if m.toCaller {
		u := &store.Usage{Reported: true, Allowed: m.allowed, Denied: m.denied, Elapsed: (f.Now - g.reported) * (1000 + f.drift) / 1000}
		g.reported = f.Now
		f.assign(g, u)
		f.forsake(g)
		return
	}
	if g.apply(&m.assigned, f.Now) && !m.afresh {
		f.add(float64(m.assigned.Burst))
	}
	for i := range g.inbox {
		g.inbox[i].rate = max(g.inbox[i].rate, g.rate)
	}
}

// late returns the hits that a message adds which is under way for longer than the store counts on.
func (f *Shares) late(g *gateway, m *message) float64 {
	return float64(m.rate) * float64(max(f.Now-m.sent+g.slow(f.lasts)-store.OnTheWay, 0)) / 10_000
}

// overdue returns the hits that messages to and from gateways which are under way add by now.
func (f *Shares) overdue(gateways ...*gateway) (hits float64) {
	for _, g := range gateways {
		for i := range g.inbox {
			hits += f.late(g, &g.inbox[i])
		}
	}
	return hits
}

// drop loses the messages to and from a gateway.
func (f *Shares) drop(g *gateway) {
	f.add(f.overdue(g))
	g.inbox = nil
}

// look looks at the share of a gateway between reports, once a second.
func (f *Shares) look(g *gateway) {
	f.assign(g, &store.Usage{})
}

// forsake has the former stream of a gateway that came back, which has not ended yet, look at a
// share: it has none any more, and gets none.
func (f *Shares) forsake(g *gateway) {
	if !g.returns {
		return
	}
	g.returns = false
	u := f.usage(g, &store.Usage{})
	u.Stream = streamName(g.former)
	if a, err := f.store.Assign(context.Background(), u); err != nil || a.Send || a.Rate > 0 {
		f.fail("at %d the former stream of a gateway gets %+v, %v", f.Now, a, err)
	}
}

// usage completes a usage of a gateway.
func (f *Shares) usage(g *gateway, u *store.Usage) *store.Usage {
	u.Now, u.Zone, u.Rules, u.Holder, u.Stream, u.Lasts = f.clock(), time.UTC, f.rules, g.name, streamName(g.stream), f.lasts
	u.Fresh = g.fresh || g.over > 0 && f.Now >= g.over
	return u
}

func streamName(n int) string { return fmt.Sprint("stream ", n) }

// assign calls the store for a gateway, and sends it what it must get.
func (f *Shares) assign(g *gateway, u *store.Usage) {
	u.Returns = g.returns && u.Reported
	a, err := f.store.Assign(context.Background(), f.usage(g, u))
	if err != nil {
		f.fail("%v", err)
		return
	}
	if a.Reason != store.BannedNow {
		f.knows(-1)
	}
	if a.Send || a.Debt > 0 { // what is lent opens a window, as do hits that were not lent
		for i := range f.meters {
			f.meters[i].open(&f.rules[i], f.clock())
		}
	}
	keeps := f.clock() < g.until && !u.Fresh
	if u.Fresh {
		g.until = 0
	}
	g.occasion = f.Now + 1000
	if !a.Send {
		f.Refused[a.Reason]++
		return
	}
	f.Assigned++
	g.until, g.over, g.fresh = f.clock()+a.Lasts+store.OnTheWay, f.Now+a.Lasts, false
	f.send(g, message{assigned: a, afresh: !keeps})
}

// add adds hits that a late message explains.
func (f *Shares) add(hits float64) {
	for i := range f.meters {
		f.meters[i].allowed += hits
	}
}
