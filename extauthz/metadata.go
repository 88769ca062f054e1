package extauthz

import (
	"strconv"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/koalagate/koalagate/engine"
)

// gatewayMetadata is what Envoy's filters and routes say of a request beyond
// HTTP, such as the claims of a token.
type gatewayMetadata struct{ *authv3.AttributeContext }

func hasMetadata(a *authv3.AttributeContext) bool {
	return len(a.GetMetadataContext().GetFilterMetadata()) > 0 ||
		len(a.GetRouteMetadataContext().GetFilterMetadata()) > 0
}

// lookup finds the value at a dotted path. The request's own metadata goes
// before the route's.
func (m gatewayMetadata) lookup(namespace, path string) (string, bool) {
	if v, ok := find(m.GetMetadataContext().GetFilterMetadata()[namespace], path); ok {
		return v, true
	}
	return find(m.GetRouteMetadataContext().GetFilterMetadata()[namespace], path)
}

// find walks down to the value at path. Names may hold dots themselves, as
// those of many claims do, so at each level the longest name that leads to a
// value counts.
func find(s *structpb.Struct, path string) (string, bool) {
	fields := s.GetFields()
	if v, ok := text(fields[path]); ok {
		return v, true
	}
	for end := strings.LastIndexByte(path, '.'); end >= 0; end = strings.LastIndexByte(path[:end], '.') {
		inner := fields[path[:end]].GetStructValue()
		if inner == nil {
			continue
		}
		if v, ok := find(inner, path[end+1:]); ok {
			return v, true
		}
	}
	return "", false
}

// text is a value as a parameter: strings as they stand, numbers without an
// exponent, true and false. Lists, objects and null are none.
func text(v *structpb.Value) (string, bool) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		return kind.StringValue, true
	case *structpb.Value_NumberValue:
		return strconv.FormatFloat(kind.NumberValue, 'f', -1, 64), true
	case *structpb.Value_BoolValue:
		return strconv.FormatBool(kind.BoolValue), true
	}
	return "", false
}

// dynamicMetadata is the decision for Envoy's access log and later filters,
// which find it in the namespace envoy.filters.http.ext_authz. It goes to the
// gateway alone and so holds quotas that clients are not told of.
func dynamicMetadata(d *engine.Decision) *structpb.Struct {
	a := &d.Sets[0]
	fields := make(map[string]*structpb.Value, 8)
	fields["verdict"] = structpb.NewStringValue(a.DecisionWord())
	fields["result"] = number(int64(a.Result.Number))
	if a.Decider != nil {
		fields["rule"] = number(a.Decider.Return)
	}
	if a.Limited {
		fields["limit"] = number(a.Quota.Limit)
		fields["remaining"] = number(a.Quota.Remaining)
		fields["reset"] = number(engine.Seconds(a.Quota.Reset))
	}
	if len(a.Shadow) > 0 {
		fields["shadow"] = ruleNumbers(a.Shadow)
	}
	if d.Degraded {
		fields["degraded"] = structpb.NewBoolValue(true)
	}
	return &structpb.Struct{Fields: fields}
}

// verdictMetadata stands in where there is no decision.
func verdictMetadata(word string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{"verdict": structpb.NewStringValue(word)}}
}

func number(n int64) *structpb.Value { return structpb.NewNumberValue(float64(n)) }

// ruleNumbers are the shadow rules that would have refused.
func ruleNumbers(shadow []engine.Shadow) *structpb.Value {
	list := &structpb.ListValue{Values: make([]*structpb.Value, len(shadow))}
	for i, s := range shadow {
		list.Values[i] = number(s.Rule.Return)
	}
	return structpb.NewListValue(list)
}
