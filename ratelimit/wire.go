package ratelimit

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of a RateLimitResponse and what is in it:
// envoy/service/ratelimit/v3/rls.proto, envoy/config/core/v3/base.proto and
// google/protobuf/{duration,wrappers,struct}.proto.
const (
	replyCode     = 1
	replyStatuses = 2
	replyHeaders  = 3
	replyBody     = 5
	replyMetadata = 6

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

	structFields = 1
	factName     = 1
	factValue    = 2
	valueNumber  = 2
	valueString  = 3
	valueBool    = 4
)

// appendNumber appends a number unless it is 0, which is not sent.
func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// appendText appends a text unless it is empty. It must be UTF-8: no caller
// could read the reply.
func appendText(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// appendMessage appends a message that is there even if it is empty, or bytes.
func appendMessage(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}

// appendNumberFact appends an entry of a Struct's map, whose value is a number.
func appendNumberFact(b []byte, name string, n int64) []byte {
	const size = 1 + 8 // of the value
	b = appendFactName(b, name, size)
	b = protowire.AppendTag(b, valueNumber, protowire.Fixed64Type)
	return protowire.AppendFixed64(b, math.Float64bits(float64(n)))
}

// appendTextFact is the same for a text, which is short.
func appendTextFact(b []byte, name, s string) []byte {
	return appendText(appendFactName(b, name, 1+protowire.SizeBytes(len(s))), valueString, s)
}

// appendTrueFact is the same for what is true.
func appendTrueFact(b []byte, name string) []byte {
	const size = 1 + 1 // of the value
	return appendNumber(appendFactName(b, name, size), valueBool, 1)
}

// appendFactName begins an entry whose value takes size bytes.
func appendFactName(b []byte, name string, size int) []byte {
	b = protowire.AppendTag(b, structFields, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(1+protowire.SizeBytes(len(name))+1+protowire.SizeBytes(size)))
	b = appendText(b, factName, name)
	b = protowire.AppendTag(b, factValue, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(size))
}
