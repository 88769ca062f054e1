package memory

import (
	"bytes"
	"context"
	"math/bits"
	"slices"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// record has the hits that a take counted, so that Cancel can give them back and a
// settlement can amend them. It refers to the counters themselves: hits that a reset or the
// end of a counter has dropped since are out of reach.
type record struct {
	memory *Store
	locks  uint64 // the shards of the counters, a bit each
	counts []taken
	one    [1]taken // the array of counts, if that is enough

	receipt string // "" for none
	begun   int64  // the instant of the take
	until   int64  // when the receipt expires
	place   int    // in the heap of its shard of receipts
	spent   bool   // by a settlement or Cancel; the locks guard it
}

// taken has the hits of a take on one counter, or the part that a rule on which it
// counted nothing has in its receipt.
type taken struct {
	rule    store.Rule // its Subject is the key of the counter if the rule has a part
	counter counter    // nil if there was none
	part    store.Part
	later   bool      // an estimate of 0 that is recorded when it is settled
	window  takenHits // token: hits is the number of units
	second  takenHits // base: of the second window
	at      int64     // instant of the run (leak), of the level (token) or of the end (hold)
	level   int64     // token: before the take
	shard   *shard
}

// takenHits are hits of one window, which opened and end identify.
type takenHits struct {
	hits, opened, end int64
	opens             bool // the take opened the window
}

// record counts the rule's weight on c and adds it to the record of the take.
func (s *step) record(p *place, r *store.Rule, c counter) {
	s.before.save(c)
	c.add(r, &s.at)
	s.taken = append(s.taken, taken{rule: *r, counter: c, shard: p.shard})
	got := &s.taken[len(s.taken)-1]
	c.taken(got, &s.before, &s.at)
	got.rule.Subject = p.subject
	s.before = saved{}
}

// part adds the part of rule j of set i to the record: to what the set counted on it, or
// to nothing.
func (s *step) part(i, j int, part store.Part) {
	r, p := &s.plan.Sets[i].Rules[j], &s.places[s.first[i]+j]
	if part != store.Charge && r.Weight > 0 {
		for k := len(s.taken) - 1; k >= 0; k-- {
			t := &s.taken[k]
			if t.part == store.NoPart && t.rule.Tag() == r.Tag() && bytes.Equal(t.rule.Subject, p.subject) {
				t.part = part
				s.parts++
				return
			}
		}
		return // a banned counter recorded nothing
	}
	t := taken{rule: *r, part: part, shard: p.shard, counter: p.current(r, s.at.now), at: s.at.now, level: sizeOf(r), later: !method.Of(r.Method).Refills}
	t.rule.Subject = p.subject
	s.taken = append(s.taken, t)
	if t.counter != nil {
		t.counter.untaken(&s.taken[len(s.taken)-1], &s.at)
	}
	s.parts++
}

// addParts adds the parts of a set that its answer allows: of the first rules, which
// were walked, and of a decider that recorded an overdraft.
func (s *step) addParts(i, walked int, a *store.Answer) {
	rules, refusing := s.plan.Sets[i].Rules, a.Refusals
	for j := range rules[:walked] {
		if len(refusing) > 0 && refusing[0] == j {
			refusing = refusing[1:]
			if !s.passes(&rules[j]) {
				continue
			}
		}
		if part := rules[j].Part(); part != store.NoPart {
			s.part(i, j, part)
		}
	}
	if walked < len(rules) && !a.Banned && rules[walked].Overdraft && rules[walked].Weight > 0 && rules[walked].Part() == store.Estimate {
		s.part(i, walked, store.Estimate)
	}
}

// remember keeps the record of the take under a receipt, or for Cancel alone.
func (s *step) remember(a *store.Answers) {
	r := s.taking()
	a.Undo = r
	if s.parts > 0 {
		r.receipt = store.NewReceipt(store.KeptInProcess)
		a.Receipt = r.receipt
		s.memory.receipts.add(r, s.at.now)
		s.kept = true
	}
}

// taking returns the record of the take.
func (s *step) taking() *record {
	r := &record{memory: s.memory, locks: s.locked, begun: s.at.now}
	r.counts = append(r.one[:0], s.taken...)
	if s.parts == 0 {
		for i := range r.counts {
			r.counts[i].rule.Subject = nil // the caller's
		}
		return r
	}
	n := 0
	for i := range r.counts {
		n += len(r.counts[i].rule.Subject)
	}
	subjects := make([]byte, 0, n)
	for i := range r.counts {
		t := &r.counts[i]
		subjects = append(subjects, t.rule.Subject...)
		t.rule.Subject = slices.Clip(subjects[len(subjects)-len(t.rule.Subject):])
		if t.part != store.NoPart {
			r.until = max(r.until, s.at.now+t.rule.ReceiptSpan())
		}
	}
	return r
}

// lock takes the locks of the record's counters.
func (r *record) lock() {
	for left := r.locks; left != 0; left &= left - 1 {
		r.memory.shards[bits.TrailingZeros64(left)].Lock()
	}
}

func (r *record) unlock() {
	for left := r.locks; left != 0; left &= left - 1 {
		r.memory.shards[bits.TrailingZeros64(left)].Unlock()
	}
}

// Cancel gives back the hits of a take that waits for its turn or whose caller left
// before it got its receipt, at the clock of the plan. It is safe to call for answers of
// any plan; nothing is given back for those without Undo.
func (m *Store) Cancel(ctx context.Context, p *store.Plan, a *store.Answers) error {
	r, known := a.Undo.(*record)
	if !known {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	a.Undo = nil
	if r.cancel(p) {
		m.receipts.remove(r)
	}
	return nil
}

// cancel gives back the hits of the record, and reports whether it was not spent before.
func (r *record) cancel(p *store.Plan) bool {
	r.lock()
	defer r.unlock()
	if r.spent {
		return false
	}
	r.spent = true
	t := new(moment)
	*t = r.memory.moment(p)
	for i := len(r.counts) - 1; i >= 0; i-- { // the last first, as it was counted
		if c := &r.counts[i]; c.counter != nil && !c.counter.banned(t.now) {
			c.counter.giveBack(c, t)
		}
	}
	return true
}
