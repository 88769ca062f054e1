package ratelimit

import (
	"fmt"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/koalagate/koalagate/internal/wire"
)

// appendMetadata appends the request, and the metadata of the limits that are not
// exceeded, as dynamic metadata.
func (c *limitCall) appendMetadata(b []byte) []byte {
	fields := map[string]*structpb.Value{"domain": structpb.NewStringValue(c.message.domain)}
	descriptors := make([]*structpb.Value, len(c.message.descriptors))
	for i := range c.message.descriptors {
		descriptors[i] = structpb.NewStructValue(c.describe(i))
	}
	fields["descriptors"] = structpb.NewListValue(&structpb.ListValue{Values: descriptors})
	if c.message.hits != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(c.message.hits))
	}
	merged := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for i := range c.applied {
		if a := &c.applied[i]; a.limit != nil && a.limit.Metadata != nil && c.code(a) == rlsv3.RateLimitResponse_OK {
			merge(merged, a.limit.Metadata)
		}
	}
	if len(merged.Fields) > 0 {
		fields["metadata"] = structpb.NewStructValue(merged)
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(&structpb.Struct{Fields: fields})
	if err != nil { // text that is not UTF-8
		c.limits.options.Logger.Debug("an answer has no metadata", "error", err)
		return b
	}
	return wire.AppendBytes(b, replyMetadata, text)
}

// describe returns descriptor i as metadata.
func (c *limitCall) describe(i int) *structpb.Struct {
	d, list := &c.message.descriptors[i], &structpb.ListValue{}
	for _, e := range c.message.entriesOf(i) {
		list.Values = append(list.Values, structpb.NewStringValue(e.Key+"="+e.Value))
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(list)}
	if d.hasLimit {
		fields["limit"] = structpb.NewStringValue(d.limit.describe())
	}
	if d.hasHits {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(d.hits))
	}
	return &structpb.Struct{Fields: fields}
}

// describe returns a limit as the text form of its message, which leaves out what is 0.
func (l *limit) describe() string {
	text := ""
	if l.requests != 0 {
		text = fmt.Sprintf("requests_per_unit:%d ", l.requests)
	}
	return fmt.Sprintf("%sunit:%v", text, l.unit)
}

// merge adds the fields of from to the fields of to. Of two values the first wins, unless
// both are structs, which are merged.
func merge(to, from *structpb.Struct) {
	if to.Fields == nil && len(from.GetFields()) > 0 { // the copy of an empty struct
		to.Fields = make(map[string]*structpb.Value)
	}
	for key, value := range from.GetFields() {
		own, exists := to.GetFields()[key]
		switch {
		case !exists:
			to.Fields[key] = proto.CloneOf(value)
		case own.GetStructValue() != nil && value.GetStructValue() != nil:
			merge(own.GetStructValue(), value.GetStructValue())
		}
	}
}
