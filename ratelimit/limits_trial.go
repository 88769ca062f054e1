package ratelimit

import (
	"slices"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/envoylimits"
)

// OnTrial returns a function that makes sources of a call of a Limits with these options,
// for the time after the call: one with the limits that decided it, and one that decides it by
// a set on trial. Both discard statistics. They are nil for other calls. The function is safe for
// concurrent use.
func OnTrial(o imported.Options, set *envoylimits.Set) func(*engine.Call) (inForce, onTrial engine.Source) {
	o.Statistics = noStatistics{}
	before, now := &Limits{options: o, rules: limitRules{options: &o}}, &Limits{options: o, rules: limitRules{options: &o}}
	return func(c *engine.Call) (inForce, onTrial engine.Source) {
		call, ok := c.Source.(*limitCall)
		if !ok {
			return nil, nil
		}
		m := message{domain: call.message.domain, descriptors: slices.Clone(call.message.descriptors), entries: slices.Clone(call.message.entries)}
		return call.copyFor(before, call.set, m), call.copyFor(now, set, m)
	}
}

// copyFor returns a source of the same descriptors by the limits of a set, in which nothing is
// found yet.
func (c *limitCall) copyFor(limits *Limits, set *envoylimits.Set, m message) *limitCall {
	own := &limitCall{limits: limits, set: set, asked: slices.Clone(c.asked), operating: c.operating, browsing: c.browsing}
	own.message = m
	own.applied = make([]applied, len(c.applied))
	for i := range c.applied {
		a := &c.applied[i]
		own.applied[i] = applied{operation: a.operation, negative: a.negative, ownHits: a.ownHits, weight: a.weight, counted: a.counted}
	}
	return own
}

// noStatistics discards the events of limits on trial.
type noStatistics struct{}

// Called discards the time of a call.
func (noStatistics) Called(time.Duration) {}

// UnknownDomain discards a domain.
func (noStatistics) UnknownDomain(string) {}

// Counted discards the hits of a limit.
func (noStatistics) Counted(string, *envoylimits.Limit, uint64, uint64, uint64, uint64) {}

// Subtracted discards hits that were given back.
func (noStatistics) Subtracted(string, *envoylimits.Limit, uint64) {}

// Overruled discards a refusal that shadow mode overruled.
func (noStatistics) Overruled() {}

// StoreFailed discards a fault of the store.
func (noStatistics) StoreFailed() {}

// RequestFailed discards a fault of a request.
func (noStatistics) RequestFailed() {}
