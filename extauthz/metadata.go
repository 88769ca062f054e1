package extauthz

import (
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/wire"
)

// The tags of what Envoy's filters and routes say of a request beyond HTTP, such
// as the claims of a token: envoy/config/core/v3/base.proto and
// google/protobuf/struct.proto.
const (
	tagEntry = 1<<3 | wire.Bytes // of Metadata's filter_metadata, and of a Struct's fields

	tagNull   = 1<<3 | wire.Varint
	tagNumber = 2<<3 | wire.Fixed64
	tagString = 3<<3 | wire.Bytes
	tagBool   = 4<<3 | wire.Varint
	tagStruct = 5<<3 | wire.Bytes
	tagList   = 6<<3 | wire.Bytes
)

// lookup finds the value at a dotted path in the gateway's metadata. The
// request's own goes before the route's.
func (a *asked) lookup(namespace, path string) (string, bool) {
	if v, ok := find(entry(a.metadata, namespace), path); ok {
		return v, true
	}
	return find(entry(a.routeMetadata, namespace), path)
}

// find walks down to the value at path. Names may hold dots themselves, as
// those of many claims do, so at each level the longest name that leads to a
// value counts.
func find(fields []byte, path string) (string, bool) {
	if v, ok := readValue(entry(fields, path)).text(); ok {
		return v, true
	}
	for end := strings.LastIndexByte(path, '.'); end >= 0; end = strings.LastIndexByte(path[:end], '.') {
		inner := readValue(entry(fields, path[:end]))
		if inner.kind != tagStruct {
			continue
		}
		if v, ok := find(inner.content, path[end+1:]); ok {
			return v, true
		}
	}
	return "", false
}

// entry is the message under a key of a map, nil if there is none: the last
// entry with that key counts.
func entry(m []byte, key string) (found []byte) {
	for f := wire.Read(m); f.Next(); {
		if f.Tag != tagEntry {
			continue
		}
		var name, value []byte
		for e := f.Inner(); e.Next(); {
			switch e.Tag {
			case tagKey:
				name = e.Content()
			case tagValue:
				value = join(value, e.Content())
			}
		}
		if string(name) == key {
			found = value
		}
	}
	return found
}

// value is a Value of metadata: a number, true or false by their bits, else the
// content of a text, a list or a Struct.
type value struct {
	kind    uint64 // its tag, 0 for none
	number  uint64
	content []byte
}

// readValue reads one of six kinds, of which the last that comes counts.
func readValue(message []byte) (v value) {
	for f := wire.Read(message); f.Next(); {
		switch f.Tag {
		case tagNull, tagNumber, tagBool:
			v = value{kind: f.Tag, number: f.Number}
		case tagString, tagList:
			v = value{kind: f.Tag, content: f.Content()}
		case tagStruct:
			if v.kind != tagStruct {
				v = value{kind: tagStruct}
			}
			v.content = join(v.content, f.Content())
		}
	}
	return v
}

// text is a value as a parameter: strings as they stand, numbers without an
// exponent, true and false. Lists, objects and null are none.
func (v value) text() (string, bool) {
	switch v.kind {
	case tagString:
		return string(v.content), true
	case tagNumber:
		return strconv.FormatFloat(math.Float64frombits(v.number), 'f', -1, 64), true
	case tagBool:
		return strconv.FormatBool(protowire.DecodeBool(v.number)), true
	}
	return "", false
}

// join puts a message together that comes in parts: it is the parts in a row.
func join(before, part []byte) []byte {
	if before == nil {
		return part // which has no room behind it, and so is never written to
	}
	return append(before, part...)
}

// appendMetadata appends the decision for Envoy's access log and later filters,
// which find it in the namespace envoy.filters.http.ext_authz. It goes to the
// gateway alone and so holds quotas that clients are not told of.
func appendMetadata(b []byte, d *engine.Decision) []byte {
	a := &d.Answers[0]
	b, from := wire.Begin(b, replyMetadata)
	b = wire.AppendTextFact(b, "verdict", a.DecisionWord())
	if a.Result.Number >= 0 { // no entry where the door's mode lets pass what was not decided
		b = wire.AppendNumberFact(b, "result", int64(a.Result.Number))
	}
	if a.Decider != nil {
		b = wire.AppendNumberFact(b, "rule", a.Decider.Return)
	}
	if a.Limited {
		b = wire.AppendNumberFact(b, "limit", a.Quota.Limit)
		b = wire.AppendNumberFact(b, "remaining", a.Quota.Remaining)
		b = wire.AppendNumberFact(b, "reset", engine.Seconds(a.Quota.Reset))
	}
	if shadow := d.ShadowRules(); shadow != nil {
		b = wire.AppendNumbersFact(b, "shadow", shadow)
	}
	if d.Degraded {
		b = wire.AppendTrueFact(b, "degraded")
	}
	return wire.End(b, from)
}

// appendVerdict appends metadata of which a verdict is all.
func appendVerdict(b []byte, verdict string) []byte {
	b, from := wire.Begin(b, replyMetadata)
	return wire.End(wire.AppendTextFact(b, "verdict", verdict), from)
}
