package envoy

import (
	"math"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// writer appends a message's fields. What it cannot write it leaves to the
// library: then it has failed.
type writer struct {
	bytes  []byte
	failed bool
}

// release keeps w for another message, unless this one was uncommonly large.
func (w *writer) release() {
	const common = 64 << 10
	if cap(w.bytes) <= common {
		w.bytes, w.failed = w.bytes[:0], false
		writers.Put(w)
	}
}

// open begins a field that is a message, and returns where the message begins.
func (w *writer) open(number protowire.Number) int {
	w.bytes = append(protowire.AppendTag(w.bytes, number, protowire.BytesType), 0) // one byte for the length, as a rule
	return len(w.bytes)
}

// close ends the field that was opened there.
func (w *writer) close(from int) {
	n := len(w.bytes) - from
	if n < 1<<7 {
		w.bytes[from-1] = byte(n)
		return
	}
	var room [10]byte
	length := protowire.AppendVarint(room[:0], uint64(n))
	w.bytes = append(w.bytes, room[:len(length)-1]...)
	copy(w.bytes[from+len(length)-1:], w.bytes[from:from+n])
	copy(w.bytes[from-1:], length)
}

// known fails at fields that this program does not know.
func (w *writer) known(m proto.Message) {
	w.failed = w.failed || len(m.ProtoReflect().GetUnknown()) > 0
}

// number appends a number unless it is 0, which is not sent.
func (w *writer) number(number protowire.Number, v uint64) {
	if v != 0 {
		w.bytes = protowire.AppendVarint(protowire.AppendTag(w.bytes, number, protowire.VarintType), v)
	}
}

// text appends a text unless it is empty. What is none, no caller can read.
func (w *writer) text(number protowire.Number, s string) {
	if s != "" {
		w.failed = w.failed || !utf8.ValidString(s)
		w.bytes = protowire.AppendString(protowire.AppendTag(w.bytes, number, protowire.BytesType), s)
	}
}

// The fields of the messages below: envoy/service/ratelimit/v3/rls.proto,
// envoy/config/core/v3/base.proto and google/protobuf/{duration,wrappers,struct}.proto.
const (
	replyCode     = 1
	replyStatuses = 2
	replyHeaders  = 3
	replyBody     = 5

	statusCode      = 1
	statusLimit     = 2
	statusRemaining = 3
	statusReset     = 4

	limitRequests   = 1
	limitUnit       = 2
	limitName       = 3
	limitMultiplier = 4

	headerKey   = 1
	headerValue = 2

	wrapperValue    = 1
	durationSeconds = 1
	durationNanos   = 2

	structFields = 1
	entryKey     = 1
	entryValue   = 2
	valueNumber  = 2
	valueString  = 3
	valueBool    = 4
)

// rateLimit writes the answer of the rate limit service.
func (w *writer) rateLimit(m *rlsv3.RateLimitResponse) {
	w.failed = len(m.GetRequestHeadersToAdd()) > 0 || m.GetQuota() != nil
	w.known(m)
	w.number(replyCode, uint64(m.GetOverallCode()))
	for _, s := range m.GetStatuses() {
		from := w.open(replyStatuses)
		w.status(s)
		w.close(from)
	}
	for _, h := range m.GetResponseHeadersToAdd() {
		from := w.open(replyHeaders)
		w.header(h)
		w.close(from)
	}
	if body := m.GetRawBody(); len(body) > 0 {
		w.bytes = protowire.AppendBytes(protowire.AppendTag(w.bytes, replyBody, protowire.BytesType), body)
	}
	if told := m.GetDynamicMetadata(); told != nil {
		from := w.open(metadataOfRateLimit)
		w.metadata(told)
		w.close(from)
	}
}

func (w *writer) status(s *rlsv3.RateLimitResponse_DescriptorStatus) {
	w.failed = w.failed || s.GetQuota() != nil
	w.known(s)
	w.number(statusCode, uint64(s.GetCode()))
	if l := s.GetCurrentLimit(); l != nil {
		from := w.open(statusLimit)
		w.limit(l)
		w.close(from)
	}
	w.number(statusRemaining, uint64(s.GetLimitRemaining()))
	if d := s.GetDurationUntilReset(); d != nil {
		w.known(d)
		from := w.open(statusReset)
		w.number(durationSeconds, uint64(d.GetSeconds()))
		w.number(durationNanos, uint64(d.GetNanos()))
		w.close(from)
	}
}

func (w *writer) limit(l *rlsv3.RateLimitResponse_RateLimit) {
	w.known(l)
	w.number(limitRequests, uint64(l.GetRequestsPerUnit()))
	w.number(limitUnit, uint64(l.GetUnit()))
	w.text(limitName, l.GetName())
	if m := l.GetUnitMultiplier(); m != nil {
		w.known(m)
		from := w.open(limitMultiplier)
		w.number(wrapperValue, uint64(m.GetValue()))
		w.close(from)
	}
}

func (w *writer) header(h *corev3.HeaderValue) {
	w.failed = w.failed || len(h.GetRawValue()) > 0
	w.known(h)
	w.text(headerKey, h.GetKey())
	w.text(headerValue, h.GetValue())
}

// metadata writes a Struct of numbers, texts and truths.
func (w *writer) metadata(s *structpb.Struct) {
	w.known(s)
	for key, value := range s.GetFields() {
		entry := w.open(structFields)
		w.failed = w.failed || !utf8.ValidString(key)
		w.bytes = protowire.AppendString(protowire.AppendTag(w.bytes, entryKey, protowire.BytesType), key)
		from := w.open(entryValue)
		w.value(value)
		w.close(from)
		w.close(entry)
	}
}

func (w *writer) value(v *structpb.Value) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		w.bytes = protowire.AppendTag(w.bytes, valueNumber, protowire.Fixed64Type)
		w.bytes = protowire.AppendFixed64(w.bytes, math.Float64bits(kind.NumberValue))
	case *structpb.Value_StringValue:
		w.failed = w.failed || !utf8.ValidString(kind.StringValue)
		w.bytes = protowire.AppendString(protowire.AppendTag(w.bytes, valueString, protowire.BytesType), kind.StringValue)
	case *structpb.Value_BoolValue:
		w.bytes = protowire.AppendTag(w.bytes, valueBool, protowire.VarintType)
		w.bytes = protowire.AppendVarint(w.bytes, protowire.EncodeBool(kind.BoolValue))
	default:
		w.failed = true
	}
}
