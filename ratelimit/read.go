package ratelimit

import (
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/wire"
)

// The tags of a RateLimitRequest and what is in it, a field's number times eight
// and its kind: envoy/service/ratelimit/v3/rls.proto,
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

// asked is a RateLimitRequest: what the generated messages, a dozen for four
// descriptors, would say of it. Its texts are any bytes, as a client's header may
// have them, which the library would refuse to read.
type asked struct {
	domain      string
	hits        uint32
	count       int             // of descriptors
	descriptors []descriptor    // maxDescriptors of them at most
	entries     []mapping.Entry // of all descriptors, in order

	text string // the whole request, of which all texts are parts
}

// descriptor is one descriptor of a request.
type descriptor struct {
	from, to   int // where its entries are in those of all
	isNegative bool
	hasHits    bool
	hits       uint64
	hasLimit   bool
	limit      limit
}

// limit is a descriptor's own.
type limit struct {
	requests      uint32
	unit          typev3.RateLimitUnit
	hasMultiplier bool
	multiplier    uint32
}

// read reads a request as the library does: of a field that comes twice the last
// counts, messages are merged, and what is unknown is passed over.
func (a *asked) read(request []byte) error {
	a.text = string(request)
	f := wire.Read(request)
	for f.Next() {
		switch f.Tag {
		case tagDomain:
			a.domain = f.Text(a.text)
		case tagHits:
			a.hits = uint32(f.Number)
		case tagDescriptor:
			if a.count++; a.count <= maxDescriptors { // with more it is refused, whatever they say
				f.Err = a.readDescriptor(f.Inner())
			}
		}
	}
	return f.Err
}

func (a *asked) readDescriptor(f wire.Fields) error {
	d := descriptor{from: len(a.entries)}
	for f.Next() {
		switch f.Tag {
		case tagEntry:
			var e mapping.Entry
			e.Key, e.Value, f.Err = f.Inner().Pair(a.text)
			a.entries = append(a.entries, e)
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
	d.to = len(a.entries)
	a.descriptors = append(a.descriptors, d)
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

// readWrapped reads the number of a wrapper, which is v where it says none.
func readWrapped(f wire.Fields, v uint64) (uint64, error) {
	for f.Next() {
		if f.Tag == tagWrapped {
			v = f.Number
		}
	}
	return v, f.Err
}

// forget drops the texts and keeps the memory.
func (a *asked) forget() {
	clear(a.entries)
	*a = asked{descriptors: a.descriptors[:0], entries: a.entries[:0]}
}
