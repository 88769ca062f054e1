package redis

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// refusals remembers for a moment which plans Redis has refused, and until when
// it will refuse them again. Under an attack most calls are such plans, and none
// of them needs another call to Redis. An answer from memory is the answer that
// Redis would give, as far as this process can know: each entry is for exactly
// one plan with its thresholds, and becomes invalid as soon as this process
// changes one of its counters. Refunds and resets by other processes are not
// visible, so an entry lives for at most maxRefusal. It may therefore refuse a
// moment too long, and never admits.
//
// Only while Redis refuses calls does the memory look at others: the first refusal makes
// it attentive for a while, and those that follow are remembered. Otherwise a call costs
// the load of a number that does not change.
type refusals struct {
	clock    func() int64 // ms, monotonic
	calendar *store.Calendar
	awake    atomic.Int64 // the end of the attention by the clock; 0 before the first refusal
	seeds    [2]maphash.Seed
	changes  []atomic.Uint32 // number of changes of counters, by hash
	shards   [refusalShards]refusalShard
	answered atomic.Int64 // plans answered from memory
}

const (
	// maxRefusal is how long an entry lives at most, in ms.
	maxRefusal = 1000
	// attention is how long the memory is attentive after a refusal, in ms. It is longer
	// than an entry lives, so that changes are recorded for as long as one may be used.
	attention = 2 * maxRefusal
	// refusalShards is the number of locks, a power of two.
	refusalShards = 64
	// changeCells is the number of cells that count changes, a power of two.
	// If two counters share a cell, an entry becomes invalid too early.
	changeCells = 1 << 14
)

type refusalShard struct {
	sync.Mutex
	entries []refusal
}

// refusal is the answer to one plan.
type refusal struct {
	name    [2]uint64 // hash of the plan; 0 for no entry
	zone    *time.Location
	own     bool   // the plan has its own clock
	changes uint64 // of the counters up to the decider's
	now     int64  // the clock of the answer
	begun   int64  // when the call began, by the monotonic clock: not after now
	until   int64  // ms after now
	closed  bool   // the window is not open, as far as visible: its end moves with the clock
	answer  store.Answer
}

// newRefusals returns a memory for about n entries, of plans in the days of a calendar.
func newRefusals(n int, calendar *store.Calendar) *refusals {
	begin := time.Now()
	f := &refusals{
		clock:    func() int64 { return time.Since(begin).Milliseconds() },
		calendar: calendar,
		changes:  make([]atomic.Uint32, changeCells),
	}
	for i := range f.seeds {
		f.seeds[i] = maphash.MakeSeed()
	}
	for i := range f.shards {
		f.shards[i].entries = make([]refusal, (n+refusalShards-1)/refusalShards)
	}
	return f
}

// cacheLookup is the state of a call for the cache of refusals, from before it is
// sent.
type cacheLookup struct {
	applies bool // the cache may answer such a call
	begun   int64
	awake   int64 // the end of the attention, as it was known then; 0 for none
	name    [2]uint64
	layout  []byte   // which keys belong to which rule, and the calendar units
	changes []uint32 // of the counters of its rules
}

// answer answers a call from the cache and reports whether it did. If not, it
// prepares the call for update.
func (f *refusals) answer(c *Call, p *store.Plan, a *store.Answers) bool {
	m := &c.lookup
	m.awake = 0
	m.applies = c.repeats(p)
	if !m.applies || !f.attentive() {
		return false
	}
	m.awake = f.awake.Load()
	m.begun = f.clock()
	f.hash(c)
	m.changes = m.changes[:0]
	for i := range p.Sets[0].Rules {
		m.changes = append(m.changes, f.cell(c, i, &p.Sets[0].Rules[i]).Load())
	}
	shard, entry := f.entry(m.name)
	shard.Lock()
	defer shard.Unlock()
	if entry.name != m.name || entry.zone != p.Zone || entry.own != (p.Now != 0) || entry.changes != m.sum(entry.answer.Decider) {
		return false
	}
	since := m.begun - entry.begun
	passed := since
	if entry.own {
		passed = p.Now - entry.now
	}
	if passed < 0 || passed >= entry.until || since >= maxRefusal {
		return false
	}
	got := &a.Sets[0]
	shadows := got.Refusals
	*got = entry.answer
	got.Refusals = shadows
	if !entry.closed {
		got.Reset -= passed
	}
	if got.Retry >= 0 {
		got.Retry -= passed
	}
	a.Now = entry.now + passed
	f.answered.Add(1)
	return true
}

// repeats reports whether only time and changes of its counters can end a refusal of the
// call. Only takes of one set qualify: the answers to the other sets of a refused take may
// change at any time.
func (c *Call) repeats(p *store.Plan) bool {
	return p.Op == store.Take && len(p.Sets) == 1 && len(c.keys) > 0 && !c.frees && !p.Sets[0].Refund && !overdraws(p.Sets[0].Rules)
}

// hash computes the name of the call's plan, from its rules and from which of
// its keys belongs to which rule. The keys alone are not enough, because
// consecutive rules may share one.
func (f *refusals) hash(c *Call) {
	m := &c.lookup
	m.layout = m.layout[:0]
	for i := range c.keys {
		m.layout = binary.AppendUvarint(m.layout, uint64(c.keys[i].subject))
	}
	names, texts := c.names, c.texts
	if c.kept { // the last name belongs to a new receipt
		names = names[:c.key]
		texts = texts[:names[c.key-1].end]
	}
	for i := range names {
		m.layout = binary.AppendUvarint(m.layout, uint64(names[i].end))
	}
	for _, p := range c.periods {
		m.layout = append(m.layout, byte(p.Unit), p.From)
	}
	if c.waits {
		m.layout = binary.AppendVarint(m.layout, c.patience)
	}
	for i, seed := range f.seeds {
		var h maphash.Hash
		h.SetSeed(seed)
		_, _ = h.Write(c.shape.bytes) // it never fails
		_, _ = h.Write(m.layout)
		_, _ = h.Write(texts)
		m.name[i] = h.Sum64()
	}
}

// update records the result of a call that was sent. If the call may have
// counted, it invalidates the entries of its counters, before its caller
// receives the answer. If the call was refused, and only time can change that
// answer until a known instant, it remembers the answer. A batch may still refer
// to an abandoned call: update reads only the plan and the hashes of the names
// then, which do not change.
func (f *refusals) update(c *Call, p *store.Plan, a *store.Answers, err error) {
	switch p.Op {
	case store.Browse, store.Complete, store.Peek:
		return
	case store.Take, store.CompleteTake:
		if err == nil && !p.Allowed(a) { // it counted nothing but overdrafts
			if c.lasts && f.invalidateLasting(c, p, a) {
				return
			}
			f.remember(c, p, a)
			return
		}
	}
	f.invalidate(c, p)
}

// attentive reports whether entries may exist or be made of calls under way.
func (f *refusals) attentive() bool {
	end := f.awake.Load()
	return end != 0 && f.clock() < end
}

// attend makes the memory attentive.
func (f *refusals) attend() {
	end := f.clock() + attention
	for before := f.awake.Load(); before < end && !f.awake.CompareAndSwap(before, end); before = f.awake.Load() {
	}
}

// invalidate drops the entries of the call's counters.
func (f *refusals) invalidate(c *Call, p *store.Plan) {
	if !f.attentive() {
		return
	}
	at := 0
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			f.cell(c, at, &p.Sets[i].Rules[j]).Add(1)
			at++
		}
	}
}

// overdraws reports whether a take of the rules may record an overdraft although it
// is refused. Redis must then be asked each time.
func overdraws(rules []store.Rule) bool {
	return slices.ContainsFunc(rules, func(r store.Rule) bool { return r.Overdraft && r.Weight > 0 })
}

// invalidateLasting drops the entries of the counters that a refused take may have
// changed, and reports whether there are any: counters of overdrafts and of bans that
// it opened.
func (f *refusals) invalidateLasting(c *Call, p *store.Plan, a *store.Answers) (changed bool) {
	at := 0
	for i := range p.Sets {
		got := &a.Sets[i]
		for j := range p.Sets[i].Rules {
			r := &p.Sets[i].Rules[j]
			opens := r.Ban > 0 && (slices.Contains(got.Refusals, j) || j == got.Decider && got.Retry >= r.Ban*1000)
			if r.Weight > 0 && (r.Overdraft || opens) {
				f.cell(c, at, r).Add(1)
				changed = true
			}
			at++
		}
	}
	return changed
}

func (f *refusals) remember(c *Call, p *store.Plan, a *store.Answers) {
	if !c.lookup.applies {
		return
	}
	f.attend()
	got := &a.Sets[0]
	// Without attention all the time since the call began, changes of its counters may be
	// unknown.
	if f.clock() >= c.lookup.awake || !lasts(got) {
		return
	}
	r := &p.Sets[0].Rules[got.Decider]
	until := min(maxRefusal, got.Reset)
	if got.Retry >= 0 {
		until = min(until, got.Retry)
	}
	switch {
	case got.Banned: // nothing changes until the ban ends
	case method.Of(r.Method).Refills, method.Of(r.Method).Logged && r.Weight > 1:
		return // what remains grows continuously, or before the whole weight fits
	case !method.Of(r.Method).Windows && got.Retry < 0:
		return // what remains changes at an instant that the answer does not contain
	case method.Of(r.Method).FirstFree:
		until = min(until, f.calendar.DayEnd(p.Zone, a.Now)-a.Now) // then hits are free
	}
	shard, entry := f.entry(c.lookup.name)
	shard.Lock()
	defer shard.Unlock()
	before := *entry
	*entry = refusal{
		name:    c.lookup.name,
		zone:    p.Zone,
		own:     p.Now != 0,
		changes: c.lookup.sum(got.Decider),
		now:     a.Now,
		begun:   c.lookup.begun,
		until:   until,
		closed:  !got.Banned && got.Retry < 0 && method.Of(r.Method).Windows && r.Unit == store.Seconds && r.Time != store.Day && got.Reset == r.Time*1000,
		answer:  *got,
	}
	entry.answer.Refusals = nil
	if entry.closed && !before.closedBefore(entry) {
		entry.until = 0 // the next answer decides it
	}
}

// lasts reports whether only time can change an answer that refuses: not if other rules
// refuse, too, or because of hits that an instance may give back at any moment.
func lasts(a *store.Answer) bool {
	return a.Decider >= 0 && len(a.Refusals) == 0 && !a.Early
}

// closedBefore reports whether the window was closed at the later of two
// refusals of a weight that exceeds the limit, as every weight does under a ban. A window
// that opens at that instant has as long left as one that is closed.
func (r *refusal) closedBefore(later *refusal) bool {
	return r.closed && r.name == later.name && r.zone == later.zone && r.own == later.own &&
		r.changes == later.changes && r.now < later.now
}

// forget invalidates all entries.
func (f *refusals) forget() {
	for i := range f.changes {
		f.changes[i].Add(1)
	}
}

// cell returns the number of changes of the counter of the call's rule i.
func (f *refusals) cell(c *Call, i int, r *store.Rule) *atomic.Uint32 {
	return &f.changes[(c.names[c.keys[i].subject].hash^uint64(r.Tag()))%changeCells]
}

// sum returns the number of changes up to the rule that decided.
func (m *cacheLookup) sum(decider int) uint64 {
	sum := uint64(0)
	for _, n := range m.changes[:min(decider+1, len(m.changes))] {
		sum += uint64(n)
	}
	return sum
}

// entry returns the place of a plan's entry. It may hold the entry of another plan,
// which is overwritten.
func (f *refusals) entry(name [2]uint64) (*refusalShard, *refusal) {
	shard := &f.shards[name[0]%refusalShards]
	return shard, &shard.entries[name[1]%uint64(len(shard.entries))]
}
