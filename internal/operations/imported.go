package operations

import (
	"context"
	"net/http"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// importedDoor is the door of imported limits.
const importedDoor = doorname.RateLimit

// Imported are the imported limits of a service in the place of envoyproxy/ratelimit.
type Imported struct {
	// Current returns the limits, nil if none are loaded yet.
	Current func() *envoylimits.Set
	// Look reads the counter of a descriptor, and counts nothing.
	Look func(ctx context.Context, domain string, entries []mapping.Entry) (*imported.Look, error)
}

// Entry is an entry of a descriptor of Envoy's rate limit service.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
}

// WhyImported is the imported limit of a descriptor, and the state of its counter.
type WhyImported struct {
	explain.Imported
	Max       int64 `json:"max"` // hits per window; 0 if it is unlimited
	Used      int64 `json:"used"`
	Remaining int64 `json:"remaining"`
	ResetMS   int64 `json:"reset_ms"`
	// Exception is the ID of the exception that applies, "" for none.
	Exception string `json:"exception,omitempty"`
	// Counted reports that the counter was read; otherwise the numbers are 0.
	Counted bool `json:"counted"`
}

// whyImported adds the imported limit of a descriptor. If that refuses, no rule decides.
func (d *Desk) whyImported(ctx context.Context, question *explain.Question, w *Why) error {
	domain, entries, ok := question.Descriptor()
	if d.imported == nil || !ok {
		return nil
	}
	look, err := d.imported.Look(ctx, domain, entries)
	if err != nil {
		return err
	}
	x := &WhyImported{Imported: explain.NewImported(look.Path, look.Limit, look.Reason, look.Refused)}
	w.Imported = x
	if look.Limit == nil || look.Limit.Unlimited {
		return nil
	}
	x.Counted, x.Max, x.Used, x.Remaining, x.ResetMS = true, look.Max, look.Used, look.Remaining, look.Reset.Milliseconds()
	x.Exception = look.Exception
	if look.Match.Rule != nil {
		w.addRefusals(d.refusals.Of(&look.Match))
	}
	w.Degraded = w.Degraded || look.Degraded
	if look.Refused {
		w.Verdict, w.Decider, w.Status, w.Headers = rules.Deny.String(), 0, http.StatusTooManyRequests, nil
	}
	return nil
}

// limits returns the imported limits by which package explain answers, nil for none.
func (d *Desk) limits() *envoylimits.Set {
	if d.imported == nil {
		return nil
	}
	if set := d.imported.Current(); set != nil {
		return set
	}
	return new(envoylimits.Set)
}

// descriptorOf returns the parameters of a question at the rate limit service, the
// entries of its descriptor in their order.
func (q *Question) descriptorOf() ([]mapping.Entry, error) {
	r := q.Request
	switch {
	case len(r.Descriptor) == 0:
		return entriesOf(q.Params), nil
	case r.Door != importedDoor:
		return nil, invalid("only the door %s has a descriptor; remove it, or the door %q", importedDoor, r.Door)
	}
	list := make([]mapping.Entry, 0, len(r.Descriptor)+1)
	for name, value := range q.Params {
		if name != "domain" {
			return nil, invalid("the parameter %.100q stands next to a descriptor; want domain alone", name)
		}
		list = append(list, mapping.Entry{Key: name, Value: value})
	}
	for _, e := range r.Descriptor {
		if e.Key == "domain" {
			return nil, invalid("the descriptor has the key domain; want the domain in the parameters")
		}
		list = append(list, mapping.Entry(e))
	}
	return list, nil
}
