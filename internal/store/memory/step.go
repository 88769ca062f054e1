package memory

import (
	"hash/maphash"
	"math/bits"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// step is the evaluation of one plan, which holds the locks of all its counters.
type step struct {
	memory  *Store
	plan    *store.Plan
	at      moment
	got     reading // of the last read
	locked  uint64  // the shards whose locks are held, a bit each
	places  []place // one per rule, set by set
	hashes  []byte  // of long subjects
	first   []int   // per set, the index of its first place
	journal []saved
	last    *states // nil if no other store ever answered
	shares  int     // number of rules counted on shared counters

	lasts   bool   // a rule has an overdraft or a ban
	records bool   // the plan is a take, and a rule has a wait or settles
	settles bool   // a rule settles
	parts   int    // number of parts of the receipt
	kept    bool   // the receipt is kept
	again   bool   // sets are answered again after an undo
	wait    int64  // the longest wait of a rule that admitted
	waiter  [2]int // its set and rule
	lasting []lasting
	taken   []taken
	before  saved // by record
}

// place is where a rule's counter is.
type place struct {
	subject []byte // as keptUnder returns it
	shard   *shard
	hash    uint64
	counter counter // nil until one is found or made
	part    uint8   // the shared counter for a subject that does not fit
	admits  bool    // the rule has an overdraft or a ban, and admitted its weight
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
	s.lasts, s.records, s.settles, s.kept, s.again, s.wait, s.parts = false, false, false, false, false, 0, 0
	s.lasting, s.taken = s.lasting[:0], s.taken[:0]
	s.last = s.memory.last.Load()
	s.places, s.first, s.journal, s.hashes = s.places[:0], s.first[:0], s.journal[:0], s.hashes[:0]
	for i := range p.Sets {
		s.first = append(s.first, len(s.places))
		for j := range p.Sets[i].Rules {
			r := &p.Sets[i].Rules[j]
			s.lasts = s.lasts || r.Overdraft || r.Ban > 0
			s.records = s.records || r.Wait > 0
			s.settles = s.settles || r.Settles()
			var subject []byte
			subject, s.hashes = s.memory.keptUnder(r.Subject, s.hashes)
			hash := maphash.Bytes(s.memory.seed, subject)
			s.locked |= 1 << (hash % shards)
			s.places = append(s.places, place{subject: subject, hash: hash, shard: &s.memory.shards[hash%shards], part: partOf(hash)})
		}
	}
	s.records = (s.records || s.settles) && (p.Op == store.Take || p.Op == store.CompleteTake)
	for left := s.locked; left != 0; left &= left - 1 {
		s.memory.shards[bits.TrailingZeros64(left)].Lock()
	}
}

// readClock reads the clock while the locks are held: a step never counts at an
// earlier instant than a previous step on its counters.
func (s *step) readClock() {
	p := s.plan
	s.at = s.memory.moment(p)
	if s.settles {
		s.at.full = !s.memory.receipts.reserve(s.at.now)
	}
	for left := s.locked; left != 0; left &= left - 1 {
		if shard := &s.memory.shards[bits.TrailingZeros64(left)]; shard.grown > 0 {
			shard.sweep(s.at.now)
		}
	}
}

// end releases the locks and the references to the plan.
func (s *step) end() {
	if s.settles && !s.at.full && !s.kept {
		s.memory.receipts.release()
	}
	for left := s.locked; left != 0; left &= left - 1 {
		s.memory.shards[bits.TrailingZeros64(left)].Unlock()
	}
	clear(s.places)
	clear(s.journal)
	clear(s.lasting)
	clear(s.taken)
	s.plan = nil
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
// one. The result is valid until the next read.
func (s *step) read(i, j int) *reading {
	r := &s.plan.Sets[i].Rules[j]
	c := s.own(i, j)
	if c == nil {
		p := &s.places[s.first[i]+j]
		c = p.shard.spill(r, p.part, s.at.now)
	}
	if c == nil {
		c = unused[r.Method]
	}
	c.read(r, &s.at, &s.got)
	return &s.got
}

// change returns the counter of rule j of set i, made if needed, for the caller to
// change. The counter then no longer counts as only seeded. change saves it if a
// refusal of another set may undo the change. A ban, which will not change, still
// counts as seeded.
func (s *step) change(i, j int) counter {
	c := s.own(i, j)
	if c == nil {
		c = s.make(i, j)
	} else if p := &s.places[s.first[i]+j]; p.shard.seeds && !c.banned(s.at.now) {
		p.shard.counted(p.subject, &s.plan.Sets[i].Rules[j])
	}
	if len(s.plan.Sets) > 1 {
		s.journal = append(s.journal, saved{})
		s.journal[len(s.journal)-1].save(c)
	}
	return c
}

// undo undoes every change, the last first, and carries out the lasting ones again:
// alone, as if nothing else had been counted.
func (s *step) undo() {
	for i := range s.taken {
		if method.Of(s.taken[i].rule.Method).Holds {
			s.taken[i].counter.giveBack(&s.taken[i], &s.at)
		}
	}
	for i := len(s.journal) - 1; i >= 0; i-- {
		s.journal[i].restore()
	}
	for i := range s.lasting {
		l := &s.lasting[i]
		if l.bans {
			l.counter.ban(s.at.now + l.rule.Ban*1000)
		} else {
			l.counter.add(l.rule, &s.at)
		}
	}
}
