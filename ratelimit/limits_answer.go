package ratelimit

import (
	"math"
	"strconv"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/envoyapi"
	"github.com/koalagate/koalagate/internal/wire"
	"github.com/koalagate/koalagate/rules"
)

// isOver reports whether the call is refused: a limit is exceeded that is no quota, or
// all quotas are.
func (c *limitCall) isOver() bool {
	if c.limits.options.GroupQuotas {
		return c.isOverInGroups()
	}
	limits, quotas, exceeded := 0, 0, 0
	for i := range c.applied {
		a := &c.applied[i]
		if a.unlimited || a.operation != decide {
			continue
		}
		over := c.code(a) == rlsv3.RateLimitResponse_OVER_LIMIT
		if c.isQuota(a) {
			quotas++
		}
		switch {
		case over && c.isQuota(a):
			exceeded++
		case over:
			limits++
		}
	}
	return limits > 0 || quotas > 0 && exceeded == quotas
}

// isOverInGroups is isOver with quotas in groups.
func (c *limitCall) isOverInGroups() bool {
	exceeded := make(map[string]bool) // by group
	for i := range c.applied {
		a := &c.applied[i]
		if a.unlimited || a.operation != decide {
			continue
		}
		over := c.code(a) == rlsv3.RateLimitResponse_OVER_LIMIT
		switch {
		case c.isQuota(a):
			group := c.group(i)
			exceeded[group] = exceeded[group] || over
		case over:
			return true
		}
	}
	for _, over := range exceeded {
		if !over {
			return false
		}
	}
	return len(exceeded) > 0
}

// group returns what the quotas of a group have in common: the first two entries.
func (c *limitCall) group(i int) string {
	var b []byte
	entries := c.message.entriesOf(i)
	for _, e := range entries[:min(len(entries), 2)] {
		b = wire.AppendText(wire.AppendText(b, 1, e.Key), 1, e.Value) // with lengths: no two groups are one
	}
	return string(b)
}

func (c *limitCall) isQuota(a *applied) bool {
	return c.limits.options.Quota || a.limit != nil && a.limit.Quota
}

// code returns the code of a descriptor's status.
func (c *limitCall) code(a *applied) rlsv3.RateLimitResponse_Code {
	if a.banned > 0 || a.limit != nil && a.over && !a.limit.Shadow && a.operation == decide {
		return rlsv3.RateLimitResponse_OVER_LIMIT
	}
	return rlsv3.RateLimitResponse_OK
}

// appendResponse appends the RateLimitResponse.
func (c *limitCall) appendResponse(b []byte, over bool) []byte {
	overall := rlsv3.RateLimitResponse_OK
	if over {
		overall = rlsv3.RateLimitResponse_OVER_LIMIT
	}
	b = wire.AppendNumber(b, replyCode, uint64(overall))
	for i := range c.applied {
		b = c.appendStatus(b, &c.applied[i])
	}
	if c.limits.options.Headers != nil {
		b = c.appendHeaders(b)
	}
	b = c.appendRetry(b)
	if c.limits.options.Metadata {
		b = c.appendMetadata(b)
	}
	if c.receipt != "" { // parsers merge this with the metadata above
		var from int
		b, from = wire.Begin(b, replyMetadata)
		b = wire.End(c.message.appendReceipt(wire.AppendTextFact(b, "receipt", c.receipt), c.receipt), from)
	}
	return b
}

// appendStatus appends the status of a descriptor.
func (c *limitCall) appendStatus(b []byte, a *applied) []byte {
	b, from := wire.Begin(b, replyStatuses)
	b = wire.AppendNumber(b, statusCode, uint64(c.code(a)))
	switch {
	case a.operation != decide:
	case a.unlimited:
		b = wire.AppendNumber(b, statusRemaining, math.MaxUint32)
	case a.limit != nil:
		var inner int
		b, inner = wire.Begin(b, statusLimit)
		b = wire.AppendNumber(b, limitRequests, uint64(clamp(a.most)))
		b = wire.AppendNumber(b, limitUnit, uint64(a.limit.Unit))
		b = wire.End(wire.AppendText(b, limitName, a.limit.Name), inner)
		b = wire.AppendNumber(b, statusRemaining, uint64(a.remaining))
		b = appendWrapped(b, statusReset, uint64(a.reset))
	}
	return wire.End(b, from)
}

// appendRetry appends when a banned client may return, which no limit says.
func (c *limitCall) appendRetry(b []byte) []byte {
	last := int64(0)
	for i := range c.applied {
		last = max(last, c.applied[i].banned)
	}
	if last == 0 {
		return b
	}
	return envoyapi.AppendHeader(b, replyHeaders, retryAfter(last))
}

// appendHeaders appends the fields of the limit with the least remaining, the first of
// several; of the last exceeded limit that is no quota, if there is one.
func (c *limitCall) appendHeaders(b []byte) []byte {
	var strictest *applied
	least := uint32(math.MaxUint32)
	for i := range c.applied {
		a := &c.applied[i]
		if a.limit == nil || a.operation != decide || a.banned > 0 {
			continue
		}
		if a.remaining < least {
			strictest, least = a, a.remaining
		}
		if c.code(a) == rlsv3.RateLimitResponse_OVER_LIMIT && !c.isQuota(a) {
			strictest, least = a, 0
		}
	}
	if strictest == nil {
		return b
	}
	names := c.limits.options.Headers
	for _, h := range []rules.Header{
		{Name: names.Limit, Value: strconv.FormatUint(uint64(clamp(strictest.most)), 10)},
		{Name: names.Remaining, Value: strconv.FormatUint(uint64(strictest.remaining), 10)},
		{Name: names.Reset, Value: strconv.FormatInt(strictest.reset, 10)},
	} {
		b = envoyapi.AppendHeader(b, replyHeaders, h)
	}
	return b
}

// appendAllowed appends what the rules beside the limits say of a request that they allow: the
// headers of [forward], and as dynamic metadata their marks and shadow rules. Without any of them
// the answer is that of envoyproxy/ratelimit.
func (c *limitCall) appendAllowed(b []byte, d *engine.Decision) []byte {
	b = c.server.appendForwarded(b, &c.call)
	byRules := engine.Decision{Answers: d.Answers[len(c.asked):]}
	marks, shadow := byRules.Marks(), byRules.ShadowRules()
	if marks == nil && shadow == nil {
		return b
	}
	b, from := wire.Begin(b, replyMetadata) // parsers merge this with other metadata
	if shadow != nil {
		b = wire.AppendNumbersFact(b, "shadow", shadow)
	}
	if marks != nil {
		b = wire.AppendTextsFact(b, "marks", marks)
	}
	return wire.End(b, from)
}
