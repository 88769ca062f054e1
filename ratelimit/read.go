package ratelimit

import (
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/wire"
)

// The tags of a RateLimitRequest and of the messages in it: envoy/service/ratelimit/v3/rls.proto,
// envoy/extensions/common/ratelimit/v3/ratelimit.proto and
// google/protobuf/wrappers.proto.
const (
	tagDomain     = 1<<3 | wire.Bytes
	tagDescriptor = 2<<3 | wire.Bytes
	tagHits       = 3<<3 | wire.Varint

	tagEntry          = 1<<3 | wire.Bytes
	tagLimit          = 2<<3 | wire.Bytes
	tagDescriptorHits = 3<<3 | wire.Bytes
	tagIsNegative     = 4<<3 | wire.Varint

	tagRequests   = 1<<3 | wire.Varint
	tagUnit       = 2<<3 | wire.Varint
	tagMultiplier = 3<<3 | wire.Bytes

	tagWrapped = 1<<3 | wire.Varint
)

// message is a decoded RateLimitRequest. Strings may hold any bytes, as client
// headers do; the protobuf library would reject them.
type message struct {
	domain      string
	hits        uint32
	count       int             // of descriptors in the request
	descriptors []descriptor    // at most maxDescriptors
	entries     []mapping.Entry // of all descriptors, in order

	text string // the whole request, which all strings are parts of
}

// descriptor is one descriptor of a request.
type descriptor struct {
	from, to   int // its part of message.entries
	operation  operation
	receipt    string // of settle and renew
	isNegative bool
	hasHits    bool
	hits       uint64
	hasLimit   bool
	limit      limit
}

// limit is the limit that a descriptor may carry.
type limit struct {
	requests      uint32
	unit          typev3.RateLimitUnit
	hasMultiplier bool
	multiplier    uint32
}

// read reads a request as the protobuf library does: the last of several values of
// a field counts, messages are merged, and unknown fields are skipped.
func (m *message) read(request []byte) error {
	m.text = string(request)
	f := wire.Read(request)
	for f.Next() {
		switch f.Tag {
		case tagDomain:
			m.domain = f.Text(m.text)
		case tagHits:
			m.hits = uint32(f.Number)
		case tagDescriptor:
			if m.count++; m.count <= maxDescriptors { // the excess is never used: the request is refused
				f.Err = m.readDescriptor(f.Inner())
			}
		}
	}
	return f.Err
}

func (m *message) readDescriptor(f wire.Fields) error {
	d := descriptor{from: len(m.entries)}
	for f.Next() {
		switch f.Tag {
		case tagEntry:
			var e mapping.Entry
			e.Key, e.Value, f.Err = f.Inner().Pair(m.text)
			m.entries = append(m.entries, e)
		case tagLimit:
			d.hasLimit = true
			f.Err = d.limit.read(f.Inner())
		case tagDescriptorHits:
			d.hasHits = true
			d.hits, f.Err = readWrapped(f.Inner(), d.hits)
		case tagIsNegative:
			d.isNegative = protowire.DecodeBool(f.Number)
		}
	}
	d.to = len(m.entries)
	m.descriptors = append(m.descriptors, d)
	return f.Err
}

func (l *limit) read(f wire.Fields) error {
	for f.Next() {
		switch f.Tag {
		case tagRequests:
			l.requests = uint32(f.Number)
		case tagUnit:
			l.unit = typev3.RateLimitUnit(f.Number)
		case tagMultiplier:
			var multiplier uint64
			multiplier, f.Err = readWrapped(f.Inner(), uint64(l.multiplier))
			l.hasMultiplier, l.multiplier = true, uint32(multiplier)
		}
	}
	return f.Err
}

// readWrapped reads the number of a wrapper message, v if it has none.
func readWrapped(f wire.Fields, v uint64) (uint64, error) {
	for f.Next() {
		if f.Tag == tagWrapped {
			v = f.Number
		}
	}
	return v, f.Err
}

// reset drops the strings and keeps the memory.
func (m *message) reset() {
	clear(m.entries)
	*m = message{descriptors: m.descriptors[:0], entries: m.entries[:0]}
}
