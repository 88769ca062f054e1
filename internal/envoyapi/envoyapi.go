// Package envoyapi contains the parts of replies that both doors of Envoy's gRPC
// services share: status codes, headers, and the dynamic metadata of a decision.
//
// Envoy treats an empty reply, and one that it cannot parse, as permission to pass.
// The doors, which write their replies in wire form, therefore always set the
// deciding fields, and every text is UTF-8. If the gRPC call fails, the failure mode
// of Envoy's filter decides.
package envoyapi

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/httptext"
	"github.com/koalagate/koalagate/internal/wire"
	"github.com/koalagate/koalagate/rules"
)

// Code returns the gRPC code of a refusal with an HTTP status. Envoy only
// distinguishes it from OK; other callers may read it.
func Code(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	}
	return codes.PermissionDenied
}

// Error returns a fault as the error of a gRPC call: the code of a refusal if the request is
// at fault, CANCELLED or DEADLINE_EXCEEDED if the caller did not wait, else UNAVAILABLE.
func Error(f door.Fault) error {
	if f.IsRequest() {
		return status.Error(Code(f.Status), f.Detail)
	}
	if s := status.FromContextError(f.Err); s.Code() != codes.Unknown {
		return s.Err()
	}
	return status.Error(codes.Unavailable, f.Err.Error())
}

// The fields of envoy.config.core.v3.HeaderValue.
const (
	headerKey   = 1
	headerValue = 2
)

// AppendHeader appends a header as a HeaderValue.
func AppendHeader(b []byte, field protowire.Number, h rules.Header) []byte {
	b, from := wire.Begin(b, field)
	return wire.End(wire.AppendText(wire.AppendText(b, headerKey, h.Name), headerValue, h.Value), from)
}

// BeginDecision begins the dynamic metadata of a reply: the decision about one
// parameter set, and the shadow rules and marks of all. Envoy offers it to its access log and
// to later filters, not to clients, so it includes quotas that clients do not see.
// The caller may append facts of its own before wire.End.
func BeginDecision(b []byte, field protowire.Number, d *engine.Decision, set int) (facts []byte, from int) {
	a := &d.Answers[set]
	b, from = wire.Begin(b, field)
	b = wire.AppendTextFact(b, "verdict", a.DecisionWord())
	if a.Result.Number >= 0 { // else no entry of [result] applies
		b = wire.AppendNumberFact(b, "result", int64(a.Result.Number))
	}
	if a.Decider != nil {
		b = wire.AppendNumberFact(b, "rule", a.Decider.Return)
		if a.Decider.Name != "" {
			b = wire.AppendTextFact(b, "rule_name", a.Decider.Name)
		}
	}
	if a.Limited {
		b = wire.AppendNumberFact(b, "limit", a.Quota.Limit)
		b = wire.AppendNumberFact(b, "remaining", a.Quota.Remaining)
		b = wire.AppendNumberFact(b, "reset", httptext.Seconds(a.Quota.Reset))
	}
	if shadow := d.ShadowRules(); shadow != nil {
		b = wire.AppendNumbersFact(b, "shadow", shadow)
	}
	if marks := d.Marks(); marks != nil {
		b = wire.AppendTextsFact(b, "marks", marks)
	}
	if d.Degraded {
		b = wire.AppendTrueFact(b, "degraded")
	}
	if d.Receipt != "" {
		b = wire.AppendTextFact(b, "receipt", d.Receipt)
	}
	return b, from
}

// Metadata is the gRPC metadata of a call, which the gateway sets. The zero value is
// empty.
type Metadata struct {
	// Context is the context of the call.
	Context context.Context //nolint:containedctx // the metadata is part of it
}

// Header returns the value of the metadata with this lower-case name. Several values are
// joined by a comma.
func (m *Metadata) Header(name string) (string, bool) {
	if m.Context == nil {
		return "", false
	}
	values := metadata.ValueFromIncomingContext(m.Context, name)
	return strings.Join(values, ","), len(values) > 0
}
