package explain

import (
	"net/http"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/mapping"
)

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
