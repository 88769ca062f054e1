package engine

import (
	"encoding/binary"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// work is what one decision needs, kept for the next.
type work struct {
	rules   *rules.Set // of the decision
	store   store.Plan
	answers store.Answers
	sets    []walk
	subject []byte           // the subjects of overrides
	door    rules.FailPolicy // of the call's door
}

// walk is one parameter set on its way through the rules.
type walk struct {
	matches rules.Matches
	// counting are the rules of the store's set, index for index; nil stands
	// for the ad-hoc rule of an override.
	counting []*rules.Rule
	// direct is the rule without a counter that ends the walk, nil if none.
	direct *rules.Rule
	// passed are direct rules that do not end the walk (shadow, complete),
	// each with the number of counting rules above it.
	passed  []passed
	matched bool
}

type passed struct {
	rule *rules.Rule
	at   int
}

// Subjects of overrides begin with a byte that no identity begins with: an
// identity's first byte is the number of its values, below 0xF0.
const (
	overrideSubject = 0xF1 // of a rule that an override stands in for
	adHocSubject    = 0xF2 // of an override that met no rule
)

// plan makes the store's plan for the call.
func (w *work) plan(set *rules.Set, c *Call) error {
	if len(c.Sets) == 0 {
		return invalid("it has no parameter set; want one at least")
	}
	w.store.Op, w.store.Now, w.store.Zone = c.Op, c.Now, set.Zone
	w.sets = resize(w.sets, len(c.Sets))
	w.store.Sets = resize(w.store.Sets, len(c.Sets))
	w.subject = w.subject[:0]
	counters := 0
	for i := range c.Sets {
		if c.Sets[i].Hits > MaxHits {
			return invalid("%d hits; want 0 … %d", c.Sets[i].Hits, int64(MaxHits))
		}
		if err := w.planSet(set, c, i); err != nil {
			return err
		}
		if counters += len(w.store.Sets[i].Rules); counters > store.MaxRules {
			return invalid("its %d parameter sets meet more than %d counting rules; bring fewer sets, or have fewer rules match", len(c.Sets), store.MaxRules)
		}
	}
	return nil
}

func (w *work) planSet(set *rules.Set, c *Call, i int) error {
	in, k, plan := &c.Sets[i], &w.sets[i], &w.store.Sets[i]
	k.counting, k.passed, k.direct = k.counting[:0], k.passed[:0], nil
	plan.Rules, plan.Refund, plan.Allows = plan.Rules[:0], in.Refund, true

	set.Match(in.Params, &k.matches)
	k.matched = len(k.matches.List) > 0
	walks := c.Op == Take && !in.Refund || c.Op == Browse
	for j := range k.matches.List {
		m := &k.matches.List[j]
		if m.Rule.Counts() {
			if err := w.countMatch(c, in, k, plan, m); err != nil {
				return err
			}
			continue
		}
		if walks && !m.Rule.Shadow {
			k.direct = m.Rule
			break
		}
		k.passed = append(k.passed, passed{m.Rule, len(k.counting)})
	}
	if in.Override != nil && len(k.counting) == 0 && k.direct == nil {
		w.adHoc(plan, in)
		k.counting = append(k.counting, nil)
		k.matched = true
	}
	plan.Allows = k.allows(set, c.Op)
	return nil
}

// countMatch plans the counter of a rule that counts, unless the call is not
// about this rule.
func (w *work) countMatch(c *Call, in *Input, k *walk, plan *store.Set, m *rules.Match) error {
	if (c.Op == Peek || c.Op == Reset) && m.Rule.Return != c.Rule {
		return nil
	}
	weight, err := weigh(m, in.Hits, c.Erase)
	if err != nil {
		return err
	}
	if c.Erase != 0 && weight == 0 {
		return nil
	}
	w.count(plan, k, m, weight, in.Override)
	return nil
}

// weigh is what the request weighs for a rule: its hits times the rule's cost.
func weigh(m *rules.Match, hits uint64, erase int) (int64, error) {
	switch erase {
	case 1:
		return m.Rule.Erase1, nil
	case 2:
		return m.Rule.Erase2, nil
	}
	weight := int64(hits) * m.Cost // below 2^31 × 10^9 < 2^63
	if weight > store.MaxWeight {
		return 0, invalid("%d hits of cost %d weigh %d for rule %d; want at most %d", hits, m.Cost, weight, m.Rule.Return, int64(store.MaxWeight))
	}
	return weight, nil
}

// storeMethods are the counting methods in the store's numbers.
var storeMethods = [...]store.Method{rules.Count: store.Count, rules.Base: store.Base, rules.Leak: store.Leak, rules.Token: store.Token}

func (w *work) count(plan *store.Set, k *walk, m *rules.Match, weight int64, o *Override) {
	fail := w.failOf(m.Rule)
	r := store.Rule{
		Subject: m.Identity,
		Return:  m.Rule.Return,
		Weight:  weight,
		Method:  storeMethods[m.Rule.Method],
		Time:    m.Rule.Time,
		Count:   m.Rule.Count,
		Base:    m.Rule.Base,
		Burst:   m.Rule.Burst,
		Shadow:  m.Rule.Shadow,
		Allows:  m.Rule.Result.Verdict() == rules.Allow,
		Lenient: fail == rules.FailAllow,
		Strict:  fail == rules.FailGateway || fail == rules.FailDeny,
	}
	if o != nil {
		r.Method, r.Time, r.Count, r.Base, r.Burst = store.Count, o.Seconds, o.Count, 0, 0
		r.Subject = w.overridden(overrideSubject, o, m.Identity)
	}
	plan.Rules = append(plan.Rules, r)
	k.counting = append(k.counting, m.Rule)
}

// adHoc plans an override that met no rule: a count rule of its own for
// exactly its entries.
func (w *work) adHoc(plan *store.Set, in *Input) {
	o, fail := in.Override, w.failOf(nil)
	var identity []byte
	for _, e := range o.Entries {
		identity = binary.AppendUvarint(identity, uint64(len(e)))
		identity = append(identity, e...)
	}
	plan.Rules = append(plan.Rules, store.Rule{
		Subject: w.overridden(adHocSubject, o, identity),
		Weight:  int64(in.Hits),
		Method:  store.Count,
		Time:    o.Seconds,
		Count:   o.Count,
		Lenient: fail == rules.FailAllow,
		Strict:  fail == rules.FailGateway || fail == rules.FailDeny,
	})
}

// overridden is the subject of a state that belongs to an override: another
// limit is another state, and never a rule's own.
func (w *work) overridden(kind byte, o *Override, identity []byte) []byte {
	start := len(w.subject)
	w.subject = append(w.subject, kind)
	w.subject = binary.AppendUvarint(w.subject, uint64(o.Count))
	w.subject = binary.AppendUvarint(w.subject, uint64(o.Seconds))
	w.subject = append(w.subject, identity...)
	return w.subject[start:len(w.subject):len(w.subject)]
}

// allows tells whether the set's answer allows where no counting rule decides.
func (k *walk) allows(set *rules.Set, op Op) bool {
	if op == Complete || op == CompleteTake {
		for _, p := range k.passed {
			if !p.rule.Shadow && p.rule.Result.Verdict() != rules.Allow {
				return false
			}
		}
	}
	return k.fallback(set).Verdict() == rules.Allow
}

// fallback is the entry that answers where no counting rule decides: the
// direct rule's, else 1 if any rule matched, else 0.
func (k *walk) fallback(set *rules.Set) *rules.Result {
	switch {
	case k.direct != nil:
		return k.direct.Result
	case k.matched:
		return set.Results[1]
	}
	return set.Results[0]
}

// counts tells whether the plan has any counter to ask the store for.
func (w *work) counts() bool {
	for i := range w.store.Sets {
		if len(w.store.Sets[i].Rules) > 0 {
			return true
		}
	}
	return false
}

// answerUncounted fills the answers of a plan without counters.
func (w *work) answerUncounted() {
	w.answers.Sets = resize(w.answers.Sets, len(w.store.Sets))
	w.answers.Degraded, w.answers.Now = false, w.store.Now
	for i := range w.answers.Sets {
		a := &w.answers.Sets[i]
		*a = store.Answer{Decider: -1, Reporter: -1, Retry: -1, Refusals: a.Refusals[:0]}
	}
}

// resize returns s with n elements, keeping what its elements had allocated.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		s = append(s[:cap(s)], make([]T, n-cap(s))...)
	}
	return s[:n]
}
