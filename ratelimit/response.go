package ratelimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/envoyapi"
	"github.com/koalagate/koalagate/internal/httptext"
	"github.com/koalagate/koalagate/internal/wire"
	"github.com/koalagate/koalagate/rules"
)

// The fields of a RateLimitResponse and of the messages in it:
// envoy/service/ratelimit/v3/rls.proto, envoy/config/core/v3/base.proto and
// google/protobuf/{duration,wrappers}.proto.
const (
	replyCode     = 1
	replyStatuses = 2
	replyHeaders  = 3 // for the client
	replyForward  = 4 // for the upstream
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

	wrappedNumber = 1 // of a wrapper message, and the seconds of a Duration
)

// appendAnswer appends the RateLimitResponse of a decision: one status per
// descriptor, in their order, and the overall code, which alone decides at Envoy.
func (s *Server) appendAnswer(b []byte, c *call, d *engine.Decision) []byte {
	b = wire.AppendNumber(b, replyCode, uint64(code(d.Verdict)))
	b = c.appendStatuses(b, d)
	if d.Verdict != rules.Allow {
		b = s.appendRefusal(b, c.decisionOf(d, d.Refuser))
		return c.appendMetadata(b, d)
	}
	b = s.appendForwarded(b, c)
	if s.sendHeaders {
		var buffer [12]rules.Header
		b = appendHeaders(b, c.decisionOf(d, reported(d)).ClientHeaders(buffer[:0], s.presentation))
	}
	return c.appendMetadata(b, d)
}

// appendForwarded appends the headers of [forward] for the upstream of an allowed request.
func (s *Server) appendForwarded(b []byte, c *call) []byte {
	var buffer [12]rules.Header
	for _, h := range s.gate.Forwarded(buffer[:0], &c.question) {
		if h.Value != "" { // Envoy adds headers, and removes none
			b = envoyapi.AppendHeader(b, replyForward, h)
		}
	}
	return b
}

// appendStatuses appends one status per descriptor. An operation has the status OK.
func (c *call) appendStatuses(b []byte, d *engine.Decision) []byte {
	if c.operations == 0 {
		for i := range d.Answers {
			b = appendStatus(b, &d.Answers[i])
		}
		return b
	}
	set := 0
	for i := range c.message.descriptors {
		if c.message.descriptors[i].operation != decide {
			b = appendOK(b)
			continue
		}
		b = appendStatus(b, &d.Answers[set])
		set++
	}
	return b
}

// appendOK appends the status of an operation.
func appendOK(b []byte) []byte {
	b, from := wire.Begin(b, replyStatuses)
	return wire.End(wire.AppendNumber(b, statusCode, uint64(rlsv3.RateLimitResponse_OK)), from)
}

// operated returns the RateLimitResponse to a call of operations alone.
func (c *call) operated(err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	b := wire.AppendNumber(c.reply[:0], replyCode, uint64(rlsv3.RateLimitResponse_OK))
	for range c.message.descriptors {
		b = appendOK(b)
	}
	b, from := wire.Begin(b, replyMetadata)
	c.reply = wire.End(wire.AppendTextFact(b, "verdict", "allow"), from)
	return c.reply, nil
}

// code returns OVER_LIMIT for every verdict but allow. Envoy sets the status that the
// client sees.
func code(v rules.Verdict) rlsv3.RateLimitResponse_Code {
	if v == rules.Allow {
		return rlsv3.RateLimitResponse_OK
	}
	return rlsv3.RateLimitResponse_OVER_LIMIT
}

// appendRefusal appends the headers and the body of a refusal for the client.
func (s *Server) appendRefusal(b []byte, d *engine.Decision) []byte {
	var buffer [12]rules.Header
	result := d.Answers[0].Result
	refusal := d.Refusal()
	if refusal.Status != http.StatusTooManyRequests {
		// Unless configured otherwise Envoy answers 429, whatever the entry's
		// status; a body that names a status must name 429 too.
		sent := *result
		sent.HTTPStatus = http.StatusTooManyRequests
		d.Answers[0].Result = &sent
		refusal = d.Refusal()
	}

	headers := append(buffer[:0], result.Headers...)
	if s.sendHeaders {
		headers = d.ClientHeaders(buffer[:0], s.presentation)
	} else if a := &d.Answers[0]; a.Ban != nil {
		headers = append(headers, retryAfter(httptext.Seconds(a.Retry)))
	}
	b = appendHeaders(b, append(headers, rules.Header{Name: "Content-Type", Value: refusal.ContentType}))
	if len(refusal.Body) == 0 {
		return b
	}
	return wire.AppendBytes(b, replyBody, refusal.Body)
}

// decisionOf returns the decision about one descriptor as a decision of its own. It is
// valid until the next call of decisionOf. Its memory is reused, including the
// document of its Refusal.
func (c *call) decisionOf(d *engine.Decision, descriptor int) *engine.Decision {
	d.Single(descriptor, &c.single)
	return &c.single
}

// reported returns the index of the descriptor that headers and metadata describe:
// the refused one, otherwise the one with the least quota remaining.
func reported(d *engine.Decision) int {
	if d.Refuser >= 0 {
		return d.Refuser
	}
	least := -1
	for i := range d.Answers {
		if d.Answers[i].Limited && (least < 0 || d.Answers[i].Quota.Remaining < d.Answers[least].Quota.Remaining) {
			least = i
		}
	}
	return max(least, 0)
}

// appendStatus appends the status of a descriptor.
func appendStatus(b []byte, a *engine.Answer) []byte {
	b, from := wire.Begin(b, replyStatuses)
	b = wire.AppendNumber(b, statusCode, uint64(code(a.Verdict)))
	reset := time.Duration(-1)
	switch {
	case a.ShowsQuota():
		b = appendLimit(b, &a.Quota)
		b = wire.AppendNumber(b, statusRemaining, uint64(clamp(a.Quota.Remaining)))
		reset = a.Quota.Reset
	case a.Verdict == rules.Deny: // by a ban or a quiet rule, or without an end
		reset = a.Retry
	}
	if reset >= 0 {
		// Envoy makes Retry-After of it, and 1 without it. In whole seconds, rounded up:
		// Envoy truncates fractions, and clients would retry too early.
		b = appendWrapped(b, statusReset, uint64(httptext.Seconds(reset)))
	}
	return wire.End(b, from)
}

// retryAfter returns the header that tells a banned client when to return. Envoy adds no
// Retry-After of its own to it.
func retryAfter(seconds int64) rules.Header {
	return rules.Header{Name: "Retry-After", Value: strconv.FormatInt(seconds, 10)}
}

func appendLimit(b []byte, q *engine.Quota) []byte {
	var digits [20]byte
	unit, multiplier := window(q.Window)
	b, from := wire.Begin(b, statusLimit)
	b = wire.AppendNumber(b, limitRequests, uint64(clamp(q.Limit)))
	b = wire.AppendNumber(b, limitUnit, uint64(unit))
	b = wire.AppendBytes(b, limitName, appendLimitName(digits[:0], q))
	b = appendWrapped(b, limitMultiplier, uint64(multiplier))
	return wire.End(b, from)
}

// appendWrapped appends a number as a wrapper message, or as a Duration of whole
// seconds.
func appendWrapped(b []byte, field protowire.Number, n uint64) []byte {
	b, from := wire.Begin(b, field)
	return wire.End(wire.AppendNumber(b, wrappedNumber, n), from)
}

// appendLimitName appends the rule's name, or else its number. Neither can contain the
// quote that would break Envoy's x-ratelimit-limit header.
func appendLimitName(b []byte, q *engine.Quota) []byte {
	if q.Rule == nil {
		return append(b, q.PolicyName()...)
	}
	if q.Rule.Name != "" {
		return append(b, q.Rule.Name...)
	}
	return strconv.AppendInt(b, q.Rule.Return, 10)
}

// window returns a number of seconds as a multiple of the largest unit that divides
// it.
func window(seconds int64) (rlsv3.RateLimitResponse_RateLimit_Unit, uint32) {
	switch {
	case seconds%rules.Day == 0:
		return rlsv3.RateLimitResponse_RateLimit_DAY, clamp(seconds / rules.Day)
	case seconds%3600 == 0:
		return rlsv3.RateLimitResponse_RateLimit_HOUR, clamp(seconds / 3600)
	case seconds%60 == 0:
		return rlsv3.RateLimitResponse_RateLimit_MINUTE, clamp(seconds / 60)
	}
	return rlsv3.RateLimitResponse_RateLimit_SECOND, clamp(seconds)
}

func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// appendHeaders appends those headers that are safe to send. It modifies list.
func appendHeaders(b []byte, list []rules.Header) []byte {
	for _, h := range door.Sendable(list) {
		b = envoyapi.AppendHeader(b, replyHeaders, h)
	}
	return b
}

// appendReceipt appends a receipt under the name of the domain to dynamic metadata: two
// filters share one namespace, and have two domains.
func (m *message) appendReceipt(b []byte, receipt string) []byte {
	return wire.AppendTextFact(b, "receipt."+strings.ToValidUTF8(m.domain, "\uFFFD"), receipt)
}

// appendMetadata appends the decision about the reported descriptor as dynamic
// metadata.
func (c *call) appendMetadata(b []byte, d *engine.Decision) []byte {
	set := reported(d)
	b, from := envoyapi.BeginDecision(b, replyMetadata, d, set)
	if d.Receipt != "" {
		b = c.message.appendReceipt(b, d.Receipt)
	}
	return wire.End(wire.AppendNumberFact(b, "descriptor", int64(c.decided(set))), from)
}
