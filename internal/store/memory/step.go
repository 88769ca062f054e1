package memory

import (
	"hash/maphash"
	"math/bits"

	"github.com/koalagate/koalagate/internal/store"
)

// step is the evaluation of one plan, which holds the locks of all its counters.
// It walks rules as redis/lua/decide.lua does.
type step struct {
	memory  *Store
	plan    *store.Plan
	at      moment
	locked  uint64  // the shards whose locks are held, a bit each
	places  []place // one per rule, set by set
	hashes  []byte  // of long subjects
	first   []int   // per set, the index of its first place
	journal []saved
	last    *states // nil if no other store ever answered
	shares  int     // number of rules counted on shared counters
}

// place is where a rule's counter is.
type place struct {
	subject []byte // as keptUnder returns it
	shard   *shard
	hash    uint64
	counter counter // nil until one is found or made
	part    uint8   // the shared counter for a subject that does not fit
}

// carryOut evaluates the plan and returns the number of rules that it counted on
// shared counters. A panic reaches the caller, after the locks are released.
func (s *step) carryOut(p *store.Plan, a *store.Answers) (shares int) {
	s.begin(p)
	defer s.end()
	s.readClock()
	a.Reset(len(p.Sets))
	a.Now = s.at.now
	s.decide(a)
	return s.shares
}

// begin takes the locks of the plan's counters, in the order of the shards, which
// prevents deadlocks between steps.
func (s *step) begin(p *store.Plan) {
	s.plan, s.locked, s.shares = p, 0, 0
	s.last = s.memory.last.Load()
	s.places, s.first, s.journal, s.hashes = s.places[:0], s.first[:0], s.journal[:0], s.hashes[:0]
	for i := range p.Sets {
		s.first = append(s.first, len(s.places))
		for j := range p.Sets[i].Rules {
			var subject []byte
			subject, s.hashes = s.memory.keptUnder(p.Sets[i].Rules[j].Subject, s.hashes)
			hash := maphash.Bytes(s.memory.seed, subject)
			s.locked |= 1 << (hash % shards)
			s.places = append(s.places, place{subject: subject, hash: hash, shard: &s.memory.shards[hash%shards], part: partOf(hash)})
		}
	}
	for left := s.locked; left != 0; left &= left - 1 {
		s.memory.shards[bits.TrailingZeros64(left)].Lock()
	}
}

// readClock reads the clock while the locks are held: a step never counts at an
// instant before that of an earlier step on its counters.
func (s *step) readClock() {
	p := s.plan
	s.at = s.memory.moment(p)
	for left := s.locked; left != 0; left &= left - 1 {
		if shard := &s.memory.shards[bits.TrailingZeros64(left)]; shard.grown > 0 {
			shard.sweep(s.at.now)
		}
	}
}

// end releases the locks and the references to the plan.
func (s *step) end() {
	for left := s.locked; left != 0; left &= left - 1 {
		s.memory.shards[bits.TrailingZeros64(left)].Unlock()
	}
	clear(s.places)
	clear(s.journal)
	s.plan = nil
}

// decide answers every set of the plan.
func (s *step) decide(a *store.Answers) {
	if s.plan.Op == store.Take || s.plan.Op == store.CompleteTake {
		s.take(a)
		return
	}
	for i := range s.plan.Sets {
		s.answer(i, &a.Sets[i])
	}
}

// answer evaluates one set of a plan that decides each set by itself.
func (s *step) answer(i int, a *store.Answer) {
	set := &s.plan.Sets[i]
	switch s.plan.Op {
	case store.Browse:
		s.walk(i, a)
	case store.Complete:
		s.complete(i, a)
	case store.Update:
		s.count(i, len(set.Rules), nil)
	case store.Refund:
		s.refund(i)
	case store.Reset:
		for j := range set.Rules {
			p := &s.places[s.first[i]+j]
			p.shard.forget(p.subject, &set.Rules[j])
			p.counter = nil
		}
	}
	s.report(i, a)
}

// take evaluates a plan that counts everything if every set allows.
func (s *step) take(a *store.Answers) {
	refused := false
	for i := range s.plan.Sets {
		if !s.takeSet(i, &a.Sets[i]) {
			refused = true
		}
	}
	if !refused {
		return
	}
	s.undo()
	for i := range s.plan.Sets {
		if s.allows(i, &a.Sets[i]) {
			a.Sets[i].Clear()
			s.answerAgain(i, &a.Sets[i])
		}
	}
}

// takeSet decides one set, counts it if it allows, and reports whether it does.
func (s *step) takeSet(i int, a *store.Answer) bool {
	set := &s.plan.Sets[i]
	if set.Refund {
		s.refund(i)
		s.report(i, a)
		return true
	}
	walked := len(set.Rules)
	if s.plan.Op == store.Take {
		walked = s.walk(i, a)
	} else {
		s.complete(i, a)
	}
	allows := s.allows(i, a)
	if allows {
		s.count(i, walked, a.Refusals)
	}
	s.report(i, a)
	return allows
}

// answerAgain answers a set that allowed and was undone because another refused.
func (s *step) answerAgain(i int, a *store.Answer) {
	switch {
	case s.plan.Sets[i].Refund:
	case s.plan.Op == store.Take:
		s.walk(i, a)
	default:
		s.complete(i, a)
	}
	s.report(i, a)
}

// walk reads the set's rules in order up to the one that decides, and returns the
// number of rules above it: all of them if none decides.
func (s *step) walk(i int, a *store.Answer) int {
	rules := s.plan.Sets[i].Rules
	for j := range rules {
		got := s.read(i, j)
		switch {
		case got.admits:
		case rules[j].Shadow:
			a.Refusals = append(a.Refusals, j)
		default:
			decide(a, j, got)
			return j
		}
	}
	return len(rules)
}

// complete reads all rules of the set. The decider is the first that refuses and
// is not a shadow rule, as in walk.
func (s *step) complete(i int, a *store.Answer) {
	rules := s.plan.Sets[i].Rules
	for j := range rules {
		got := s.read(i, j)
		if got.admits {
			continue
		}
		a.Refusals = append(a.Refusals, j)
		if a.Decider < 0 && !rules[j].Shadow {
			decide(a, j, got)
		}
	}
}

// allows reports whether the answer allows the set. An answer of CompleteTake with
// a decider never does, whatever that rule's Allows.
func (s *step) allows(i int, a *store.Answer) bool {
	set := &s.plan.Sets[i]
	switch {
	case set.Refund:
		return true
	case s.plan.InRescue && reachesStrict(set, a.Decider):
		return false
	case a.Decider < 0:
		return set.Allows
	case s.plan.Op == store.Take:
		return set.Rules[a.Decider].Allows
	}
	return false
}

// report reports the rule with the least remaining if none decided.
func (s *step) report(i int, a *store.Answer) {
	if a.Decider >= 0 {
		return
	}
	single := s.plan.Op == store.Peek || s.plan.Op == store.Reset
	rules := s.plan.Sets[i].Rules
	for j := range rules {
		if rules[j].Shadow && !single {
			continue
		}
		got := s.read(i, j)
		if a.Reporter >= 0 && got.remaining >= a.Remaining {
			continue
		}
		report(a, j, got)
		if single {
			a.Hits = got.hits
		}
	}
}

// count counts the first n rules of the set except those in refusing, which is
// sorted.
func (s *step) count(i, n int, refusing []int) {
	rules := s.plan.Sets[i].Rules[:n]
	for j := range rules {
		if len(refusing) > 0 && refusing[0] == j {
			refusing = refusing[1:]
			continue
		}
		if rules[j].Weight > 0 {
			s.change(i, j).add(&rules[j], s.at)
		}
	}
}

// refund gives back the weights of the set.
func (s *step) refund(i int) {
	rules := s.plan.Sets[i].Rules
	for j := range rules {
		if rules[j].Weight > 0 && s.own(i, j) != nil {
			s.change(i, j).refund(&rules[j], s.at)
		}
	}
}

// own returns the subject's own counter for rule j of set i; nil if there is none.
func (s *step) own(i, j int) counter {
	p := &s.places[s.first[i]+j]
	if p.counter == nil {
		// Not cached if nil: an earlier rule of the plan may still make it.
		p.counter = p.shard.find(p.subject, &s.plan.Sets[i].Rules[j])
		if s.last != nil {
			s.recall(p, &s.plan.Sets[i].Rules[j])
		}
	}
	return p.counter
}

// read reads the counter of rule j of set i: its own, the shared one, or an unused
// one.
func (s *step) read(i, j int) reading {
	r := &s.plan.Sets[i].Rules[j]
	c := s.own(i, j)
	if c == nil {
		p := &s.places[s.first[i]+j]
		c = p.shard.spill(r, p.part, s.at.now)
	}
	if c == nil {
		c = unused[r.Method]
	}
	return c.read(r, s.at)
}

// change returns the counter of rule j of set i, made if needed, for the caller to
// change. The counter then no longer counts as only seeded. change saves it if a
// refusal of another set may undo the change.
func (s *step) change(i, j int) counter {
	c := s.own(i, j)
	if c == nil {
		c = s.make(i, j)
	} else if p := &s.places[s.first[i]+j]; p.shard.seeds {
		p.shard.counted(p.subject, &s.plan.Sets[i].Rules[j])
	}
	if len(s.plan.Sets) > 1 {
		s.journal = append(s.journal, saved{})
		s.journal[len(s.journal)-1].save(c)
	}
	return c
}

// undo undoes every change, the last first.
func (s *step) undo() {
	for i := len(s.journal) - 1; i >= 0; i-- {
		s.journal[i].restore()
	}
}

// decide records that rule j decided.
func decide(a *store.Answer, j int, got reading) {
	a.Decider = j
	report(a, j, got)
	a.Retry = got.retry
}

// report records that the numbers are those of rule j.
func report(a *store.Answer, j int, got reading) {
	a.Reporter = j
	a.Limit, a.Remaining, a.Reset = got.limit, got.remaining, got.reset
	a.Daily = got.daily
}

// reachesStrict reports whether a walk up to the decider, or over all rules for
// -1, reached a strict rule that is not a shadow rule.
func reachesStrict(set *store.Set, decider int) bool {
	walked := set.Rules
	if decider >= 0 {
		walked = walked[:decider+1]
	}
	for j := range walked {
		if walked[j].Strict && !walked[j].Shadow {
			return true
		}
	}
	return false
}
