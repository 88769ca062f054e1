package rlqs

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/wire"
)

// The fields of a RateLimitQuotaResponse and of the messages in it:
// envoy/service/rate_limit_quota/v3/rlqs.proto, envoy/type/v3/ratelimit_strategy.proto,
// envoy/type/v3/token_bucket.proto.
const (
	fieldAction = 1

	actionID      = 1
	actionAssign  = 2
	actionAbandon = 3

	assignLasts    = 2
	assignStrategy = 3

	strategyBucket = 3

	bucketPerFill  = 2
	bucketInterval = 3

	durationNanos = 2
)

// The blanket rules.
const (
	allowAll = 0
	denyAll  = 1
)

// maxTokens is the greatest number in a token bucket of Envoy.
const maxTokens = 1<<32 - 1

// appendAbandon appends an action that has Envoy forget a bucket until its next request.
func appendAbandon(b []byte, id string) []byte {
	b, action := wire.Begin(b, fieldAction)
	b = wire.AppendBytes(b, actionID, []byte(id))
	b, abandon := wire.Begin(b, actionAbandon)
	return wire.End(wire.End(b, abandon), action)
}

// appendAssignment appends an action that assigns a share to a bucket, or a blanket rule.
func appendAssignment(b []byte, id string, a *engine.Assignment) []byte {
	b, action := wire.Begin(b, fieldAction)
	b = wire.AppendBytes(b, actionID, []byte(id))
	b, assign := wire.Begin(b, actionAssign)
	b = appendSeconds(b, assignLasts, int64(a.Lasts/time.Second))
	b, strategy := wire.Begin(b, assignStrategy)
	switch a.Kind {
	case engine.AssignShare:
		b = appendBucket(b, a)
	case engine.AssignAllow:
		b = appendFirst(b, allowAll)
	default:
		b = appendFirst(b, denyAll)
	}
	return wire.End(wire.End(wire.End(b, strategy), assign), action)
}

// appendBucket appends a token bucket. Envoy compares only nanoseconds of intervals to see
// whether an assignment is another one: they hold the seconds, so that it notices any change.
func appendBucket(b []byte, a *engine.Assignment) []byte {
	b, bucket := wire.Begin(b, strategyBucket)
	b = appendFirst(b, uint64(min(a.Burst, maxTokens)))
	b, perFill := wire.Begin(b, bucketPerFill)
	b = wire.End(appendFirst(b, uint64(min(a.Tokens, maxTokens))), perFill)
	b, interval := wire.Begin(b, bucketInterval)
	b = appendFirst(b, uint64(a.Seconds))
	b = wire.End(wire.AppendNumber(b, durationNanos, uint64(a.Seconds-1)), interval)
	return wire.End(b, bucket)
}

// appendSeconds appends a Duration.
func appendSeconds(b []byte, field protowire.Number, seconds int64) []byte {
	b, from := wire.Begin(b, field)
	return wire.End(appendFirst(b, uint64(seconds)), from)
}

// appendFirst appends a number as the first field of its message, 0 too: blanket_rule is one of
// several fields, of which one must be present.
func appendFirst(b []byte, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), n)
}
