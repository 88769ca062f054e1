package explain

import (
	"fmt"
	"net/http"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/rules"
)

// Limit returns the limit of a rule in words, for requests to which no threshold gives
// another value.
func Limit(r *rules.Rule) string { return limitText(r, &r.Limits) }

// limitText returns the limit of a rule in words.
func limitText(r *rules.Rule, l *rules.Limits) string {
	window, is := fmt.Sprintf("%d s", l.Time), method.Of(r.Method)
	if is.Windows {
		window = windowText(r, l)
	}
	text := is.Limit(l.Count, l.Base, l.Burst, window)
	switch {
	case r.Ban > 0:
		text += fmt.Sprintf(", a refusal bans for %d s", r.Ban)
	case r.Wait > 0:
		text += fmt.Sprintf(", waiting up to %g s", float64(r.Wait)/1000)
	}
	if r.Overdraft {
		text += ", counting what it refuses"
	}
	if r.Mark != "" {
		text += ", marking as " + r.Mark + " what exceeds it"
	}
	switch {
	case r.IsOutcome():
		text += fmt.Sprintf(", counted by the response within %d s", r.Settle)
	case r.Settle > 0:
		text += fmt.Sprintf(", settled within %d s", r.Settle)
	case r.Lease > 0:
		text += fmt.Sprintf(", up to %g %% of it held in advance by instances", float64(r.Lease)/10)
	}
	return text
}

// windowText returns the window of a count rule in words.
func windowText(r *rules.Rule, l *rules.Limits) string {
	var unit string
	switch r.Unit {
	case rules.Epoch:
		return fmt.Sprintf("%d s since the epoch", l.Time)
	case rules.Minute:
		unit = "minute"
	case rules.Hour:
		unit = "hour"
	case rules.Week:
		unit = "week"
	case rules.Month:
		unit = "month"
	case rules.Year:
		unit = "year"
	default:
		if l.Time != rules.Day {
			return fmt.Sprintf("%d s", l.Time)
		}
		unit = "day"
	}
	if r.From > 1 {
		return fmt.Sprintf("a calendar %s from day %d", unit, r.From)
	}
	return "a calendar " + unit
}

// Imported explains the imported limit of a descriptor.
type Imported struct {
	Path    string `json:"path,omitempty"`  // as in /rlconfig and in the statistics; "" if no limit applies
	Name    string `json:"name,omitempty"`  // that answers show; "" for a limit without one
	Limit   string `json:"limit,omitempty"` // in words
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"` // why no limit applies
}

// NewImported returns the explanation of a limit, or the reason for which none applies.
// isOver reports whether the request exceeds it.
func NewImported(path string, l *envoylimits.Limit, reason string, isOver bool) Imported {
	x := Imported{Path: path, Reason: reason, Outcome: NotMet}
	if l == nil {
		return x
	}
	x.Name, x.Limit = l.Name, l.Text()
	switch {
	case l.Shadow:
		x.Outcome = Shadow
	case isOver:
		x.Outcome = Decides
	default:
		x.Outcome = Passes
	}
	return x
}

// Descriptor returns the domain and the entries of the question's descriptor. ok is false
// at other doors than the rate limit service.
func (q *Question) Descriptor() (domain string, entries []mapping.Entry, ok bool) {
	if q.call == nil || doorname.Of(q.call.Door).Adds != doorname.Entries {
		return "", nil, false
	}
	call := q.fullCall()
	return call.Domain, call.Entries, true
}

// explainImported explains the imported limit of the question for a first request, nil
// without imported limits.
func (q *Question) explainImported() *Imported {
	domain, entries, ok := q.Descriptor()
	if !ok || q.options.Limits == nil {
		return nil
	}
	var m envoylimits.Match
	q.options.Limits.Match(domain, entries, &m)
	if m.Limit == nil {
		x := NewImported("", nil, q.options.Limits.Reason(domain, entries, &m), false)
		return &x
	}
	hits := max(q.options.Hits, 1)
	if q.options.NoHits {
		hits = 0
	}
	x := NewImported(m.Path, m.Limit, "", !m.Limit.Unlimited && hits > uint64(m.Limit.Requests))
	return &x
}

// refusal returns the decision of an imported limit that refuses.
func (x *Imported) refusal() *Decision {
	return &Decision{Verdict: "deny", Result: noResult, Imported: x.Path, Matched: true, Status: http.StatusTooManyRequests}
}

// noResult is the result of a decision to which no entry of a rule file applies.
const noResult = -1
