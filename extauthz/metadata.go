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
func (r *metadataRoom) dynamicMetadata(d *engine.Decision) *structpb.Struct {
	a := &d.Sets[0]
	facts := make([]fact, 0, 5)
	if a.Result.Number >= 0 { // no entry where the door's mode lets pass what was not decided
		facts = append(facts, fact{"result", int64(a.Result.Number)})
	}
	if a.Decider != nil {
		facts = append(facts, fact{"rule", a.Decider.Return})
	}
	if a.Limited {
		facts = append(facts,
			fact{"limit", a.Quota.Limit},
			fact{"remaining", a.Quota.Remaining},
			fact{"reset", engine.Seconds(a.Quota.Reset)})
	}
	told := r.metadata(a.DecisionWord(), facts...)
	if len(a.Shadow) > 0 {
		told.Fields["shadow"] = ruleNumbers(a.Shadow)
	}
	if d.Degraded {
		told.Fields["degraded"] = structpb.NewBoolValue(true)
	}
	return told
}

// fact is a number that a decision is told by.
type fact struct {
	name   string
	number int64
}

// metadataRoom is room for a verdict and its facts: a value of structpb is two
// messages, and every decision has half a dozen.
type metadataRoom struct {
	whole   structpb.Struct
	verdict structpb.Value
	word    structpb.Value_StringValue
	numbers [5]struct {
		value structpb.Value
		kind  structpb.Value_NumberValue
	}
}

// metadata is a verdict and its facts, five of them at most.
func (r *metadataRoom) metadata(verdict string, facts ...fact) *structpb.Struct {
	r.word.StringValue, r.verdict.Kind = verdict, &r.word
	fields := make(map[string]*structpb.Value, 1+len(facts))
	fields["verdict"] = &r.verdict
	for i, f := range facts {
		n := &r.numbers[i]
		n.kind.NumberValue, n.value.Kind = float64(f.number), &n.kind
		fields[f.name] = &n.value
	}
	r.whole.Fields = fields
	return &r.whole
}

// ruleNumbers are the shadow rules that would have refused.
func ruleNumbers(shadow []engine.Shadow) *structpb.Value {
	list := &structpb.ListValue{Values: make([]*structpb.Value, len(shadow))}
	for i, s := range shadow {
		list.Values[i] = structpb.NewNumberValue(float64(s.Rule.Return))
	}
	return structpb.NewListValue(list)
}
