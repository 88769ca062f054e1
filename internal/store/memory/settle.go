package memory

import (
	"bytes"
	"context"
	"hash/maphash"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// Settle settles the receipt of a take, whether or not its caller has left.
func (m *Store) Settle(_ context.Context, s *store.Settlement) (store.Settled, error) {
	r := m.receipts.find(s.Receipt)
	if r == nil {
		return store.Settled{}, nil
	}
	got := r.settle(s)
	if got.Known {
		m.receipts.remove(r)
	}
	return got, nil
}

// Renew makes the holds of a receipt last, and the receipt with them.
func (m *Store) Renew(_ context.Context, n *store.Renewal) (store.Settled, error) {
	r := m.receipts.find(n.Receipt)
	if r == nil {
		return store.Settled{}, nil
	}
	return r.renew(n), nil
}

// settle amends the hits of the take, and spends the record.
func (r *record) settle(s *store.Settlement) store.Settled {
	r.lock()
	defer r.unlock()
	t := new(moment)
	*t = r.memory.moment(&store.Plan{Op: store.Update, Now: s.Now, Zone: s.Zone})
	if r.spent || t.now >= r.until {
		return store.Settled{}
	}
	r.spent = true
	for i := range r.counts {
		c := &r.counts[i]
		if c.part == store.NoPart {
			continue
		}
		use := s.Judge.Judge(c.rule.Return, c.rule.Method)
		switch {
		case !use.Concerns:
		case c.part == store.Held:
			c.counter.giveBack(c, t)
			c.changed()
		case c.part == store.Charge && use.Charge:
			r.count(c, c.rule.Weight, t)
		case c.part == store.Estimate && use.Given && r.lastOf(i):
			r.spend(i, use.Hits, t)
		}
	}
	return store.Settled{Known: true, Age: max(t.now-r.begun, 0)}
}

// same reports whether both are parts of one counter.
func (c *taken) same(other *taken) bool {
	return c.part == other.part && c.shard == other.shard && c.rule.Tag() == other.rule.Tag() && bytes.Equal(c.rule.Subject, other.rule.Subject)
}

// lastOf reports whether no later part is one of the counter of part i.
func (r *record) lastOf(i int) bool {
	for j := i + 1; j < len(r.counts); j++ {
		if r.counts[i].same(&r.counts[j]) {
			return false
		}
	}
	return true
}

// spend makes what the take recorded on a counter the hits that were used. i is the last
// of the parts of that counter, which several sets may have.
func (r *record) spend(i int, used int64, t *moment) {
	last := &r.counts[i]
	change, recorded := used, (*taken)(nil)
	for j := range r.counts[:i+1] {
		if c := &r.counts[j]; c.same(last) {
			change -= c.rule.Weight
			if !c.later {
				recorded = c
			}
		}
	}
	switch {
	case recorded == nil:
		r.count(last, used, t)
		return
	case change == 0:
		return
	case method.Of(last.rule.Method).Refills:
		// A bucket that was full since may have been dropped, and is full.
		p := r.placeOf(last)
		if now := p.current(&last.rule, t.now); now == nil || now != recorded.counter {
			if change > 0 {
				below := last.rule
				below.Overdraft = true
				r.add(&below, change, last, t)
			}
			return
		}
	}
	recorded.counter.amend(recorded, change, t)
	recorded.changed()
}

// count records a weight now, whatever the limit: the weight of an outcome, or the used
// hits where the estimate was 0.
func (r *record) count(c *taken, weight int64, t *moment) {
	rule := c.rule
	rule.Marked = false // only what it lets pass empties a bucket further
	r.add(&rule, weight, c, t)
}

// add records a weight on the counter of a part, by a rule of its own.
func (r *record) add(rule *store.Rule, weight int64, c *taken, t *moment) {
	if rule.Weight = weight; weight == 0 {
		return
	}
	p := r.placeOf(c)
	counter := p.shard.find(p.subject, rule)
	if counter == nil {
		var shares bool
		if counter, shares = p.make(rule, t.now); shares {
			r.memory.shared.Add(1)
		}
	}
	counter.add(rule, t)
	c.changed()
}

// placeOf returns the place of a part's counter.
func (r *record) placeOf(c *taken) place {
	hash := maphash.Bytes(r.memory.seed, c.rule.Subject)
	return place{subject: c.rule.Subject, shard: c.shard, part: partOf(hash)}
}

// changed records that the counter of the part does not only hold what Seed has set.
func (c *taken) changed() {
	if c.shard.seeds {
		c.shard.counted(c.rule.Subject, &c.rule)
	}
}

// renew makes the holds of the record that have not run out last, and the record.
func (r *record) renew(n *store.Renewal) store.Settled {
	r.lock()
	defer r.unlock()
	now := r.memory.moment(&store.Plan{Now: n.Now}).now
	if r.spent || now >= r.until {
		return store.Settled{}
	}
	until := r.until
	for i := range r.counts {
		c := &r.counts[i]
		later := now + c.rule.Time*1000
		if c.part != store.Held || c.at <= now || later <= c.at {
			continue
		}
		h := c.counter.(*holds)
		if n := h.release(held{c.at, c.rule.Weight}); n > 0 {
			h.insert(held{later, n})
			c.at, until = later, max(until, later)
		}
	}
	if until > r.until {
		r.memory.receipts.extend(r, until)
	}
	return store.Settled{Known: true, Age: max(now-r.begun, 0)}
}
