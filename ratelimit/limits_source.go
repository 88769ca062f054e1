package ratelimit

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/httptext"
	"github.com/koalagate/koalagate/rules"
)

// limitRules are the rules by which the engine counts imported limits. They have no number,
// and the path of their limit as their name.
type limitRules struct {
	options *imported.Options
	loading sync.Mutex
	current atomic.Pointer[setRules]
}

// setRules are the rules of a set, which are made once. Calls that began before a reload still
// meet the set before, so its rules are kept, too.
type setRules struct {
	set    *envoylimits.Set
	list   [][ways]*rules.Rule
	limits map[*rules.Rule]*envoylimits.Limit
	before *setRules // without a predecessor of its own
}

// find returns the rules of a set, nil if there are none.
func (s *setRules) find(set *envoylimits.Set) *setRules {
	for ; s != nil; s = s.before {
		if s.set == set {
			return s
		}
	}
	return nil
}

// limit returns the limit of a rule, nil if no set has it any more.
func (s *setRules) limit(r *rules.Rule) *envoylimits.Limit {
	for ; s != nil; s = s.before {
		if l := s.limits[r]; l != nil {
			return l
		}
	}
	return nil
}

// way is how the hits of a limit count.
type way uint8

// The ways.
const (
	unlessRefused way = iota // a refused weight counts nowhere
	always                   // whatever the verdict
	charging                 // always, and nothing is refused
	ways
)

// of returns the rule of a limit of a set.
func (r *limitRules) of(set *envoylimits.Set, l *envoylimits.Limit, as way) *rules.Rule {
	if l.Number < 0 {
		return r.compile(l, as)
	}
	s := r.current.Load().find(set)
	if s == nil {
		s = r.load(set)
	}
	return s.list[l.Number][as]
}

// load makes the rules of a set the current ones. Of several calls that are the first to meet a
// set, one compiles it: what keeps one of its rules still finds the limit.
func (r *limitRules) load(set *envoylimits.Set) *setRules {
	r.loading.Lock()
	defer r.loading.Unlock()
	current := r.current.Load()
	if s := current.find(set); s != nil {
		return s
	}
	s := r.compileSet(set)
	if current != nil {
		s.before = &setRules{set: current.set, list: current.list, limits: current.limits}
	}
	r.current.Store(s)
	return s
}

// compileSet returns the rules of a set.
func (r *limitRules) compileSet(set *envoylimits.Set) *setRules {
	s := &setRules{set: set, list: make([][ways]*rules.Rule, len(set.Limits())), limits: make(map[*rules.Rule]*envoylimits.Limit)}
	for i, l := range set.Limits() {
		for as := range s.list[i] {
			s.list[i][as] = r.compile(l, way(as))
			s.limits[s.list[i][as]] = l
		}
	}
	return s
}

// The results of limits that refuse, and of those that do not by themselves.
var (
	overLimit = &rules.Result{Number: -1, RetType: 2, ErrNo: http.StatusTooManyRequests, StrReason: "Deny", HTTPStatus: http.StatusTooManyRequests}
	noted     = &rules.Result{Number: -1, RetType: 1, StrReason: "Allow"}
)

// compile returns the rule of a limit.
func (r *limitRules) compile(l *envoylimits.Limit, as way) *rules.Rule {
	rule := &rules.Rule{
		Name: l.Path, Method: rules.Count, Unit: rules.Epoch, Overdraft: as != unlessRefused, Result: overLimit,
		Limits: rules.Limits{Time: l.Unit.Seconds(), Count: int64(l.Requests)},
	}
	if l.Number < 0 {
		rule.Name = "" // the path has values that callers choose
	}
	switch {
	case r.options.Windows == imported.Opening && rule.Time != rules.Day: // days are days of UTC
		rule.Unit = rules.Seconds
	case r.options.Windows == imported.Sliding:
		rule.Method, rule.Unit = rules.Leak, rules.Seconds
	}
	if as == charging || r.options.Shadow || r.options.Quota || l.Shadow || l.Quota {
		rule.Result = noted
	}
	return rule
}

// rule returns the rule of a descriptor with a limit.
func (c *limitCall) rule(a *applied) *rules.Rule {
	as := unlessRefused
	switch {
	case c.operating:
		as = charging
	case a.counted > 0 && (a.ownHits || !c.limits.options.FreeRefusals):
		as = always // a weight of 0 is a look, which fits as long as the limit is not exceeded
	}
	return c.limits.rules.of(c.set, a.limit, as)
}

// Match implements engine.Source.
func (c *limitCall) Match(i int, m *rules.Matches) {
	if !c.found {
		c.found = true
		c.find()
	}
	m.List = m.List[:0]
	if a := &c.applied[c.asked[i]]; a.limit != nil {
		rule := c.rule(a)
		m.List = append(m.List, rules.Match{Rule: rule, Identity: c.subject[a.from:a.to:a.to], Limits: rule.Limits, Cost: 1, Stated: a.limit.Number < 0})
	}
}

// Conclude implements engine.Source: it reports what was counted, and decides by all limits
// together, because quotas refuse only if all of them are exceeded.
func (c *limitCall) Conclude(d *engine.Decision) {
	if c.browsing {
		return
	}
	for k, i := range c.asked {
		a := &c.applied[i]
		if a.banned = 0; d.Answers[k].Ban != nil {
			a.banned = max(1, httptext.Seconds(d.Answers[k].Retry))
		} else if a.limit != nil {
			c.record(a, &d.Answers[k])
		}
	}
	if c.operating {
		return
	}
	c.over, c.concluded = c.isOver(), true
	for k, i := range c.asked {
		if a := &c.applied[i]; a.limit != nil && a.banned == 0 {
			c.judge(a, &d.Answers[k])
		}
	}
	d.Verdict, d.Refuser = rules.Allow, -1
	for i := range d.Answers {
		if verdict := d.Answers[i].Verdict; verdict != rules.Allow {
			d.Verdict, d.Refuser, d.Wait, d.Waiter = verdict, i, 0, nil
			break
		}
	}
}

// judge sets the verdict about a descriptor with a limit.
func (c *limitCall) judge(a *applied, to *engine.Answer) {
	to.Verdict = rules.Allow
	switch {
	case !a.over:
	case a.limit.Shadow:
		to.Decider, to.Shadow = nil, []engine.Shadow{{Rule: to.Decider, Verdict: rules.Deny}}
		if to.Shadow[0].Rule == nil {
			to.Shadow = nil // the policy of the door decided
		}
	case !c.over: // a quota, and another one is not exceeded
	case c.limits.options.Shadow:
		to.Mode, to.Observed = engine.ModeObserve, rules.Deny
	default:
		to.Verdict = rules.Deny
		if to.Result.Verdict() == rules.Allow {
			to.Result = overLimit
		}
	}
}

// record sets the result of a descriptor with a limit, and reports it.
func (c *limitCall) record(a *applied, from *engine.Answer) {
	q := &from.Quota
	if a.reset = max(1, (q.ResetMS()+999)/1000); from.Limited {
		a.most = q.Limit
	}
	switch {
	case !from.Limited: // an exception or the policy of the door decided without the counter
		a.over, a.after, a.reset = from.Verdict != rules.Allow, a.counted, a.limit.Unit.Seconds()
		if q.Limit, q.Remaining = a.most, a.most; a.over {
			a.after += q.Limit
		}
	case from.Decider == nil || a.negative:
		a.after = q.Limit - q.Remaining
	default:
		a.over, a.after = true, max(from.Hits, q.Limit+1)
		if !from.Decider.Overdraft {
			a.after = q.Limit + a.weight
		}
	}
	if a.negative {
		a.over = false
		c.limits.options.Statistics.Subtracted(a.path, a.limit, uint64(a.weight))
	} else {
		c.limits.options.Statistics.Counted(a.path, a.limit, uint64(a.most), uint64(a.weight), uint64(max(a.after-a.counted, 0)), uint64(a.after))
	}
	if a.remaining = 0; !a.over {
		a.remaining = clamp(q.Remaining)
	}
}
