package memory

import (
	"hash/maphash"
	"math"
	"slices"
	"sync"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// maxSeeded is the number of identities per shard that Seed may add: about 65,000
// in all, enough for the relevant ones and too few to be a burden.
const maxSeeded = 1024

// Seed makes the counters of rules that refused answer as another store just
// did: they refuse the same weight for as long as its answer states, and count at
// least the hits that it reports. So identities that are refused when Redis
// becomes unreachable stay refused. Seed replaces what m itself had counted for
// these rules.
//
// The counters of other rules that the answers report take over those states when
// they are next used here, unless they hold more hits.
//
// Times are durations from now: the clock of the other store may differ.
func (m *Store) Seed(p *store.Plan, a *store.Answers) {
	for i := range a.Sets {
		one := &a.Sets[i]
		if one.Reporter < 0 {
			continue
		}
		r := &p.Sets[i].Rules[one.Reporter]
		switch {
		case p.Op == store.Reset:
			m.forget(r)
		case one.Banned:
			m.forget(r) // also the hits before the ban
			m.seedRefusal(p, r, one, a.Now)
		case one.Decider < 0 || one.Retry <= 0 || p.Sets[i].Refund:
			m.record(p, i, one, a.Now)
		default:
			m.seedRefusal(p, r, one, a.Now)
		}
	}
}

// forget deletes the rule's counter and the last state of another store: it was reset
// there, or banned.
func (m *Store) forget(r *store.Rule) {
	subject, _ := m.keptUnder(r.Subject, nil)
	hash := maphash.Bytes(m.seed, subject)
	s := &m.shards[hash%shards]
	s.Lock()
	s.forget(subject, r)
	s.Unlock()
	if last := m.last.Load(); last != nil {
		last.take(nameOf(hash, r), 0)
	}
}

func (m *Store) seedRefusal(p *store.Plan, r *store.Rule, a *store.Answer, clock int64) {
	from := m.steps.Get().(*step) // for its moment
	defer m.steps.Put(from)
	from.at = m.moment(p)
	t := &from.at
	subject, _ := m.keptUnder(r.Subject, nil)
	hash := maphash.Bytes(m.seed, subject)
	if last := m.last.Load(); last != nil {
		end := clock + a.Reset
		if method.Of(r.Method).Slides && a.Reset < r.Time*1000 {
			end++ // also a state with the same newest hit, since when others may have left
		}
		last.drop(nameOf(hash, r), end, a.Daily)
	}
	s := &m.shards[hash%shards]
	s.Lock()
	defer s.Unlock()
	c := s.cell(subject, r)
	if c == nil {
		s.sweep(t.now) // first, so that it does not drop the new counter before it is seeded
		if len(s.subjects) >= maxSeeded {
			s.grown++
			return
		}
		if s.make(subject, r) == nil {
			return
		}
		c = s.cell(subject, r)
	}
	c.counter.seed(r, a, t)
	c.seeded, s.seeds = true, true
}

// counted records that the rule's counter for a subject no longer holds only
// what Seed has set.
func (s *shard) counted(subject []byte, r *store.Rule) {
	if c := s.cell(subject, r); c != nil {
		c.seeded = false
	}
}

// ForgetCounted forgets all counters except counters that hold only states that Seed
// set: the other store refuses what they refuse.
func (m *Store) ForgetCounted() {
	for i := range m.shards {
		m.shards[i].forgetCounted()
	}
}

func (s *shard) forgetCounted() {
	s.Lock()
	defer s.Unlock()
	kept := make(map[string][]cell)
	if s.seeds {
		for subject, cells := range s.subjects {
			cells = slices.DeleteFunc(cells, func(c cell) bool { return !c.seeded })
			if len(cells) > 0 {
				kept[subject] = cells
			}
		}
	}
	s.subjects, s.spilled, s.peak, s.seeds = kept, nil, len(kept), len(kept) > 0
}

// seed sets the window to the hits and the end that a refusal reports.
func (w *window) seed(_ *store.Rule, a *store.Answer, t *moment) {
	if a.Banned {
		w.ban(t.now + a.Reset)
		return
	}
	*w = window{hits: a.Limit - a.Remaining, opened: t.now, end: t.now + a.Reset}
}

// seed sets both windows. The answer does not contain the day's free hits once
// they are used up, nor the second window before that: then it becomes as full as
// it must be to refuse.
func (d *daily) seed(r *store.Rule, a *store.Answer, t *moment) {
	if !a.Daily {
		d.today = window{hits: r.Base, end: t.dayEnd()}
		d.second = window{hits: a.Limit - a.Remaining, end: t.now + a.Retry}
		return
	}
	d.today = window{hits: a.Limit - a.Remaining, end: t.now + a.Reset}
	_, counting := d.split(r, t.now)
	d.second = window{hits: max(r.Count-counting+1, 0), end: t.now + a.Retry}
}

// sameRefusal is the largest difference between two answers about the same hits,
// in ms: the clocks of two stores are not synchronized.
const sameRefusal = 5

// seed sets two runs: the hits that must leave before the weight fits, and all
// others, as if they were counted with the newest.
func (s *slide) seed(r *store.Rule, a *store.Answer, t *moment) {
	if a.Banned {
		s.ban(t.now + a.Reset)
		return
	}
	gone := t.now + a.Reset
	if late := gone - s.gone; -sameRefusal <= late && late <= sameRefusal {
		return // no hit was counted since
	}
	hits := a.Limit - a.Remaining
	first := max(hits-(r.Count-needed(r)), 1)
	newest := max(gone-r.Time*1000, 1)
	oldest := max(t.now+a.Retry-r.Time*1000, 1)
	*s = slide{newest: run{newest, hits}, gone: gone}
	if first < hits && oldest < newest {
		s.older = []run{{oldest, first}}
	}
}

// seed sets the level so that the weight fits at the instant that the answer states.
func (b *bucket) seed(r *store.Rule, a *store.Answer, t *moment) {
	size, unit, refill := sizeOf(r), r.Time*1000, refillOf(r)
	level := min(needed(r), size/unit) * unit
	if a.Retry < ceilDiv(mostBelow-(size-level), refill) {
		level -= a.Retry * refill
	} else {
		level = size - mostBelow
	}
	*b = bucket{}
	b.set(level, r, t.now)
}

// states holds the last state that another store reported for each of about
// 65,000 counters: in rescue a counter starts from there. A state waits until a
// plan reaches its counter here, which then takes it over; so a call that the
// other store answers costs a hash, a lock and a write, and no allocation.
//
// A full table keeps the counters of which the largest part is used. A counter
// that it drops starts from zero in rescue, so it can admit at most what it had
// used before.
type states struct {
	shards [stateShards]stateShard
}

const (
	// stateShards is the number of locks, stateSets the number of sets under
	// each, and stateWays the number of states in a set.
	stateShards = 64
	stateSets   = 256
	stateWays   = 4
	// sameState is the largest difference between the ends of two states with
	// the same newest hit, in ms.
	sameState = 5
)

type stateShard struct {
	sync.Mutex
	sets [stateSets][stateWays]state
}

// state is the state of one counter, as another store reported it.
type state struct {
	name  uint64 // hash of the counter; 0 for none
	limit int64
	hits  int64 // limit less remaining
	end   int64 // when the counter is as new, by the other store's clock, in ms
	until int64 // the same by the clock of this process, or a little later
	daily bool  // the free hits of a base rule
}

// used returns the used part of the limit.
func (s *state) used() float64 { return float64(s.hits) / float64(max(s.limit, 1)) }

// nameOf returns the name of a rule's counter, from the hash of its subject.
func nameOf(hash uint64, r *store.Rule) uint64 {
	return max(hash^(uint64(r.Tag())+1)*0x9e3779b97f4a7c15, 1)
}

// place returns the set that has the state of a name.
func (t *states) place(name uint64) (*stateShard, *[stateWays]state) {
	shard := &t.shards[name%stateShards]
	return shard, &shard.sets[name/stateShards%stateSets]
}

// put records a state. Answers may arrive out of order: of two states the one
// with the newer hit is valid, and of two with the same newest hit the one with
// more hits. replace makes s valid whatever was reported before, as after a
// refund.
func (t *states) put(s *state, now int64, replace bool) {
	shard, set := t.place(s.name)
	shard.Lock()
	defer shard.Unlock()
	at := 0
	for i := range set {
		one := &set[i]
		if one.name == s.name {
			one.merge(s, now, replace)
			return
		}
		if one.until <= now {
			one.name = 0
		}
		if set[at].name != 0 && (one.name == 0 || one.used() < set[at].used()) {
			at = i
		}
	}
	if set[at].name == 0 || set[at].used() <= s.used() {
		set[at] = *s
	}
}

// merge makes s, a state of the same counter, valid, or the state that is newer.
func (s *state) merge(newer *state, now int64, replace bool) {
	switch late := newer.end - s.end; {
	case replace, s.until <= now, late > sameState:
		*s = *newer
	case late >= -sameState && newer.hits >= s.hits:
		newer.until = min(newer.until, s.until) // the time until it was recorded made the later one longer
		*s = *newer
	}
}

// drop removes the state of a name if it ends before end. A refusal that ends later reports it
// all: hits that have left since would count again.
func (t *states) drop(name uint64, end int64, daily bool) {
	shard, set := t.place(name)
	shard.Lock()
	defer shard.Unlock()
	for i := range set {
		if one := &set[i]; one.name == name && one.end < end && one.daily == daily {
			*one = state{}
		}
	}
}

// take removes the state of a name and returns it.
func (t *states) take(name uint64, now int64) (s state, ok bool) {
	shard, set := t.place(name)
	shard.Lock()
	defer shard.Unlock()
	for i := range set {
		if set[i].name == name {
			s, ok = set[i], set[i].until > now
			set[i] = state{}
			return s, ok
		}
	}
	return state{}, false
}

// record records the state that an answer reports. Of several rules it reports
// only the one with the least remaining, or the one that refused.
func (m *Store) record(p *store.Plan, i int, a *store.Answer, clock int64) {
	r := &p.Sets[i].Rules[a.Reporter]
	replace := p.Sets[i].Refund || p.Op == store.Refund || p.Op == store.Reset
	if a.Reset <= 0 && !replace {
		return // nothing is counted
	}
	now := p.Now
	if now == 0 {
		now = m.clock()
	}
	var hashed [16]byte
	subject, _ := m.keptUnder(r.Subject, hashed[:0])
	m.states().put(&state{
		name: nameOf(maphash.Bytes(m.seed, subject), r), limit: a.Limit, hits: a.Limit - a.Remaining,
		end: clock + a.Reset, until: now + a.Reset, daily: a.Daily,
	}, now, replace)
}

// states returns the table, which the first answer of another store creates.
func (m *Store) states() *states {
	if t := m.last.Load(); t != nil {
		return t
	}
	m.last.CompareAndSwap(nil, new(states))
	return m.last.Load()
}

// recall makes the rule's counter at p take over the state that another store
// last reported, if that is still valid.
func (s *step) recall(p *place, r *store.Rule) {
	last, ok := s.last.take(nameOf(p.hash, r), s.at.now)
	if !ok {
		return
	}
	if p.counter == nil {
		if p.counter = p.shard.make(p.subject, r); p.counter == nil {
			return
		}
	}
	last.scale(r)
	p.counter.raise(r, &last, &s.at)
	p.shard.counted(p.subject, r)
}

// scale converts the hits to a smaller limit: with a share of each limit, the
// same share of the remaining hits is left.
func (s *state) scale(r *store.Rule) {
	limit := r.Count
	if s.daily {
		limit = r.Base
	}
	if limit < s.limit {
		s.hits = int64(math.Ceil(float64(s.hits) * float64(limit) / float64(s.limit)))
	}
}

// raise raises the hits to the state's, and extends the window to its end.
func (w *window) raise(_ *store.Rule, s *state, t *moment) {
	switch {
	case w.banned(t.now):
		return
	case !w.isOpen(t.now):
		*w = window{opened: t.now}
	}
	w.hits, w.end = max(w.hits, s.hits), max(w.end, s.until)
}

// raise raises the window that the state describes. The day's hits are used up
// if it is the second.
func (d *daily) raise(r *store.Rule, s *state, t *moment) {
	if s.daily {
		d.today.raise(r, s, t)
		return
	}
	d.today.raise(r, &state{hits: r.Base, until: t.dayEnd()}, t)
	d.second.raise(r, s, t)
}

// raise replaces the runs by one that has the hits of the state, as if all were
// as new as the newest, if the state has more hits.
func (s *slide) raise(r *store.Rule, last *state, t *moment) {
	if _, hits := s.live(r, t.now); hits >= last.hits || s.banned(t.now) {
		return
	}
	at := max(last.until-r.Time*1000, s.newest.at, 1)
	*s = slide{newest: run{at, last.hits}, gone: at + r.Time*1000}
}

// raise lowers the level so that the bucket is full when the state says. Only buckets
// of rules that allow it are below empty.
func (b *bucket) raise(r *store.Rule, s *state, t *moment) {
	size, level := sizeOf(r), int64(0)
	if r.Overdraft || r.Wait > 0 {
		level = size - mostBelow
	}
	if left := s.until - t.now; left < ceilDiv(size-level, refillOf(r)) {
		level = size - left*refillOf(r)
	}
	if level < b.levelAt(r, t.now) {
		b.set(level, r, t.now)
	}
}
