package envoy

import (
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// The tags of what most rate limit requests hold: a field's number, times eight,
// and its kind.
const (
	tagDomain      = 1<<3 | byte(protowire.BytesType)
	tagDescriptor  = 2<<3 | byte(protowire.BytesType)
	tagHitsAddend  = 3<<3 | byte(protowire.VarintType)
	tagEntry       = 1<<3 | byte(protowire.BytesType) // of a descriptor
	tagKey         = 1<<3 | byte(protowire.BytesType) // of an entry
	tagValue       = 2<<3 | byte(protowire.BytesType)
	maxDescriptors = 64 // beyond it, and beyond as many entries, the library reads
)

// readRateLimit reads a request as most are: entries alone in its descriptors.
// At all else it gives up, and says so; what m holds then is of no use. Texts are
// any bytes, as in anybytes.go. The library makes each message and each text a
// piece of memory of its own, two dozen for four descriptors.
func readRateLimit(wire []byte, m *rlsv3.RateLimitRequest) bool {
	descriptors, entries, ok := countParts(wire)
	if !ok {
		return false
	}
	m.Reset()
	r := newRequestRoom(descriptors, entries)
	r.text = string(wire)
	whole := field{to: len(wire)}
	for whole.from < whole.to {
		tag, part, next, ok := nextField(wire, whole)
		if !ok {
			return false
		}
		switch tag {
		case tagDomain:
			m.Domain = r.text[part.from:part.to]
		case tagDescriptor:
			ok = r.descriptor(wire, part)
		case tagHitsAddend:
			m.HitsAddend = uint32(part.number)
		}
		if !ok {
			return false
		}
		whole.from = next
	}
	m.Descriptors = r.descriptorList
	return true
}

// field is where the content of a field lies, or its number.
type field struct {
	from, to int
	number   uint64
}

// nextField is the first field of a message that lies in within, and where the
// one behind it begins. ok is false at a tag or a kind that is not as above.
func nextField(wire []byte, within field) (tag byte, content field, next int, ok bool) {
	tag = wire[within.from]
	number, n := protowire.ConsumeVarint(wire[within.from+1 : within.to])
	if n < 0 {
		return 0, field{}, 0, false
	}
	at := within.from + 1 + n
	switch protowire.Type(tag & 7) {
	case protowire.VarintType:
		return tag, field{number: number}, at, tag == tagHitsAddend
	case protowire.BytesType:
		if number > uint64(within.to-at) {
			return 0, field{}, 0, false
		}
		end := at + int(number)
		return tag, field{from: at, to: end}, end, tag == tagDomain || tag == tagDescriptor
	default:
		return 0, field{}, 0, false
	}
}

// countParts counts descriptors and their entries.
func countParts(wire []byte) (descriptors, entries int, ok bool) {
	for whole := (field{to: len(wire)}); whole.from < whole.to; {
		tag, part, next, ok := nextField(wire, whole)
		if !ok {
			return 0, 0, false
		}
		whole.from = next
		if tag != tagDescriptor {
			continue
		}
		descriptors++
		for part.from < part.to {
			tag, _, next, ok := nextField(wire, part)
			if !ok || tag != tagEntry {
				return 0, 0, false
			}
			entries++
			part.from = next
		}
	}
	return descriptors, entries, descriptors <= maxDescriptors && entries <= maxDescriptors
}

// requestRoom is a request's messages in few pieces, and its texts in one.
type requestRoom struct {
	text           string // the whole request, whose parts the texts are
	descriptors    []ratelimitv3.RateLimitDescriptor
	entries        []ratelimitv3.RateLimitDescriptor_Entry
	descriptorList []*ratelimitv3.RateLimitDescriptor
	entryList      []*ratelimitv3.RateLimitDescriptor_Entry
}

func newRequestRoom(descriptors, entries int) requestRoom {
	if descriptors == 1 && entries == 1 {
		one := new(struct {
			descriptors    [1]ratelimitv3.RateLimitDescriptor
			entries        [1]ratelimitv3.RateLimitDescriptor_Entry
			descriptorList [1]*ratelimitv3.RateLimitDescriptor
			entryList      [1]*ratelimitv3.RateLimitDescriptor_Entry
		})
		return requestRoom{"", one.descriptors[:], one.entries[:], one.descriptorList[:0], one.entryList[:0]}
	}
	return requestRoom{
		descriptors:    make([]ratelimitv3.RateLimitDescriptor, descriptors),
		entries:        make([]ratelimitv3.RateLimitDescriptor_Entry, entries),
		descriptorList: make([]*ratelimitv3.RateLimitDescriptor, 0, descriptors),
		entryList:      make([]*ratelimitv3.RateLimitDescriptor_Entry, 0, entries),
	}
}

// descriptor reads one more descriptor.
func (r *requestRoom) descriptor(wire []byte, part field) bool {
	d := &r.descriptors[len(r.descriptorList)]
	r.descriptorList = append(r.descriptorList, d)
	first := len(r.entryList)
	for part.from < part.to {
		_, entry, next, ok := nextField(wire, part)
		if !ok || !r.entry(wire, entry) {
			return false
		}
		part.from = next
	}
	if n := len(r.entryList); n > first {
		d.Entries = r.entryList[first:n:n]
	}
	return true
}

// entry reads one more entry.
func (r *requestRoom) entry(wire []byte, part field) bool {
	e := &r.entries[len(r.entryList)]
	r.entryList = append(r.entryList, e)
	for part.from < part.to {
		tag, content, next, ok := nextField(wire, part)
		if !ok {
			return false
		}
		text := r.text[content.from:content.to]
		switch tag {
		case tagKey:
			e.Key = text
		case tagValue:
			e.Value = text
		default:
			return false
		}
		part.from = next
	}
	return true
}
