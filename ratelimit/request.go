package ratelimit

import (
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/envoyapi"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

const (
	// maxDescriptors is the largest Options.MaxDescriptors. A request is one step in
	// the store, which delays all other calls while it takes.
	maxDescriptors = 1024
	// maxSeconds is the longest window of the rule language.
	maxSeconds = 31_622_400
)

// call is one call of the door with the memory that it needs, which is reused.
type call struct {
	server     *Server
	message    message
	operations int // the number of descriptors that are operations
	question   door.Question
	metadata   envoyapi.Metadata
	single     engine.Decision // about one descriptor
	reply      []byte          // in wire form
	receipt    string          // of the decision; "" for none
}

// UnmarshalBinary reads a RateLimitRequest in wire form.
func (c *call) UnmarshalBinary(request []byte) error { return c.message.read(request) }

// sets returns the number of parameter sets that the call is decided by, one per
// descriptor that is no operation. A door that lets faulty requests pass answers each
// descriptor too, so the number is at least 1 and bounded even for requests that are
// refused.
func (c *call) sets() int {
	return min(max(c.message.count, 1), c.server.maxDescriptors) - c.operations
}

// begin starts the question.
func (c *call) begin() {
	c.server.gate.Begin(&c.question, c.sets())
	c.question.Request.Door = doorname.RateLimit
	c.question.Patience = engine.MaxWait // Envoy sends its deadline
}

// check checks the request and finds its operations. It does not use the generated
// validation: descriptors without entries, empty values and duplicates occur, and
// have a meaning.
func (c *call) check() (err error) {
	m := &c.message
	switch {
	case m.domain == "":
		return door.Invalid("the domain is empty; set `domain` in Envoy's filter")
	case m.count == 0:
		return door.Invalid("no descriptors; want at least one")
	case m.count > c.server.maxDescriptors:
		c.server.tooManyDescriptors()
		return door.Invalid("%d descriptors; want at most %d", m.count, c.server.maxDescriptors)
	}
	if !c.server.plainEntries {
		c.operations, err = m.readOperations()
	}
	return err
}

// fill makes a parameter set of each descriptor that is no operation.
func (c *call) fill() error {
	set := 0
	for i := range c.message.descriptors {
		if c.message.descriptors[i].operation != decide {
			continue
		}
		if err := c.fillSet(set, i); err != nil {
			return err
		}
		set++
	}
	return nil
}

// fillSet makes a parameter set of descriptor i.
func (c *call) fillSet(set, i int) error {
	if err := c.fillInput(&c.question.Inputs()[set], i); err != nil {
		return err
	}
	c.question.Request = mapping.Request{Door: doorname.RateLimit, Domain: c.message.domain, Entries: c.message.entriesOf(i)}
	if err := c.server.gate.Map(&c.question, set); err != nil {
		return door.Invalid("descriptors[%d]: %v", i, err)
	}
	return nil
}

// fillInput sets the weight of descriptor i and the limit that it carries.
func (c *call) fillInput(in *engine.Input, i int) error {
	d := &c.message.descriptors[i]
	in.Hits, in.Refund = c.message.hitsOf(d), d.isNegative && d.operation == decide
	in.NoHits = in.Hits == 0
	if d.hasLimit {
		seconds := d.limit.seconds()
		if seconds < 1 || seconds > maxSeconds {
			return door.Invalid("descriptors[%d]: a limit of unit %v times %d; want a unit, and 1 … %d seconds",
				i, d.limit.unit, d.limit.times(), maxSeconds)
		}
		in.Override = &engine.Override{
			Count:   int64(d.limit.requests),
			Seconds: seconds,
			Entries: c.message.subject(i),
		}
	}
	return nil
}

// hitsOf returns the weight of a descriptor. In the request 0 is unset and means 1.
// A descriptor's own weight is a wrapper message, and its 0 reads without counting.
func (m *message) hitsOf(d *descriptor) uint64 {
	if d.hasHits {
		return d.hits
	}
	return max(1, uint64(m.hits))
}

// seconds returns the window of a descriptor's limit; 0 for an unknown unit. 86400
// is the calendar day however it is expressed (24 HOUR is 1 DAY): in the rule
// language too, the number alone decides.
func (l *limit) seconds() int64 { return unitSeconds[l.unit] * l.times() }

var unitSeconds = map[typev3.RateLimitUnit]int64{
	typev3.RateLimitUnit_SECOND: 1,
	typev3.RateLimitUnit_MINUTE: 60,
	typev3.RateLimitUnit_HOUR:   3600,
	typev3.RateLimitUnit_DAY:    rules.Day,
	typev3.RateLimitUnit_MONTH:  30 * rules.Day,
	typev3.RateLimitUnit_YEAR:   365 * rules.Day,
}

// times returns the multiplier of the unit, 1 without one. 0 stays 0 and makes no
// valid window.
func (l *limit) times() int64 {
	if l.hasMultiplier {
		return int64(l.multiplier)
	}
	return 1
}

// subject returns what a limit that meets no rule counts by: the descriptor's entries
// in their order, within their domain, because domains never share a counter.
func (m *message) subject(i int) []string {
	entries := m.entriesOf(i)
	s := make([]string, 0, 1+2*len(entries))
	s = append(s, m.domain)
	for _, e := range entries {
		s = append(s, e.Key, e.Value)
	}
	return s
}

// entriesOf returns the entries of a descriptor.
func (m *message) entriesOf(i int) []mapping.Entry {
	d := &m.descriptors[i]
	return m.entries[d.from:d.to:d.to]
}

// reset drops everything that belongs to the call and keeps the memory, unless the
// call was unusually large.
func (c *call) reset() {
	const keptEntries = 64
	const keptReply = 64 << 10
	c.question.Reset()
	if cap(c.message.entries) > keptEntries || cap(c.reply) > keptReply {
		*c = call{}
		return
	}
	c.server, c.metadata, c.operations, c.receipt = nil, envoyapi.Metadata{}, 0, ""
	c.message.reset()
}
