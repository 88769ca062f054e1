package extauthz

import (
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/internal/wire"
)

// The tags of dynamic metadata, in which Envoy's filters and routes describe a
// request beyond HTTP, such as the claims of a token:
// envoy/config/core/v3/base.proto and google/protobuf/struct.proto.
const (
	tagEntry = 1<<3 | wire.Bytes // of Metadata's filter_metadata, and of a Struct's fields

	tagNull   = 1<<3 | wire.Varint
	tagNumber = 2<<3 | wire.Fixed64
	tagString = 3<<3 | wire.Bytes
	tagBool   = 4<<3 | wire.Varint
	tagStruct = 5<<3 | wire.Bytes
	tagList   = 6<<3 | wire.Bytes
)

// lookup returns the value at a dotted path in the gateway's metadata. The metadata
// of the request takes precedence over metadata of the route.
func (m *message) lookup(namespace, path string) (string, bool) {
	if v, ok := find(entry(m.metadata, namespace), path); ok {
		return v, true
	}
	return find(entry(m.routeMetadata, namespace), path)
}

// find returns the value at path. Names may contain dots themselves, as the names
// of many claims do, so at each level the longest name that leads to a value counts.
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

// entry returns the value of a key in a map, nil without one. The last entry with
// the key counts.
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

// value is a google.protobuf.Value.
type value struct {
	kind    uint64 // the tag of the field that is set, 0 for none
	number  uint64 // the bits of a number or bool
	content []byte // of a string, list or Struct
}

// readValue reads a Value; the last of its fields in the message counts.
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

// text returns a value as a parameter: strings unchanged, numbers without an
// exponent, and true or false. Lists, objects and null have no text.
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

// join concatenates the parts of a message.
func join(before, part []byte) []byte {
	if before == nil {
		return part // its capacity is its length, so append never writes to it
	}
	return append(before, part...)
}
