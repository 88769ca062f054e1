package ratelimit

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/store"
)

// applied is one descriptor with its limit and the result of counting.
type applied struct {
	limit     *envoylimits.Limit // nil if none applies
	unlimited bool
	path      string // of the statistics
	set       int    // in the plan; of those with a limit
	subject   int    // in limitCall.subject, where its subject ends
	weight    int64  // that the descriptor asks for
	operation operation
	negative  bool // the weight is given back
	ownHits   bool // the descriptor carries its weight itself

	counted   int64 // the weight that was counted
	after     int64 // hits after the call
	over      bool
	remaining uint32
	reset     int64 // seconds
}

// importedSubject begins the subjects of imported limits. No identity of a rule begins
// with it, see package engine.
const importedSubject = 0xF3

// apply finds the limit of each descriptor.
func (c *limitCall) apply(set *envoylimits.Set) error {
	c.applied = slices.Grow(c.applied[:0], len(c.message.descriptors))[:len(c.message.descriptors)]
	c.subject = c.subject[:0]
	known, replaces := set.Knows(c.message.domain), false
	for i := range c.message.descriptors {
		d, a := &c.message.descriptors[i], &c.applied[i]
		*a = applied{operation: d.operation, negative: d.isNegative || d.operation == refund, ownHits: d.hasHits, weight: int64(min(c.message.hitsOf(d), store.MaxWeight))}
		if !known {
			c.limits.options.Statistics.UnknownDomain(c.message.domain)
			continue
		}
		if d.operation == settle || d.operation == renew {
			continue // receipts are of the rules
		}
		entries := c.message.entriesOf(i)
		c.match.Shared = nil
		if d.hasLimit {
			limit, err := c.override(d, entries)
			if err != nil {
				return err
			}
			a.limit, a.path = limit, limit.Path
		} else {
			set.Match(c.message.domain, entries, &c.match)
			a.limit, a.path = c.match.Limit, c.match.Path
		}
		if a.limit == nil {
			continue
		}
		replaces = replaces || len(a.limit.Replaces) > 0
		if !a.limit.Unlimited {
			c.appendSubject(a, entries, c.match.Shared)
		}
	}
	if replaces {
		c.replace()
	}
	for i := range c.applied {
		if a := &c.applied[i]; a.limit != nil && a.limit.Unlimited {
			a.limit, a.unlimited = nil, true
		}
	}
	return nil
}

// override returns the limit that a descriptor carries.
func (c *limitCall) override(d *descriptor, entries []mapping.Entry) (*envoylimits.Limit, error) {
	unit := envoylimits.Unit(min(max(d.limit.unit, 0), math.MaxUint8))
	if unit.Seconds() == 0 {
		return nil, errors.New("the limit of a descriptor has no unit; want SECOND to YEAR")
	}
	keys := make([]string, len(entries))
	for i, e := range entries {
		if keys[i] = e.Key; e.Value != "" {
			keys[i] = e.Key + "_" + e.Value
		}
	}
	path := c.message.domain + "." + strings.Join(keys, ".")
	return &envoylimits.Limit{Path: path, Requests: d.limit.requests, Unit: unit}, nil
}

// replace drops the limits that another limit of the call replaces.
func (c *limitCall) replace() {
	var names []string
	for i := range c.applied {
		if l := c.applied[i].limit; l != nil {
			names = append(names, l.Replaces...)
		}
	}
	for i := range c.applied {
		if l := c.applied[i].limit; l != nil && l.Name != "" && !l.Unlimited && slices.Contains(names, l.Name) {
			c.applied[i].limit = nil
		}
	}
}

// appendSubject appends the identity of a descriptor's counter: the unit, the domain and
// the entries, each as key_value, with patterns for values that share a counter.
func (c *limitCall) appendSubject(a *applied, entries []mapping.Entry, shared []string) {
	b := c.subject
	b = append(b, importedSubject, byte(a.limit.Unit))
	b = append(binary.AppendUvarint(b, uint64(len(c.message.domain))), c.message.domain...)
	for i, e := range entries {
		value := e.Value
		if shared != nil && shared[i] != "" {
			value = shared[i]
		}
		b = binary.AppendUvarint(b, uint64(len(e.Key)+1+len(value)))
		b = append(append(append(b, e.Key...), '_'), value...)
	}
	c.subject, a.subject = b, len(b)
}
