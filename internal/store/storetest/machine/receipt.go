package machine

import (
	"math/big"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// Receipt is what the model keeps of an allowed take, to settle it.
type Receipt struct {
	until int64
	spent bool
	parts []*part
}

// part is what one rule of one set has in a receipt.
type part struct {
	rule   *store.Rule
	kind   store.Part
	before int   // the number of the tally; 0 if there was none
	later  bool  // it is recorded when it is settled, because nothing was open
	opened int64 // count: of the window
	closes int64 // count: of the window
	at     int64 // leak: of the hits; token: of the level
	left   *big.Rat
	hold   *holding
}

// holding is weight that is held until an instant.
type holding struct{ until, n int64 }

// addParts adds the parts of a set that is allowed: of the first rules, which were
// reached, and of a decider that recorded an overdraft.
func (e *evaluation) addParts(i, reached int, a *store.Answer) {
	rules := e.p.Sets[i].Rules
	for j := range rules {
		r := &rules[j]
		switch {
		case j < reached && passes(&e.p.Sets[i], j, a):
		case j == reached && !a.Banned && r.Overdraft && r.Weight > 0 && r.Part() == store.Estimate:
		default:
			continue
		}
		if kind := r.Part(); kind != store.NoPart {
			e.parts = append(e.parts, e.part(r, kind))
		}
	}
}

func (e *evaluation) part(r *store.Rule, kind store.Part) *part {
	t := e.tallies[nameOf(r)]
	p := &part{rule: r, kind: kind, before: t.number, at: e.p.Now, later: r.Weight == 0 && r.Method != store.Token}
	switch r.Method {
	case store.Count:
		p.opened, p.closes = t.opened, t.closes
		p.later = p.later && e.p.Now >= t.closes
	case store.Leak:
		if !p.later && kind == store.Estimate && len(t.hits) > 0 { // a banned counter records nothing
			p.at = t.hits[len(t.hits)-1].at
		}
	case store.Token:
		p.left, p.at = t.tokens(r, e.instant()), max(e.p.Now, t.bucket.at)
	case store.Hold:
		p.hold = t.held[len(t.held)-1]
	}
	return p
}

// receipt returns the receipt of the plan, nil if no rule has a part.
func (e *evaluation) receipt() *Receipt {
	if len(e.parts) == 0 {
		return nil
	}
	r := &Receipt{parts: e.parts}
	for _, p := range e.parts {
		r.until = max(r.until, e.p.Now+p.rule.ReceiptSpan())
	}
	return r
}

// Settle settles a receipt by one use of all its rules, and reports whether it was valid.
func (m *Model) Settle(r *Receipt, use store.Use, p *store.Plan) bool {
	if r.spent || p.Now >= r.until {
		return false
	}
	r.spent = true
	e := evaluation{Model: m, p: p}
	for i, one := range r.parts {
		switch {
		case !use.Concerns:
		case one.kind == store.Held:
			e.free(one)
		case one.kind == store.Charge && use.Charge:
			e.charge(one.rule, one.rule.Weight)
		case one.kind == store.Estimate && use.Given && !slices.ContainsFunc(r.parts[i+1:], one.same):
			e.become(r.parts[:i+1], use.Hits)
		}
	}
	return true
}

// Renew renews the holds of a receipt, and reports whether it was valid.
func (m *Model) Renew(r *Receipt, now int64) bool {
	if r.spent || now >= r.until {
		return false
	}
	for _, one := range r.parts {
		if one.kind == store.Held && one.hold.until > now && m.tallies[nameOf(one.rule)].number == one.before {
			one.hold.until = max(one.hold.until, now+one.rule.Time*1000)
			r.until = max(r.until, one.hold.until)
		}
	}
	return true
}

// same reports whether both are estimates of one counter.
func (p *part) same(other *part) bool {
	return other.kind == p.kind && nameOf(p.rule) == nameOf(other.rule)
}

// free ends a hold.
func (e *evaluation) free(p *part) {
	t := e.tallies[nameOf(p.rule)]
	t.held = slices.DeleteFunc(slices.Clone(t.held), func(h *holding) bool { return h == p.hold })
	e.tallies[nameOf(p.rule)] = t
}

// charge records a weight now, whatever the limit.
func (e *evaluation) charge(r *store.Rule, weight int64) {
	charged := *r
	charged.Weight, charged.Marked = weight, false // which concerns takes
	e.change(&charged, func(t *tally) {
		t.banned = 0
		t.add(&charged, e.instant())
	})
}

// become makes the estimates of one counter, the last of the parts and those like it, the
// hits that were used.
func (e *evaluation) become(parts []*part, used int64) {
	last := parts[len(parts)-1]
	var recorded *part
	change := used
	for _, p := range parts {
		if p.same(last) {
			change -= p.rule.Weight
			if !p.later {
				recorded = p
			}
		}
	}
	if recorded == nil {
		e.charge(last.rule, used)
		return
	}
	if change == 0 {
		return
	}
	// change skips a weight of 0 and what is banned.
	r := *recorded.rule
	r.Weight = max(r.Weight, 1)
	e.change(&r, func(t *tally) { t.amend(recorded, change, e.instant()) })
}

// amend changes what was recorded by n.
func (t *tally) amend(p *part, n int64, at instant) {
	if p.rule.Method != store.Token && t.number != p.before {
		return
	}
	switch p.rule.Method {
	case store.Count:
		switch {
		case t.opened != p.opened || t.closes != p.closes || at.now >= t.closes:
		case n > 0:
			t.hits = with(t.hits, at.now, n)
		default:
			t.hits = withoutNewest(t.hits, -n)
		}
	case store.Leak:
		t.amendLeak(p, n, at.now)
	case store.Token:
		t.amendToken(p, n, at)
	}
}

// amendLeak changes the hits of the instant of the take, as far as some are left.
func (t *tally) amendLeak(p *part, n, now int64) {
	young := slices.Clone(t.young(p.rule, now))
	i := slices.IndexFunc(young, func(h hits) bool { return h.at == p.at })
	if t.banned > 0 || i < 0 {
		return
	}
	if n > 0 {
		young[i].n += min(n, store.MaxCounter-sum(young))
	}
	for ; i < len(young) && young[i].at == p.at && n < 0; i++ {
		away := min(-n, young[i].n)
		young[i].n, n = young[i].n-away, n+away
	}
	t.hits = slices.DeleteFunc(young, func(h hits) bool { return h.n == 0 })
	t.settle(p.rule)
}

// amendToken takes n more tokens, or gives -n back less what would have overflowed.
func (t *tally) amendToken(p *part, n int64, at instant) {
	r, tokens := p.rule, t.tokens(p.rule, at)
	if n > 0 {
		t.fill(r, at.now, new(big.Rat).Sub(tokens, big.NewRat(n, 1)))
		return
	}
	if t.number != p.before || tokens.Cmp(depth(r)) >= 0 {
		return
	}
	back := smaller(big.NewRat(-n, 1), big.NewRat((1<<53)/(r.Time*1000), 1))
	alone := new(big.Rat).Add(p.left, back)
	if at.now > p.at {
		alone.Add(alone, new(big.Rat).Mul(rate(r), big.NewRat(at.now-p.at, 1)))
		over := larger(new(big.Rat).Sub(alone, depth(r)), new(big.Rat))
		back = new(big.Rat).Sub(back, over)
	}
	if back.Sign() > 0 {
		t.fill(r, at.now, tokens.Add(tokens, back))
	}
}

// addHold holds the weight, and drops what has run out.
func (t *tally) addHold(r *store.Rule, now int64) {
	t.held = append(t.living(now), &holding{now + r.Time*1000, r.Weight})
}

// living returns the holds that have not run out.
func (t *tally) living(now int64) (list []*holding) {
	for _, h := range t.held {
		if h.until > now {
			list = append(list, h)
		}
	}
	return list
}

func (t *tally) readHold(r *store.Rule, now int64) view {
	list := t.living(now)
	slices.SortStableFunc(list, func(a, b *holding) int { return int(a.until - b.until) })
	n := int64(0)
	for _, h := range list {
		n += h.n
	}
	v := view{admits: n+r.Weight <= r.Count, limit: r.Count, remaining: max(0, r.Count-n), hits: n, retry: -1}
	if len(list) > 0 {
		v.reset = list[len(list)-1].until - now
	}
	for i := 0; !v.admits && r.Weight <= r.Count && n+r.Weight > r.Count; i++ {
		n -= list[i].n
		v.retry = list[i].until - now
	}
	return v
}
