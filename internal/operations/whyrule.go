package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/rules"
)

// WhyRule is a rule that the request meets or that counts by the identity.
type WhyRule struct {
	Rule      int64    `json:"rule"`
	Name      string   `json:"name,omitempty"`
	Matched   bool     `json:"matched"` // whether requests of the question meet the rule
	Why       string   `json:"why"`     // why they do not, or what the rule does
	Identity  Identity `json:"identity,omitempty"`
	Limit     int64    `json:"limit"`
	Used      int64    `json:"used"`
	Remaining int64    `json:"remaining"`
	ResetMS   int64    `json:"reset_ms"`
	RetryMS   int64    `json:"retry_ms"` // 0 if another hit fits now, negative if none ever does
	BannedMS  int64    `json:"banned_ms"`
	Leased    int64    `json:"leased,omitempty"` // hits in Used that other instances hold in advance and may not have spent
	// Lent is what gateways hold that decide by themselves; nil if none does.
	Lent *WhyLent `json:"lent,omitempty"`
	// Exception is the ID of the exception that applies, "" for none.
	Exception string `json:"exception,omitempty"`
	// Counted reports that the counter was read; otherwise the numbers are 0.
	Counted bool `json:"counted"`

	match *rules.Match
	kind  engine.ExceptionKind // of the exception
}

// WhyLent is the part of a limit that gateways hold which decide by themselves.
type WhyLent struct {
	Holders   int64   `json:"holders"`       // gateways
	PerSecond float64 `json:"per_second"`    // hits that all of them may admit
	Of        float64 `json:"of_per_second"` // hits of the limit
}

// decides reports whether the rule decides about another hit.
func (w *WhyRule) decides() bool {
	switch {
	case !w.Matched || !w.match.Rule.Enforced() || w.kind == engine.ExceptAllow:
		return false
	case w.kind == engine.ExceptDeny || !w.match.Rule.Counts():
		return true
	}
	return w.RetryMS != 0
}

// whyMatches returns the rules that a request meets, and the rules that only one
// condition keeps from it. The error comes from ctx.
func whyMatches(ctx context.Context, set *rules.Set, params *rules.Params, now int64) ([]WhyRule, error) {
	list := []WhyRule{}
	err := explain.Each(ctx, set, params, now, func(m *explain.Meeting) {
		row := rowOf(m.Rule)
		switch {
		case m.Match != nil:
			row.Matched, row.match = true, m.Match
			if m.Rule.Counts() {
				row.Identity = identityOf(m.Match)
			}
		case len(m.Failed) > 1:
			return
		default:
			row.Why = unmet(m)
		}
		list = append(list, row)
	})
	return list, err
}

// whyIdentity returns the rules that count by one of the parameters, with the identity
// that they name. The error comes from ctx.
func whyIdentity(ctx context.Context, set *rules.Set, params *rules.Params, now int64) ([]WhyRule, error) {
	list := []WhyRule{}
	for _, r := range set.Rules {
		if err := pace.Step(ctx); err != nil {
			return nil, err
		}
		named := namedBy(r, params)
		if named.Len() == 0 {
			continue
		}
		row := rowOf(r)
		row.Matched, row.Why = false, ""
		match, err := r.Identify(named)
		var incomplete *rules.IdentityError
		if errors.As(err, &incomplete) {
			row.Why = incomplete.Reason()
			list = append(list, row)
			continue
		}
		row.complete(&match, params, now)
		list = append(list, row)
	}
	return list, nil
}

// complete sets the counter of a rule by the identity, and why requests do not meet it.
func (w *WhyRule) complete(m *rules.Match, params *rules.Params, now int64) {
	w.Identity = identityOf(m)
	var missing []string
	for i := range m.Rule.Thresholds {
		if name := m.Rule.Thresholds[i].Param; !slices.Contains(missing, name) {
			if _, known := params.Get(name); !known {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		w.Why = "its limit depends on missing parameters: " + strings.Join(missing, ", ")
		return
	}
	limits, limited := m.Rule.LimitsFor(params)
	if !limited {
		w.Why = "it is unlimited for these parameters"
		return
	}
	m.Limits = limits
	w.match = m
	full := rules.MakeParams(w.Identity)
	for _, p := range params.List() {
		full.SetNamed(params.FullName(p.Name), p.Value)
	}
	meeting := explain.Meet(m.Rule, full, now)
	if w.Matched = len(meeting.Failed) == 0 && meeting.Active; w.Matched {
		w.Why = effect(m.Rule)
	} else {
		w.Why = unmet(&meeting)
	}
}

func rowOf(r *rules.Rule) WhyRule {
	return WhyRule{Rule: r.Return, Name: r.Name, Why: effect(r)}
}

// effect returns the effect of a rule that a request meets.
func effect(r *rules.Rule) string {
	switch {
	case r.Shadow:
		return "it never decides: shadow=1"
	case r.Mark != "":
		return "it never decides: mark=" + r.Mark
	case r.Counts() && len(r.CountsBy()) == 0:
		return "it counts all requests together"
	case r.Counts():
		return "it counts by " + strings.Join(r.CountsBy(), ", ")
	}
	return "it answers " + r.Result.Verdict().String() + " to every request that meets it"
}

// exceptionWhy describes the effect of an exception.
func exceptionWhy(x *engine.Exception) string {
	until := time.UnixMilli(x.Until).UTC().Format(time.RFC3339)
	switch x.Kind {
	case engine.ExceptAllow:
		return "an exception lets it pass until " + until
	case engine.ExceptDeny:
		return "an exception refuses it until " + until
	}
	return fmt.Sprintf("an exception sets its count to %d until %s", x.Count, until)
}

// unmet returns why a request does not meet a rule.
func unmet(m *explain.Meeting) string {
	var reasons []string
	for _, c := range m.Failed {
		reasons = append(reasons, c.String())
	}
	switch {
	case len(reasons) > 0:
		return "requests must also meet " + strings.Join(reasons, "; ")
	case !m.Active:
		return "it is not active now: see its since= and until="
	}
	return "it is unlimited for these parameters"
}
