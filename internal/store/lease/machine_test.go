package lease

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// long selects the long form of the tests, which `make verify` runs.
var long = flag.Bool("long", false, "run the long form of the tests")

// beginning is when the dialogues begin, ms since the epoch.
const beginning = 1_780_000_000_000

// TestFleetStaysWithinTheModel compares three instances that hold parts with the model, which
// decides each call at its instant without parts. What the fleet admits, the model must
// admit. What the fleet refuses, the model must refuse, or the instances may hold what is
// missing: at most their share of the limit, what was lost with killed instances and failed
// requests, and what an instance has not given back in time. The clocks of the instances run
// apart, requests come late or get lost, and calls happen while a request is under way.
func TestFleetStaysWithinTheModel(t *testing.T) {
	server := storetest.StartServer(t)
	n := 150
	if *long {
		n = 10_000
	}
	machine.Dialogues(t, n)
	shared := server.Open(t, func(o *redis.Options) { o.Refusals = -1 })
	total := 0
	var seen Stats
	rapid.Check(t, func(rt *rapid.T) {
		total++
		f := &fleet{rt: rt, redis: shared, now: beginning, admits: machine.NewModel(), counts: machine.NewModel(), lost: map[string]int64{}, flying: map[string]int64{}}
		for range 3 {
			f.holders = append(f.holders, f.open())
		}
		for _, rule := range f.draw() {
			rule.Subject = fmt.Appendf(nil, "%s%d", rule.Subject, total)
			f.rules = append(f.rules, rule)
		}
		for range rapid.IntRange(10, 120).Draw(rt, "steps") {
			f.step()
			f.check()
		}
		for _, h := range f.holders {
			seen.Spent += h.Stats().Spent
			seen.Early += h.Stats().Early
			seen.Returned += h.Stats().Returned
		}
	})
	if seen.Spent == 0 || seen.Early == 0 || *long && seen.Returned == 0 {
		t.Errorf("the dialogues lack a case: %+v", seen)
	}
	t.Logf("%d dialogues: %d hits from parts, %d given back, %d refusals because of parts", total, seen.Spent, seen.Returned, seen.Early)
}

// fleet is three instances on one Redis.
type fleet struct {
	rt    *rapid.T
	redis *redis.Store
	now   int64 // the clock of Redis
	back  int64 // ms by which the clock of Redis has jumped back; the clocks of instances never jump
	// admits is what plain limits admit at most: it does not record what was refused.
	// counts records all.
	admits, counts *machine.Model
	bans           [2]ban // by the position of their rule
	rules          []store.Rule
	holders        []*holder
	lost           map[string]int64 // hits of each counter that nobody can spend or give back
	flying         map[string]int64 // hits of each counter that a request under way gives back
	depth          int              // of steps within steps
}

// holder is an instance.
type holder struct {
	*Store
	fleet   *fleet
	pending []func()
}

// open returns an instance whose clock runs faster or slower than that of Redis.
func (f *fleet) open() *holder {
	h := &holder{fleet: f}
	speed := rapid.IntRange(-9, 9).Draw(f.rt, "thousandths of speed")
	ahead := rapid.IntRange(0, 1000).Draw(f.rt, "clock ahead, s")
	h.Store = New(&arriving{f.redis, &f.now}, h, Options{
		Clock: func() time.Duration {
			passed := time.Duration(f.now+f.back-beginning) * time.Millisecond
			return time.Duration(ahead)*time.Second + passed + passed*time.Duration(speed)/1000
		},
		Now: func() int64 { return f.now },
		Run: func(request func()) { h.pending = append(h.pending, request) },
	})
	return h
}

// draw returns the rules of a dialogue.
func (f *fleet) draw() []store.Rule {
	list := []store.Rule{
		{Subject: []byte("a"), Return: 1, Method: store.Count, Time: 2, Count: 60, Lease: 200},
		{Subject: []byte("b"), Return: 2, Method: store.Count, Time: 60, Count: 500, Lease: 100, Overdraft: true},
		{Subject: []byte("a"), Return: 3, Method: store.Token, Time: 10, Count: 200, Burst: 300, Lease: 150},
		{Subject: []byte("c"), Return: 4, Method: store.Count, Unit: store.Minute, Count: 400, Lease: 50},
		{Subject: []byte("d"), Return: 5, Method: store.Count, Time: 3, Count: 80, Lease: 200, Ban: 1},
		{Subject: []byte("e"), Return: 6, Method: store.Token, Time: 1, Count: 30, Burst: 100, Lease: 200, Overdraft: true},
		{Subject: []byte("f"), Return: 7, Method: store.Token, Time: 1, Count: 20, Burst: 50, Lease: 200},
		{Subject: []byte("f"), Return: 8, Method: store.Count, Time: 60, Count: 1000, Lease: 4},
	}
	first := rapid.IntRange(0, len(list)-1).Draw(f.rt, "rule")
	chosen := []store.Rule{list[first]}
	if rapid.Bool().Draw(f.rt, "two rules") {
		chosen = append(chosen, list[(first+1)%len(list)])
	}
	return chosen
}

// step does one of the things that happen.
func (f *fleet) step() {
	h := rapid.SampledFrom(f.holders).Draw(f.rt, "holder")
	switch kind := rapid.IntRange(0, 99).Draw(f.rt, "step"); {
	case kind < 45:
		f.take(h)
	case kind < 60: // enough for a part
		for range 2 * busyFrom {
			f.take(h)
		}
		h.runNext()
	case kind < 75:
		f.pass()
	case kind < 85:
		h.runNext()
	case kind < 91:
		h.Sweep()
	case kind < 93:
		f.replace(h, false)
	case kind < 95:
		f.replace(h, true)
	default:
		f.operate(h, []store.Op{store.Browse, store.Update, store.Refund, store.Reset, store.Browse}[kind-95])
	}
}

// pass lets time pass.
func (f *fleet) pass() {
	most := []int{0, 3, 30, 30, 600, 3000}[rapid.IntRange(0, 5).Draw(f.rt, "how long")]
	f.now += int64(rapid.IntRange(0, most).Draw(f.rt, "ms"))
}

// runNext makes the first pending request.
func (h *holder) runNext() {
	if len(h.pending) > 0 {
		request := h.pending[0]
		h.pending = h.pending[1:]
		request()
	}
}

// Lease makes a request that takes its time, and may fail. Calls happen meanwhile.
func (h *holder) Lease(ctx context.Context, l *store.Lease) (store.Grant, error) {
	f, name := h.fleet, string(appendName(nil, &l.Rule))
	f.flying[name] += l.Back
	defer func() { f.flying[name] -= l.Back }()
	f.meanwhile() //nolint:contextcheck // other calls
	fails := rapid.IntRange(0, 19).Draw(f.rt, "fails")
	if fails < 2 && l.Rule.Method == store.Token {
		f.lost[name] += l.Keep // Redis may have it recorded twice, and refill less
	}
	if fails == 0 {
		f.lost[name] += l.Back
		return store.Grant{}, errors.New("not sent")
	}
	l.Now = f.now
	g, err := h.fleet.redis.Lease(ctx, l)
	if err != nil {
		f.rt.Fatal(err)
	}
	kept := g.Era == l.Era && l.Era != 0 && l.Now < l.Ends
	if kept {
		f.lost[name] += max(l.Back-max(l.Drop-l.Keep, 0), 0)
	} else {
		f.lost[name] += l.Back
	}
	f.meanwhile() //nolint:contextcheck // other calls
	if fails == 1 {
		f.lost[name] += g.Granted
		return store.Grant{}, errors.New("no reply")
	}
	if !kept {
		f.lost[name] += h.partOf(&l.Rule).held
	}
	return g, nil
}

// meanwhile is what happens while a request is under way.
func (f *fleet) meanwhile() {
	if f.depth > 0 {
		return
	}
	f.depth++
	for range rapid.IntRange(0, 3).Draw(f.rt, "meanwhile") {
		if rapid.Bool().Draw(f.rt, "time passes") {
			f.pass()
		} else {
			f.take(rapid.SampledFrom(f.holders).Draw(f.rt, "holder"))
		}
	}
	f.depth--
}

// replace ends an instance, with a drain or by a kill, and starts another.
func (f *fleet) replace(h *holder, kill bool) {
	if f.depth > 0 {
		return
	}
	if kill {
		for i := range h.shards {
			for name, p := range h.shards[i].parts {
				f.lost[name] += p.held
			}
		}
	} else {
		for len(h.pending) > 0 {
			h.runNext()
		}
		f.depth++
		h.Close()
		f.depth--
	}
	for i := range f.holders {
		if f.holders[i] == h {
			f.holders[i] = f.open()
		}
	}
}

// plan returns a plan of some rules.
func (f *fleet) plan(op store.Op) *store.Plan {
	p := &store.Plan{Op: op, Now: f.now, Zone: time.UTC}
	for range rapid.IntRange(1, 2).Draw(f.rt, "sets") {
		set := store.Set{Allows: true}
		for _, r := range f.rules {
			if len(f.rules) == 1 || rapid.IntRange(0, 3).Draw(f.rt, "has rule") > 0 {
				r.Weight = f.weight(&r)
				set.Rules = append(set.Rules, r)
			}
		}
		p.Sets = append(p.Sets, set)
	}
	return p
}

// weight draws a weight: rarely all that Redis would admit.
func (f *fleet) weight(r *store.Rule) int64 {
	switch n := rapid.IntRange(0, 39).Draw(f.rt, "weight"); {
	case n == 39:
		return f.peek(*r).Remaining
	case n > 33:
		return int64(n - 32)
	case n > 30:
		return 0
	}
	return 1
}

// take compares the verdicts on a take.
func (f *fleet) take(h *holder) {
	p := f.plan(store.Take)
	f.endBans()
	var a store.Answers
	a.Reset(len(p.Sets))
	if err := h.Evaluate(context.Background(), p, &a); err != nil {
		f.rt.Fatal(err)
	}
	if p.Allowed(&a) {
		if want := f.admits.Evaluate(p); !p.Allowed(&store.Answers{Sets: want}) {
			f.rt.Fatalf("at %d the fleet admits %s, the model does not: %+v", f.now, machine.Describe(p), want)
		}
		if want := f.counts.Evaluate(p); !p.Allowed(&store.Answers{Sets: want}) { // it is overdrawn, and has recorded that
			f.inModel(f.counts, store.Update, slices.DeleteFunc(rulesOf(p), func(r store.Rule) bool { return r.Overdraft })...)
		}
		return
	}
	for i := range a.Sets {
		d := a.Sets[i].Decider
		if d >= 0 && !a.Sets[i].Banned {
			f.checkEarly(&p.Sets[i].Rules[d], p)
		}
		for j, r := range p.Sets[i].Rules {
			switch {
			case r.Overdraft && (d < 0 || j <= d):
				f.inModel(f.counts, store.Update, r)
			case d == j && a.Sets[i].Banned:
				f.bans[r.Return%2] = ban{r, f.now + a.Sets[i].Retry}
			}
		}
	}
}

// rulesOf returns the rules of a plan.
func rulesOf(p *store.Plan) (list []store.Rule) {
	for i := range p.Sets {
		list = append(list, p.Sets[i].Rules...)
	}
	return list
}

// inModel carries out an operation on rules in a model.
func (f *fleet) inModel(m *machine.Model, op store.Op, rules ...store.Rule) []store.Answer {
	return m.Evaluate(&store.Plan{Op: op, Now: f.now, Zone: time.UTC, Sets: []store.Set{{Rules: rules}}})
}

// checkEarly fails if a refusal cannot be explained by held and lost hits.
func (f *fleet) checkEarly(r *store.Rule, p *store.Plan) {
	weights := int64(0)
	for _, one := range rulesOf(p) {
		if one.Return == r.Return {
			weights += max(one.Weight, 1)
		}
	}
	left := f.inModel(f.counts.Clone(), store.Peek, *r)[0].Remaining
	one, name := part{rule: *r}, appendName(nil, r)
	missing := f.lost[string(name)] + f.flying[string(name)]
	for _, h := range f.holders {
		if p := h.partOf(r); p != nil {
			if h.clock() >= p.until {
				missing += p.held // it is too late with giving back
			}
		}
	}
	if left-weights > one.share()+missing {
		f.rt.Fatalf("at %d the fleet refuses %d of %d hits, with %d left by the model", f.now, weights, one.limit(), left)
	}
}

// ban is a ban in Redis.
type ban struct {
	rule store.Rule
	ends int64
}

// endBans ends the bans whose time has come: their counters are empty then.
func (f *fleet) endBans() {
	for at, b := range f.bans {
		if b.ends > 0 && f.now >= b.ends {
			f.inModel(f.admits, store.Reset, b.rule)
			f.inModel(f.counts, store.Reset, b.rule)
			f.bans[at] = ban{}
		}
	}
}

// operate carries out an operation that does not depend on parts.
func (f *fleet) operate(h *holder, op store.Op) {
	p := f.plan(op)
	if op == store.Reset {
		p.Sets = p.Sets[:1]
	}
	f.endBans()
	if op == store.Update {
		f.fit(rulesOf(p))
	}
	var a store.Answers
	a.Reset(len(p.Sets))
	if err := h.Evaluate(context.Background(), p, &a); err != nil {
		f.rt.Fatal(err)
	}
	if op == store.Browse {
		return
	}
	f.endBans() // a reset gives back first, which takes time
	if op != store.Update {
		f.loseUnreported(rulesOf(p))
	}
	f.counts.Evaluate(p)
	if op == store.Update {
		return
	}
	f.admits.Evaluate(p)
	if op != store.Reset {
		return
	}
	for _, r := range rulesOf(p) { // what is held opens a window
		r.Weight, r.Overdraft, r.Ban = 1, false, 0
		if r.Method == store.Count && f.peek(r).Hits > 0 {
			for _, m := range []*machine.Model{f.admits, f.counts} {
				f.inModel(m, store.Update, r)
				f.inModel(m, store.Refund, r)
			}
		}
		for at := range f.bans {
			if f.bans[at].rule.Return == r.Return {
				f.bans[at] = ban{}
			}
		}
	}
}

// loseUnreported takes note of what a reset or a refund has left counted: what instances
// have spent of their parts, and Redis believes to be held.
func (f *fleet) loseUnreported(rules []store.Rule) {
	for _, r := range rules {
		g, err := f.redis.Lease(context.Background(), &store.Lease{Now: f.now, Rule: r})
		if err != nil {
			f.rt.Fatal(err)
		}
		for _, h := range f.holders {
			if p := h.partOf(&r); p != nil {
				g.Held -= p.held
			}
		}
		f.lost[string(appendName(nil, &r))] += max(g.Held, 0)
	}
}

// fit counts an update in the model, as far as there is room: what is held is counted
// already, whatever is recorded after it.
func (f *fleet) fit(rules []store.Rule) {
	room := map[int64]int64{}
	for _, r := range rules {
		if _, known := room[r.Return]; !known {
			room[r.Return] = f.peek(r).Remaining
		}
		r.Weight = min(r.Weight, room[r.Return])
		room[r.Return] -= r.Weight
		f.inModel(f.admits, store.Update, r)
	}
}

// peek returns the state of a counter in Redis.
func (f *fleet) peek(r store.Rule) *store.Answer {
	r.Weight = 0
	p := &store.Plan{Op: store.Peek, Now: f.now, Zone: time.UTC, Sets: []store.Set{{Rules: []store.Rule{r}}}}
	var a store.Answers
	if err := f.redis.Evaluate(context.Background(), p, &a); err != nil {
		f.rt.Fatal(err)
	}
	return &a.Sets[0]
}

// check fails if the instances hold more than their share.
func (f *fleet) check() {
	held, most := map[string]int64{}, map[string]int64{}
	for _, h := range f.holders {
		now := h.clock()
		for i := range h.shards {
			for name, p := range h.shards[i].parts {
				if now < p.until {
					held[name] += p.held
				}
				most[name] = p.most()
			}
		}
	}
	for name, n := range held {
		if n > most[name] {
			f.rt.Fatalf("at %d the instances hold %d hits of %q, more than %d", f.now, n, name, most[name])
		}
	}
}
