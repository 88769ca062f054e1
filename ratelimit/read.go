package ratelimit

import (
	"errors"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/mapping"
)

// The tags of a RateLimitRequest and what is in it, a field's number times eight
// and its kind: envoy/service/ratelimit/v3/rls.proto,
// envoy/extensions/common/ratelimit/v3/ratelimit.proto and
// google/protobuf/wrappers.proto.
const (
	tagDomain     = 1<<3 | uint64(protowire.BytesType)
	tagDescriptor = 2<<3 | uint64(protowire.BytesType)
	tagHits       = 3<<3 | uint64(protowire.VarintType)

	tagEntry          = 1<<3 | uint64(protowire.BytesType)
	tagLimit          = 2<<3 | uint64(protowire.BytesType)
	tagDescriptorHits = 3<<3 | uint64(protowire.BytesType)
	tagIsNegative     = 4<<3 | uint64(protowire.VarintType)

	tagKey   = 1<<3 | uint64(protowire.BytesType)
	tagValue = 2<<3 | uint64(protowire.BytesType)

	tagRequests   = 1<<3 | uint64(protowire.VarintType)
	tagUnit       = 2<<3 | uint64(protowire.VarintType)
	tagMultiplier = 3<<3 | uint64(protowire.BytesType)

	tagWrapped = 1<<3 | uint64(protowire.VarintType)
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
func (a *asked) read(wire []byte) error {
	a.text = string(wire)
	f := fields{wire: wire, end: len(wire)}
	for f.next() {
		switch f.tag {
		case tagDomain:
			a.domain = a.text[f.from:f.at]
		case tagHits:
			a.hits = uint32(f.number)
		case tagDescriptor:
			if a.count++; a.count <= maxDescriptors { // with more it is refused, whatever they say
				f.err = a.readDescriptor(f.inner())
			}
		}
	}
	return f.err
}

func (a *asked) readDescriptor(f fields) error {
	d := descriptor{from: len(a.entries)}
	for f.next() {
		switch f.tag {
		case tagEntry:
			f.err = a.readEntry(f.inner())
		case tagLimit:
			d.hasLimit = true
			f.err = d.limit.read(f.inner())
		case tagDescriptorHits:
			d.hasHits = true
			d.hits, f.err = readWrapped(f.inner(), d.hits)
		case tagIsNegative:
			d.isNegative = protowire.DecodeBool(f.number)
		}
	}
	d.to = len(a.entries)
	a.descriptors = append(a.descriptors, d)
	return f.err
}

func (a *asked) readEntry(f fields) error {
	var e mapping.Entry
	for f.next() {
		switch f.tag {
		case tagKey:
			e.Key = a.text[f.from:f.at]
		case tagValue:
			e.Value = a.text[f.from:f.at]
		}
	}
	a.entries = append(a.entries, e)
	return f.err
}

func (l *limit) read(f fields) error {
	for f.next() {
		switch f.tag {
		case tagRequests:
			l.requests = uint32(f.number)
		case tagUnit:
			l.unit = typev3.RateLimitUnit(f.number)
		case tagMultiplier:
			var multiplier uint64
			multiplier, f.err = readWrapped(f.inner(), uint64(l.multiplier))
			l.hasMultiplier, l.multiplier = true, uint32(multiplier)
		}
	}
	return f.err
}

// readWrapped reads the number of a wrapper, which is v where it says none.
func readWrapped(f fields, v uint64) (uint64, error) {
	for f.next() {
		if f.tag == tagWrapped {
			v = f.number
		}
	}
	return v, f.err
}

// forget drops the texts and keeps the memory.
func (a *asked) forget() {
	clear(a.entries)
	*a = asked{descriptors: a.descriptors[:0], entries: a.entries[:0]}
}

// fields goes over the fields of a message, which lies in wire up to end.
type fields struct {
	wire    []byte
	at, end int
	err     error

	// The field that next came to; it ends at at.
	tag    uint64
	from   int    // where its content begins
	number uint64 // a varint's
}

// next goes to the next field, and tells whether there is one.
func (f *fields) next() bool {
	if f.err != nil || f.at == f.end {
		return false
	}
	rest := f.wire[f.at:f.end]
	tag, n := protowire.ConsumeVarint(rest)
	switch {
	case n < 0:
		return f.fail(protowire.ParseError(n))
	case tag>>3 < uint64(protowire.MinValidNumber) || tag>>3 > uint64(protowire.MaxValidNumber):
		return f.fail(errNumber)
	}
	rest = rest[n:]
	var size int
	switch f.tag, f.from = tag, f.at+n; protowire.Type(tag & 7) {
	case protowire.VarintType:
		f.number, size = protowire.ConsumeVarint(rest)
	case protowire.BytesType:
		var content []byte
		content, size = protowire.ConsumeBytes(rest)
		f.from += size - len(content)
	default:
		size = protowire.ConsumeFieldValue(protowire.Number(tag>>3), protowire.Type(tag&7), rest)
	}
	if size < 0 {
		return f.fail(protowire.ParseError(size))
	}
	f.at += n + size
	return true
}

var errNumber = errors.New("a field has a number that is none")

// fail ends the walk.
func (f *fields) fail(err error) bool {
	f.err = err
	return false
}

// inner are the fields of the message that the field is.
func (f *fields) inner() fields { return fields{wire: f.wire, at: f.from, end: f.at} }
