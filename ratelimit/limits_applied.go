package ratelimit

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/mapping"
)

// applied is one descriptor with its limit and the result of counting.
type applied struct {
	limit     *envoylimits.Limit // nil if none applies
	unlimited bool
	path      string // of the statistics
	from, to  int    // its subject in limitCall.subject
	weight    int64  // that the descriptor asks for
	operation operation
	negative  bool // the weight is given back
	ownHits   bool // the descriptor carries its weight itself

	counted   int64 // the weight that was counted
	most      int64 // hits that the limit allows, or an exception in its place
	after     int64 // hits after the call
	over      bool
	banned    int64 // seconds until the end of the ban that refuses it; 0 for none
	remaining uint32
	reset     int64 // seconds
}

// importedSubject begins the subjects of imported limits. No identity of a rule begins
// with it, see package engine.
const importedSubject = 0xF3

// prepare makes a record of each descriptor.
func (c *limitCall) prepare() {
	c.applied = slices.Grow(c.applied[:0], len(c.message.descriptors))[:len(c.message.descriptors)]
	c.asked, c.subject = c.asked[:0], c.subject[:0]
	for i := range c.message.descriptors {
		d := &c.message.descriptors[i]
		weight := int64(min(c.message.hitsOf(d), engine.MaxHits))
		c.applied[i] = applied{operation: d.operation, negative: d.isNegative || d.operation == refund, ownHits: d.hasHits, weight: weight, counted: weight}
	}
}

// takesLimit reports whether limits concern the descriptor. Receipts are of the rules.
func (d *descriptor) takesLimit() bool { return d.operation != settle && d.operation != renew }

// find finds the limit of each descriptor.
func (c *limitCall) find() {
	known, replaces := c.set.Knows(c.message.domain), false
	for i := range c.message.descriptors {
		d, a := &c.message.descriptors[i], &c.applied[i]
		if !known {
			c.limits.options.Statistics.UnknownDomain(c.message.domain)
			continue
		}
		if !d.takesLimit() {
			continue
		}
		entries := c.message.entriesOf(i)
		c.match.Shared = nil
		if d.hasLimit {
			a.limit, a.path = c.override(d, entries)
		} else {
			c.set.Match(c.message.domain, entries, &c.match)
			a.limit, a.path = c.match.Limit, c.match.Path
		}
		if a.limit == nil {
			continue
		}
		a.most = int64(a.limit.Requests)
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
}

// unitOf returns the unit of the limit that a descriptor carries.
func unitOf(d *descriptor) envoylimits.Unit {
	return envoylimits.Unit(min(max(d.limit.unit, 0), math.MaxUint8))
}

// override returns the limit that a descriptor carries, and the path of its statistics with the
// values of the descriptor. The path of the limit has none: clients choose values.
func (c *limitCall) override(d *descriptor, entries []mapping.Entry) (limit *envoylimits.Limit, path string) {
	var own, full strings.Builder
	own.WriteString(c.message.domain)
	full.WriteString(c.message.domain)
	for _, e := range entries {
		own.WriteString("." + e.Key)
		full.WriteString("." + e.Key)
		if e.Value != "" {
			full.WriteString("_" + e.Value)
		}
	}
	return &envoylimits.Limit{Number: -1, Path: own.String(), Requests: d.limit.requests, Unit: unitOf(d)}, full.String()
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
	a.from = len(b)
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
	c.subject, a.to = b, len(b)
}
