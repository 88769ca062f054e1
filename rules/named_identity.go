package rules

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/method"
)

// IdentityError reports parameters that do not name one identity of a rule.
type IdentityError struct {
	Rule    *Rule
	Missing []string     // the parameters that the rule counts by, without a value
	Surplus []string     // the parameters that the rule does not count by
	Unmet   []*Condition // the conditions that do not hold for their values
}

// Error lists the parameters, and the parameters that the rule counts by.
func (e *IdentityError) Error() string {
	names := "no parameter"
	if list := e.Rule.CountsBy(); len(list) > 0 {
		names = strings.Join(list, ", ")
	}
	return fmt.Sprintf("rule %s counts by %s; %s", e.Rule.Label(), names, e.Reason())
}

// Reason lists the parameters.
func (e *IdentityError) Reason() string {
	var faults []string
	if len(e.Missing) > 0 {
		faults = append(faults, "missing parameters: "+strings.Join(e.Missing, ", "))
	}
	if len(e.Surplus) > 0 {
		faults = append(faults, "parameters that it does not count by: "+strings.Join(e.Surplus, ", "))
	}
	for _, c := range e.Unmet {
		faults = append(faults, "its condition "+c.String()+" does not hold")
	}
	return strings.Join(faults, "; ")
}

// CountsBy returns the names of the parameters of the rule's identity, in their order.
func (r *Rule) CountsBy() []string {
	var names []string
	for _, c := range r.identifying() {
		names = append(names, c.Name)
	}
	return names
}

// Free returns those of CountsBy for which the rule does not list the values one by one. Without
// any, all requests that meet the rule have identities that its author wrote. For koalagate's own
// programs, may change.
func (r *Rule) Free() []string {
	var names []string
	for _, c := range r.identifying() {
		if !c.isListOfValues() {
			names = append(names, c.Name)
		}
	}
	return names
}

// isListOfValues reports whether the condition lists each value for which it holds.
func (c *Condition) isListOfValues() bool {
	return c.form == formList && !c.Negated && len(c.patterns) == 0 &&
		!slices.ContainsFunc(c.integers, func(i interval[int64]) bool { return i.low != i.high }) &&
		!slices.ContainsFunc(c.addresses, func(i interval[netip.Addr]) bool { return i.low != i.high })
}

// identifying returns the conditions on the parameters of the identity, ordered by name.
func (r *Rule) identifying() []*Condition {
	var list []*Condition
	for _, c := range r.Conditions {
		if c.identifies() {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *Condition) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Missing returns the names of the parameters that the rule's conditions require and p
// lacks, in the order of the conditions.
func (r *Rule) Missing(p *Params) []string {
	var names []string
	for _, c := range r.Conditions {
		if c.wantsAbsence() || c.OfResponse() {
			continue
		}
		if raw, _ := p.Get(c.Name); strings.TrimSpace(raw) == "" {
			names = append(names, c.Name)
		}
	}
	return names
}

// Identify returns the match of the rule with the identity that p names, without limits.
// p has the parameters that the rule counts by, each with a value for which the rule's
// condition holds, and no others; a parameter with one possible value may be left out. The
// error is an *IdentityError.
func (r *Rule) Identify(p *Params) (Match, error) {
	fault := &IdentityError{Rule: r}
	conditions := r.identifying()
	identity := []byte{byte(len(conditions))}
	for _, c := range conditions {
		v := c.read(p)
		switch {
		case v.text == "":
			fault.Missing = append(fault.Missing, c.Name)
		case !c.holds(&v, 0):
			fault.Unmet = append(fault.Unmet, c)
		default:
			identity = c.appendIdentity(identity, &v)
		}
	}
	for _, param := range p.List() {
		if !slices.ContainsFunc(conditions, func(c *Condition) bool { return c.Name == param.Name }) {
			fault.Surplus = append(fault.Surplus, param.Name)
		}
	}
	if len(fault.Missing)+len(fault.Unmet)+len(fault.Surplus) > 0 {
		return Match{}, fault
	}
	return Match{Rule: r, Identity: identity, Cost: 1}, nil
}

// read returns the value of the condition's parameter, or the only value for which the
// condition holds if p has none.
func (c *Condition) read(p *Params) value {
	raw, _ := p.Get(c.Name)
	if strings.TrimSpace(raw) == "" {
		raw = c.onlyValue()
	}
	var v value
	v.read(raw, c.comparesIntegers(), c.comparesAddresses())
	if kind, later := p.laterKind(c.Name); later {
		v.source = kind.name()
	}
	return v
}

// onlyValue returns the only value for which the condition holds, "" if there are
// several.
func (c *Condition) onlyValue() string {
	if c.form != formList || c.Negated || len(c.patterns) > 0 || len(c.integers) > 0 {
		return ""
	}
	switch {
	case len(c.texts) == 1 && len(c.addresses) == 0:
		return c.texts[0]
	case len(c.texts) == 0 && len(c.addresses) == 1 && c.addresses[0].low == c.addresses[0].high:
		return c.addresses[0].low.String()
	}
	return ""
}

// LimitsFor returns the thresholds of the rule for a request. It returns false if a
// threshold is Unlimited: the rule then does not match.
func (r *Rule) LimitsFor(p *Params) (Limits, bool) {
	l := r.Limits
	for i := range r.Thresholds {
		t := &r.Thresholds[i]
		raw, _ := p.Get(t.Param)
		var v value
		v.read(raw, true, false)
		*l.of(t.Word), _ = t.value(&v)
	}
	return l, r.complete(&l)
}

// WithCount returns limits with another count, and with another burst if the rule states
// none. It reports whether they limit a request and can be counted exactly. For koalagate's
// own programs, may change.
func (r *Rule) WithCount(l Limits, count int64) (Limits, bool) {
	l.Count = count
	if method.Of(r.Method).Refills && !r.statesBurst {
		l.Burst = count
	}
	return l, count >= 0 && count <= maxCount && !l.isUnlimited() && (!method.Of(r.Method).Refills || r.isExact(&l))
}
