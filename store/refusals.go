package store

import (
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
	begin   time.Time // the monotonic clock's
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
	seen    int64  // when the answer came, ms since begin
	until   int64  // ms after now
	answer  Answer
}

// newRefusals makes room for about n entries.
func newRefusals(n int) *refusals {
	f := &refusals{begin: time.Now(), changes: make([]atomic.Uint32, changeSlots)}
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
	name    [2]uint64
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
	for i, seed := range f.seeds {
		var h maphash.Hash
		h.SetSeed(seed)
		_, _ = h.Write(c.shape.bytes) // it never fails
		_, _ = h.Write(c.texts)
		k.name[i] = h.Sum64()
	}
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
		passed = f.clock() - entry.seen
	}
	if passed < 0 || passed >= entry.until {
		return false
	}
	told := &a.Sets[0]
	refused := told.Refusals
	*told = entry.answer
	told.Refusals = refused
	told.Reset -= passed
	told.Retry -= passed
	a.Now = entry.now + passed
	f.told.Add(1)
	return true
}

// keep takes note of what became of a call that was sent: where it may have
// counted, what is remembered of its counters is void, before its caller hears
// of it; where it was refused, and nothing but time changes what it was told
// until a known end, that is remembered. A lost call is another's to read: of it
// only the plan is touched.
func (f *refusals) keep(c *call, p *Plan, a *Answers, err error, dayEnd func(*Plan, int64) int64) {
	switch p.Op {
	case Browse, Complete, Peek:
		return
	case Take:
		if err == nil && len(p.Sets) == 1 && a.Sets[0].Decider >= 0 && !p.Sets[0].Rules[a.Sets[0].Decider].Allows {
			f.remember(c, p, a, dayEnd) // it counted nowhere
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
	if !c.known.asks || told.Retry <= 0 || len(told.Refusals) > 0 {
		return
	}
	r := &p.Sets[0].Rules[told.Decider]
	// What remains of a bucket grows all the time, and of a leak rule before all
	// of a greater weight fits.
	if r.Method == Token || r.Method == Leak && r.Weight > 1 {
		return
	}
	until := min(maxRefusal, told.Retry, told.Reset)
	if r.Method == Base {
		until = min(until, dayEnd(p, a.Now)-a.Now) // then hits are free
	}
	shard, entry := f.place(c.known.name)
	shard.Lock()
	defer shard.Unlock()
	*entry = refusal{
		name:    c.known.name,
		zone:    p.Zone,
		own:     p.Now != 0,
		changes: c.known.sum(told.Decider),
		now:     a.Now,
		seen:    f.clock(),
		until:   until,
		answer:  *told,
	}
	entry.answer.Refusals = nil
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

// clock is the time since begin, in ms.
func (f *refusals) clock() int64 { return time.Since(f.begin).Milliseconds() }
