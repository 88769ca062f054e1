package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// AssignmentTime is how long an assignment lasts: the 5 s between reports of Envoy's quota filter,
// and a report that finds another instance after the end of this one. For koalagate's own
// programs, may change.
const AssignmentTime = 7 * time.Second

// Usage is what a gateway that decides by itself has used of its share of limits: a report
// about one bucket, or without Reported an occasion between reports to change the share. For
// koalagate's own programs, may change.
type Usage struct {
	// Holder names the gateway and its bucket, 1 … 4096 bytes. Stream names the stream by which
	// it reports, in 4096 bytes at most: of one name, each stream has a share of its own.
	Holder, Stream string
	// Returns says that the gateway had another stream before, and goes on with its share.
	Returns bool
	// Reported says that Allowed and Denied are the hits since the last report, and Elapsed
	// the time since then, 0 for the first.
	Reported        bool
	Allowed, Denied uint64
	Elapsed         time.Duration
	// Foreign says that Allowed are hits of a share that the gateway had under another name:
	// they show what it wants, and are taken from nothing.
	Foreign bool
	// Lasts is how long an assignment lasts, 1 … 60 s in whole seconds.
	Lasts time.Duration
	// Fresh says that the gateway fills its bucket afresh with the next share, whatever the
	// counters know.
	Fresh bool
	// Leave ends the share. Hits that are not reported count as spent.
	Leave bool
}

// AssignmentKind is what a gateway is to do with the requests of a bucket. For koalagate's own
// programs, may change.
type AssignmentKind uint8

// The kinds.
const (
	AssignNone  AssignmentKind = iota // the limits cannot be shared: Rule and Word, or Reason, say why
	AssignKeep                        // what the gateway has, until it ends
	AssignSpent                       // nothing is left now; a share or AssignDeny stays until it ends
	AssignAllow                       // allow all: no limit concerns them, the door does not enforce, or a policy while Redis is unavailable
	AssignDeny                        // deny all, for Lasts
	AssignShare                       // a bucket of Burst hits that Tokens refill every Seconds

	// AssignmentKinds is the number of kinds.
	AssignmentKinds = iota
)

var assignmentNames = [...]string{"none", "keep", "spent", "allow", "deny", "share"}

// String returns the word for the kind in metrics.
func (k AssignmentKind) String() string {
	if int(k) < len(assignmentNames) {
		return assignmentNames[k]
	}
	return "unknown"
}

// Assignment answers a Usage. For koalagate's own programs, may change.
type Assignment struct {
	Kind AssignmentKind
	// Burst, Tokens and Seconds are the share that AssignShare gives. For AssignKeep and
	// AssignSpent they are the share that the gateway has by the counters, 0 without one.
	Burst, Tokens, Seconds int64
	// Lasts is how long the assignment lasts, or the one that the gateway has: whole seconds.
	Lasts time.Duration
	// Rule is the rule that left the least, or that Kind is about; nil for none.
	Rule *rules.Rule
	// Word is the word of the rule language that Rule has or lacks, or whose value is too small,
	// so that its limit cannot be shared; "" if only Reason explains Kind.
	Word, Reason string
	// Full says of AssignSpent that there is no room for another share, whatever is left.
	Full bool
	// Forfeited are hits that were reserved for the gateway and that it did not report in
	// time, and Debt reported hits that no share covered.
	Forfeited, Debt int64
	// Lent is the rate of all gateways that share the counter of Rule, and Limit what the
	// counter can refill, both per 10 s.
	Lent, Limit int64
	Degraded    bool // this instance's own counters answered because Redis is unavailable
}

// Basis is what the kinds of assignments depend on besides counters and the time: if it is equal to
// an earlier one, nothing else has changed. For koalagate's own programs, may change.
type Basis struct {
	rules      *rules.Set
	exceptions *exceptionBook
	mode       Mode
}

// Basis returns the basis at a door. For koalagate's own programs, may change.
func (e *Engine) Basis(door string) Basis {
	return Basis{e.Rules(), e.exceptions.book.Load(), e.modes.Of(door)}
}

// Assign matches the only input of a take as Decide does, but shares the limits that it meets
// instead of counting it. The error is as that of Decide, or the error of the counters. For
// koalagate's own programs, may change.
func (e *Engine) Assign(ctx context.Context, c *Call, u *Usage) (*Assignment, error) {
	if e == nil || e.store == nil {
		return nil, errNotBuilt
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if len(c.Inputs) != 1 || c.Op != Take {
		return nil, invalid("%d inputs of %v; want a take of one", len(c.Inputs), c.Op)
	}
	v := e.evaluations.Get().(*evaluation)
	defer e.end(v)
	var (
		a       = &Assignment{Kind: AssignAllow, Lasts: u.Lasts}
		mode    = e.modes.Of(c.Door)
		set     = e.Rules()
		matches []rules.Match
		err     error
	)
	if mode != ModeOff { // in which no door asks the rules
		if err = e.planShares(c, v); err == nil {
			set, matches = v.rules, v.inputs[0].matches.List
		}
	}
	switch {
	case mode != ModeEnforce:
		err = nil
	case err == nil:
		a, err = e.assign(ctx, v, u)
	}
	if err != nil {
		a = &Assignment{} // the hits are reported all the same
	}
	if u.Reported && e.reported != nil {
		e.reported(c, set, matches, u, a)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// planShares matches the only input of a call.
func (e *Engine) planShares(c *Call, v *evaluation) error {
	if none, err := v.begin(e, c); err != nil {
		return err
	} else if none != nil {
		return none.Cause
	}
	return e.plan(c, v)
}

// assign answers the usage of the only input of v.
func (e *Engine) assign(ctx context.Context, v *evaluation, u *Usage) (*Assignment, error) {
	m := &v.inputs[0]
	switch {
	case m.ban != nil:
		return &Assignment{Kind: AssignDeny, Lasts: until(u.Lasts, m.banTime), Reason: "an operator has banned the client"}, nil
	case !v.plan.Sets[0].Allows:
		return &Assignment{Kind: AssignDeny, Lasts: until(u.Lasts, v.refusedFor(m)), Rule: m.direct}, nil
	}
	counters, by, none := m.shared(v.plan.Sets[0].Rules, u)
	switch {
	case none != nil:
		return none, nil
	case len(counters) == 0:
		return &Assignment{Kind: AssignAllow, Lasts: u.Lasts, Rule: m.direct}, nil
	}
	assigner, ok := e.store.(store.Assigner)
	if !ok {
		return nil, errNoShares
	}
	allowed, denied := reported(u.Allowed), reported(u.Denied)
	if u.Foreign {
		allowed, denied = 0, min(allowed+denied, maxReported)
	}
	a, err := assigner.Assign(ctx, &store.Usage{
		Now: v.plan.Now, Zone: v.plan.Zone, Rules: counters, Holder: u.Holder, Stream: u.Stream, Returns: u.Returns,
		Reported: u.Reported, Allowed: allowed, Denied: denied, Elapsed: u.Elapsed.Milliseconds(),
		Lasts: u.Lasts.Milliseconds(), Fresh: u.Fresh, Leave: u.Leave,
	})
	if err != nil {
		return nil, err
	}
	q := assignmentOf(&a, by, u)
	if a.Reason == store.StrictRefuses || a.Reason == store.LenientPasses {
		v.applyPolicy(q, by, u)
	}
	return q, nil
}

var errNoShares = errors.New("engine: the store cannot share limits")

// maxReported is the largest number of hits of a report: a gateway may report any number.
const maxReported = 1 << 32

func reported(hits uint64) int64 { return int64(min(hits, maxReported)) }

// until returns the shorter of two times, in whole seconds above 0.
func until(lasts, end time.Duration) time.Duration {
	return min(lasts, max(end+time.Second-1, time.Second).Truncate(time.Second))
}

// refusedFor returns how long the rule that refuses the input, whatever it counts, does so: up
// to the end of its exception if it refuses by one.
func (v *evaluation) refusedFor(m *matchedInput) time.Duration {
	for _, x := range m.exceptions {
		if x.Kind == ExceptDeny && m.direct != nil && x.Match.Rule.Return == m.direct.Return {
			return milliseconds(x.Until - v.exceptionTime())
		}
	}
	return store.MaxLasts * time.Millisecond
}

// shared returns those counters of the only input that decide, with their rules, or the
// answer to an input that meets a rule whose limit cannot be shared: one of 0 admits nothing,
// whatever rules stand before it. Shadow rules and marked rules do not decide.
func (m *matchedInput) shared(all []store.Rule, u *Usage) (counters []store.Rule, by []*rules.Rule, none *Assignment) {
	for i := range all {
		rule := m.counting[i]
		if !rule.Enforced() {
			continue
		}
		if all[i].RefusesAll() {
			return nil, nil, &Assignment{Kind: AssignDeny, Lasts: u.Lasts, Rule: rule}
		}
		if word := cmp.Or(rule.Unassignable(), all[i].Unassignable()); word != "" && none == nil {
			none = &Assignment{Kind: AssignNone, Rule: rule, Word: word, Reason: tooSmall(word, &all[i])}
		}
		counters, by = append(counters, all[i]), append(by, rule)
	}
	if none != nil {
		return nil, nil, none
	}
	if len(counters) > store.MaxCounted {
		return nil, nil, &Assignment{Kind: AssignNone, Rule: by[store.MaxCounted], Reason: "too many rules limit the bucket"}
	}
	return counters, by, nil
}

// tooSmall explains why the value of a word is too small to be shared, "" if it is not.
func tooSmall(word string, r *store.Rule) string {
	if r.Lease == 0 {
		return ""
	}
	small, least := r.TooSmall()
	if small != word {
		return ""
	}
	return fmt.Sprintf("a share needs a %s of %d at least", word, least)
}

// applyPolicy changes the answer that policies give while Redis is unavailable, because of
// these rules. By `gateway`, what the gateway has ends, and then it decides by itself.
func (v *evaluation) applyPolicy(a *Assignment, by []*rules.Rule, u *Usage) {
	policy := v.strictest(by)
	a.Rule, a.Lasts = by[slices.IndexFunc(by, func(r *rules.Rule) bool { return v.failOf(r) == policy })], u.Lasts
	switch policy {
	case rules.FailAllow:
		a.Kind = AssignAllow
	case rules.FailDeny:
		a.Kind = AssignDeny
	}
}

// assignmentOf returns the answer of the store about these rules.
func assignmentOf(a *store.Assignment, by []*rules.Rule, u *Usage) *Assignment {
	q := &Assignment{
		Kind: AssignKeep, Burst: a.Burst, Lasts: time.Duration(a.Lasts) * time.Millisecond,
		Forfeited: a.Forfeited, Debt: a.Debt, Lent: a.Lent, Limit: a.Limit, Degraded: a.Degraded,
	}
	if a.Rule >= 0 && a.Rule < len(by) {
		q.Rule = by[a.Rule]
	}
	q.Tokens, q.Seconds = a.Fill()
	switch {
	case a.Send:
		q.Kind = AssignShare
		return q
	case a.Reason == store.Assigned, a.Reason == store.HasLeft:
		return q
	}
	q.Reason = a.Reason.String()
	switch a.Reason {
	case store.BannedNow:
		q.Kind, q.Lasts = AssignDeny, until(u.Lasts, milliseconds(a.Banned))
	case store.NoRate, store.NoBurst, store.WindowEnds:
		q.Kind = AssignSpent
	case store.TooMany, store.OutOfMemory:
		q.Kind, q.Full = AssignSpent, true
	}
	return q
}
