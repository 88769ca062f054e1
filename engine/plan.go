package engine

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// evaluation is the memory of one decision on its way through the store, reused
// by later ones.
type evaluation struct {
	rules   *rules.Set // of the decision
	plan    store.Plan
	answers store.Answers
	inputs  []matchedInput
	subject []byte           // the subjects of overrides
	now     int64            // the time at which rules match, in ms since the epoch
	door    rules.FailPolicy // of the door of the call
	tooMany bool             // the inputs match too many counting rules
	waits   bool             // a rule of the plan has a wait
	place   place            // in which the call may wait

	book       *exceptionBook // nil without exceptions
	exceptions *Exceptions    // in book
	clock      *clock         // of the engine; set with book
}

// matchedInput is one input with the rules that match it.
type matchedInput struct {
	matches rules.Matches
	// counting are the rules of the plan's set, index for index. Nil is the
	// ad-hoc rule of an override.
	counting []*rules.Rule
	// direct is the rule that decides without its counter, or nil: a direct rule, or one
	// with ExceptDeny.
	direct *rules.Rule
	// passed are the direct rules that do not decide (shadow=1, Complete).
	passed  []passedRule
	matched bool
	sourced bool // Call.Source has found the limits
	// exceptions are the exceptions that apply.
	exceptions []*Exception
	// ban is the one of the exceptions that refuses the input before any rule, nil for none;
	// banTime is the time until its end.
	ban     *Exception
	banTime time.Duration
	// excess is the answer to an input that exceeds a bound of a call that refuses
	// such inputs, or that is banned, or nil.
	excess *rules.Result
}

// passedRule is a direct rule that does not decide, below this number of counting
// rules.
type passedRule struct {
	rule *rules.Rule
	at   int
}

// allows reports whether the input is allowed when no counting rule decides.
func (m *matchedInput) allows(rs *rules.Set, op Op) bool {
	if op == Complete || op == CompleteTake {
		for _, p := range m.passed {
			if !p.rule.Shadow && p.rule.Result.Verdict() != rules.Allow {
				return false
			}
		}
	}
	return m.fallback(rs).Verdict() == rules.Allow
}

// fallback returns the entry that answers when no counting rule decides: the entry of
// the direct rule, else entry 1 if any rule matched, else entry 0.
func (m *matchedInput) fallback(rs *rules.Set) *rules.Result {
	switch {
	case m.direct != nil:
		return m.direct.Result
	case m.sourced:
		return unruled
	case m.matched:
		return rs.Results[1]
	}
	return rs.Results[0]
}

// Subjects of overrides begin with a byte that no identity begins with: the first
// byte of an identity is the number of its values, below 0xF0.
const (
	overrideSubject = 0xF1 // of a rule whose limit is overridden
	adHocSubject    = 0xF2 // of an override that no rule matched
)

// build builds the plan of the call with at most maxRules counters.
func (v *evaluation) build(c *Call, maxRules int) error {
	v.plan.Op, v.plan.Now, v.plan.Zone = storeOps[c.Op], c.Now, v.rules.Zone
	v.plan.Patience, v.waits = c.Patience.Milliseconds(), false
	v.inputs = resize(v.inputs, len(c.Inputs))
	v.plan.Sets = resize(v.plan.Sets, len(c.Inputs))
	v.subject, v.tooMany = v.subject[:0], false
	counters := 0
	for i := range c.Inputs {
		if c.Inputs[i].Hits > MaxHits && !c.refusesExcess() {
			return invalid("%d hits; want 0 … %d", c.Inputs[i].Hits, int64(MaxHits))
		}
		if err := c.Inputs[i].Override.check(); err != nil {
			return err
		}
		if err := v.match(c, i); err != nil {
			return err
		}
		if counters += len(v.plan.Sets[i].Rules); counters > maxRules {
			v.tooMany = true
			if !c.refusesExcess() {
				return invalid("its %d inputs match more than %d counting rules; send fewer inputs, or have fewer rules match", len(c.Inputs), maxRules)
			}
			v.inputs[i].excess, v.plan.Sets[i].Rules = tooManyRulesResult, v.plan.Sets[i].Rules[:0]
		}
	}
	return nil
}

// storeOps maps the operations of calls to operations of plans.
var storeOps = [...]store.Op{
	Take:         store.Take,
	Browse:       store.Browse,
	Update:       store.Update,
	Refund:       store.Refund,
	Complete:     store.Complete,
	CompleteTake: store.CompleteTake,
	Peek:         store.Peek,
	Reset:        store.Reset,
}

// match finds the limits that input i meets and adds their counters to the plan.
func (v *evaluation) match(c *Call, i int) error {
	in, m, plan := &c.Inputs[i], &v.inputs[i], &v.plan.Sets[i]
	m.counting, m.passed, m.direct = m.counting[:0], m.passed[:0], nil
	m.excess, m.exceptions, m.ban = nil, m.exceptions[:0], nil
	if in.Hits > MaxHits {
		m.excess = overweightResult
	}
	plan.Rules, plan.Refund, plan.Allows = plan.Rules[:0], in.Refund, true

	m.matches.Now, m.sourced = v.now, in.Sourced
	if v.book != nil && v.ban(c, in, m) {
		return nil
	}
	if m.sourced {
		c.Source.Match(i, &m.matches)
	} else {
		v.rules.Match(in.Params, &m.matches)
	}
	m.matched = len(m.matches.List) > 0
	endsAtDirect := c.Op == Take && !in.Refund || c.Op == Browse
	for j := range m.matches.List {
		match := &m.matches.List[j]
		var kind ExceptionKind
		if v.book != nil {
			kind = v.exceptionKind(c, in, m, j)
		}
		if kind == ExceptAllow {
			continue
		}
		if match.Rule.Counts() && kind != ExceptDeny {
			if err := v.addMatch(c, i, match); err != nil {
				return err
			}
			continue
		}
		if endsAtDirect && !match.Rule.Shadow {
			m.direct = match.Rule
			break
		}
		m.passed = append(m.passed, passedRule{match.Rule, len(m.counting)})
	}
	if in.Override != nil {
		v.addAdHoc(plan, in, m)
	}
	plan.Allows = m.allows(v.rules, c.Op)
	return nil
}

// addMatch adds the counter of a rule that input i matches to the plan, unless the call
// does not concern this rule.
func (v *evaluation) addMatch(c *Call, i int, match *rules.Match) error {
	in := &c.Inputs[i]
	if (c.Op == Peek || c.Op == Reset) && match.Rule.Return != c.Rule {
		return nil
	}
	weight, err := weigh(match, in.EffectiveHits(), c.Erase)
	if err != nil {
		if c.refusesExcess() {
			v.inputs[i].excess = overweightResult
			return nil
		}
		return err
	}
	if c.Erase != 0 && weight == 0 {
		return nil
	}
	m, plan := &v.inputs[i], &v.plan.Sets[i]
	plan.Rules = append(plan.Rules, v.counter(match, weight, in.Override))
	m.counting = append(m.counting, match.Rule)
	return nil
}

// weigh returns the weight of an input for a rule: its hits times the cost of the
// rule.
func weigh(m *rules.Match, hits uint64, erase int) (int64, error) {
	switch erase {
	case 1:
		return m.Rule.Erase1, nil
	case 2:
		return m.Rule.Erase2, nil
	}
	high, weight := bits.Mul64(hits, uint64(m.Cost))
	if high > 0 || weight > store.MaxWeight {
		return 0, invalid("%d hits of cost %d for rule %d; want a product of at most %d", hits, m.Cost, m.Rule.Return, int64(store.MaxWeight))
	}
	return int64(weight), nil
}

// counter returns the counter of a match, with the thresholds of an override, if that is not nil.
func (v *evaluation) counter(match *rules.Match, weight int64, o *Override) (r store.Rule) {
	r = store.Rule{
		Subject: match.Identity,
		Return:  match.Rule.Return,
		Weight:  weight,
		Method:  store.Method(match.Rule.Method),
		Time:    match.Limits.Time,
		Unit:    store.Unit(match.Rule.Unit),
		From:    uint8(match.Rule.From),
		Count:   match.Limits.Count,
		Base:    match.Limits.Base,
		Burst:   match.Limits.Burst,
		Shadow:  match.Rule.Shadow,
		Marked:  match.Rule.Mark != "",

		Overdraft: match.Rule.Overdraft,
		Ban:       match.Rule.Ban,
		Wait:      match.Rule.Wait,
		Settle:    match.Rule.Settle,
		Lease:     match.Rule.Lease,
		Outcome:   match.Rule.IsOutcome(),

		Allows: match.Rule.Result.Verdict() == rules.Allow,
	}
	if v.door != rules.FailUnset || match.Rule.Fail != rules.FailUnset {
		v.setFail(&r, match.Rule)
	}
	if o != nil {
		r.Method, r.Time, r.Count, r.Base, r.Burst = store.Count, o.Seconds, o.Count, 0, 0
		r.Unit, r.From, r.Overdraft, r.Ban, r.Wait = store.Seconds, 0, false, 0, 0
		r.Settle, r.Outcome, r.Lease = 0, false, 0
		r.Subject = v.overrideIdentity(overrideSubject, o, match.Identity)
	}
	v.waits = v.waits || r.Wait > 0
	return r
}

// addAdHoc adds a count rule for exactly the entries of an override, if no rule matched.
func (v *evaluation) addAdHoc(plan *store.Set, in *Input, m *matchedInput) {
	if len(m.counting) > 0 || m.direct != nil || m.excess != nil {
		return
	}
	o := in.Override
	var identity []byte
	for _, e := range o.Entries {
		identity = binary.AppendUvarint(identity, uint64(len(e)))
		identity = append(identity, e...)
	}
	r := store.Rule{
		Subject: v.overrideIdentity(adHocSubject, o, identity),
		Weight:  int64(in.EffectiveHits()),
		Method:  store.Count,
		Time:    o.Seconds,
		Count:   o.Count,
	}
	v.setFail(&r, nil)
	plan.Rules = append(plan.Rules, r)
	m.counting, m.matched = append(m.counting, nil), true
}

// overrideIdentity returns the subject of the counter of an override. Another limit
// has another counter, and none is a rule's.
func (v *evaluation) overrideIdentity(kind byte, o *Override, identity []byte) []byte {
	start := len(v.subject)
	v.subject = append(v.subject, kind)
	v.subject = binary.AppendUvarint(v.subject, uint64(o.Count))
	v.subject = binary.AppendUvarint(v.subject, uint64(o.Seconds))
	v.subject = append(v.subject, identity...)
	return v.subject[start:len(v.subject):len(v.subject)]
}

// counts reports whether the store must evaluate the plan: it has a counter, and no
// input exceeds a bound or is banned.
func (v *evaluation) counts() bool {
	counters := 0
	for i := range v.plan.Sets {
		if v.inputs[i].excess != nil {
			return false
		}
		counters += len(v.plan.Sets[i].Rules)
	}
	return counters > 0
}

// answerUncounted fills the answers of a plan without counters.
func (v *evaluation) answerUncounted() {
	v.answers.Sets = resize(v.answers.Sets, len(v.plan.Sets))
	v.answers.Degraded, v.answers.Now, v.answers.Wait, v.answers.Took = false, v.plan.Now, 0, 0
	v.answers.Receipt, v.answers.Undo = "", nil
	for i := range v.answers.Sets {
		a := &v.answers.Sets[i]
		*a = store.Answer{Decider: -1, Reporter: -1, Retry: -1, Refusals: a.Refusals[:0]}
	}
}

// resize returns s with n elements and keeps the memory of its elements.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		s = append(s[:cap(s)], make([]T, n-cap(s))...)
	}
	return s[:n]
}
