package store

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// refusals remembers for a moment which calls Redis has refused, and until when
// it will: under an attack most calls are such, and none of them needs to be
// asked again. What is told from memory is what Redis would tell, as far as
// this process knows: each entry is for one plan to the last threshold, and is
// void as soon as this process has changed one of its counters. What another
// process gives back or resets is not seen, so that an entry lives for
// maxRefusal at most. It may refuse a moment too long, and never admits.
type refusals struct {
	clock   func() int64 // ms, monotonic
	seeds   [2]maphash.Seed
	changes []atomic.Uint32 // how often counters have changed, by their hashes
	shards  [refusalShards]refusalShard
	told    atomic.Int64
}

const (
	// maxRefusal is how long a refusal is told from memory at most, in ms.
	maxRefusal = 1000
	// refusalShards is the number of locks, a power of two.
	refusalShards = 64
	// changeSlots is how many counters' changes are told apart, a power of two.
	// Where two share a slot an entry is dropped too early.
	changeSlots = 1 << 14
)

type refusalShard struct {
	sync.Mutex
	entries []refusal
}

// refusal is the answer to one plan.
type refusal struct {
	name    [2]uint64 // of the plan; 0 where there is no entry
	zone    *time.Location
	own     bool   // the plan brought its own clock
	changes uint64 // of the counters up to the decider's
	now     int64  // of the answer
	asked   int64  // when the call began, by the clock: not after now
	until   int64  // ms after now
	closed  bool   // the window is not open, as far as can be seen: its end moves along
	answer  Answer
}

// newRefusals makes room for about n entries.
func newRefusals(n int) *refusals {
	begin := time.Now()
	f := &refusals{
		clock:   func() int64 { return time.Since(begin).Milliseconds() },
		changes: make([]atomic.Uint32, changeSlots),
	}
	for i := range f.seeds {
		f.seeds[i] = maphash.MakeSeed()
	}
	for i := range f.shards {
		f.shards[i].entries = make([]refusal, (n+refusalShards-1)/refusalShards)
	}
	return f
}

// known is what a call knows of the refusals when it begins.
type known struct {
	asks    bool // it is one that refusals may answer
	begun   int64
	name    [2]uint64
	where   []byte   // which keys are whose
	changes []uint32 // of the counters of its rules
}

// tell answers a call from memory, or makes it ready to be remembered. Its
// plan takes with one set: what the other sets of a refused call are told may
// change at any time.
func (f *refusals) tell(c *call, p *Plan, a *Answers) bool {
	k := &c.known
	k.asks = p.Op == Take && len(p.Sets) == 1 && len(c.keys) > 0 && !p.Sets[0].Refund
	if !k.asks {
		return false
	}
	k.begun = f.clock()
	f.describe(c)
	k.changes = k.changes[:0]
	for i := range p.Sets[0].Rules {
		k.changes = append(k.changes, f.slot(c, i, &p.Sets[0].Rules[i]).Load())
	}
	shard, entry := f.place(k.name)
	shard.Lock()
	defer shard.Unlock()
	if entry.name != k.name || entry.zone != p.Zone || entry.own != (p.Now != 0) || entry.changes != k.sum(entry.answer.Decider) {
		return false
	}
	passed := p.Now - entry.now
	if !entry.own {
		passed = k.begun - entry.asked
	}
	if passed < 0 || passed >= entry.until {
		return false
	}
	told := &a.Sets[0]
	refused := told.Refusals
	*told = entry.answer
	told.Refusals = refused
	if !entry.closed {
		told.Reset -= passed
	}
	if told.Retry >= 0 {
		told.Retry -= passed
	}
	a.Now = entry.now + passed
	f.told.Add(1)
	return true
}

// describe names the call's plan: its rules, and which of its keys is whose.
// The keys alone would not do, since rules one after the other share one.
func (f *refusals) describe(c *call) {
	k := &c.known
	k.where = k.where[:0]
	for i := range c.keys {
		k.where = binary.AppendUvarint(k.where, uint64(c.keys[i].subject))
	}
	for i := range c.names {
		k.where = binary.AppendUvarint(k.where, uint64(c.names[i].end))
	}
	for i, seed := range f.seeds {
		var h maphash.Hash
		h.SetSeed(seed)
		_, _ = h.Write(c.shape.bytes) // it never fails
		_, _ = h.Write(k.where)
		_, _ = h.Write(c.texts)
		k.name[i] = h.Sum64()
	}
}

// keep takes note of what became of a call that was sent: where it may have
// counted, what is remembered of its counters is void, before its caller hears
// of it; where it was refused, and nothing but time changes what it was told
// until a known end, that is remembered. A lost call may still be in a batch: of
// it only the plan and the hashes of its names are looked at, which do not change.
func (f *refusals) keep(c *call, p *Plan, a *Answers, err error, dayEnd func(*Plan, int64) int64) {
	switch p.Op {
	case Browse, Complete, Peek:
		return
	case Take, CompleteTake:
		if err == nil && !p.allowed(a) { // it counted nowhere
			f.remember(c, p, a, dayEnd)
			return
		}
	}
	f.void(c, p)
}

// void drops what is remembered of a call's counters.
func (f *refusals) void(c *call, p *Plan) {
	at := 0
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			f.slot(c, at, &p.Sets[i].Rules[j]).Add(1)
			at++
		}
	}
}

// changed tells the refusals of a call that may have changed its counters: one
// of those that a plan over several slots consists of.
func (r *Redis) changed(c *call, p *Plan) {
	if r.refusals != nil {
		r.refusals.void(c, p)
	}
}

func (f *refusals) remember(c *call, p *Plan, a *Answers, dayEnd func(*Plan, int64) int64) {
	told := &a.Sets[0]
	if !c.known.asks || told.Decider < 0 || len(told.Refusals) > 0 {
		return
	}
	r := &p.Sets[0].Rules[told.Decider]
	until := min(maxRefusal, told.Reset)
	if told.Retry >= 0 {
		until = min(until, told.Retry)
	}
	switch {
	case r.Method == Token, r.Method == Leak && r.Weight > 1:
		return // what remains grows all the time, or before all of the weight fits
	case r.Method != Count && told.Retry < 0:
		return // what remains changes without an end that is told
	case r.Method == Base:
		until = min(until, dayEnd(p, a.Now)-a.Now) // then hits are free
	}
	shard, entry := f.place(c.known.name)
	shard.Lock()
	defer shard.Unlock()
	before := *entry
	*entry = refusal{
		name:    c.known.name,
		zone:    p.Zone,
		own:     p.Now != 0,
		changes: c.known.sum(told.Decider),
		now:     a.Now,
		asked:   c.known.begun,
		until:   until,
		closed:  told.Retry < 0 && r.Time != Day && told.Reset == r.Time*1000,
		answer:  *told,
	}
	entry.answer.Refusals = nil
	if entry.closed && !before.closedLongerThan(entry) {
		entry.until = 0 // the next answer will tell
	}
}

// closedLongerThan tells whether the window of a rule that has no room for the
// weight, as a ban has for none, was closed at the later of two refusals. A
// window that opens at that instant has as long to go as one that is closed.
func (r *refusal) closedLongerThan(later *refusal) bool {
	return r.closed && r.name == later.name && r.zone == later.zone && r.own == later.own &&
		r.changes == later.changes && r.now < later.now
}

// forget voids everything.
func (f *refusals) forget() {
	for i := range f.changes {
		f.changes[i].Add(1)
	}
}

// slot counts the changes of the counter of the call's rule number i.
func (f *refusals) slot(c *call, i int, r *Rule) *atomic.Uint32 {
	return &f.changes[(c.names[c.keys[i].subject].hash^uint64(r.tag()))%changeSlots]
}

// sum is the number of changes up to the rule that decided.
func (k *known) sum(decider int) uint64 {
	sum := uint64(0)
	for _, n := range k.changes[:min(decider+1, len(k.changes))] {
		sum += uint64(n)
	}
	return sum
}

// place is where a plan's entry is; another's is overwritten.
func (f *refusals) place(name [2]uint64) (*refusalShard, *refusal) {
	shard := &f.shards[name[0]%refusalShards]
	return shard, &shard.entries[name[1]%uint64(len(shard.entries))]
}
