package engine

import "github.com/koalagate/koalagate/rules"

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
	sourced bool // the limits are those of Call.Source
	// exceptions are the exceptions that apply.
	exceptions []*Exception
	// excess is the answer to an input that exceeds a bound of a call that refuses
	// such inputs, or nil.
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
