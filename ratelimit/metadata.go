package ratelimit

import (
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/koalagate/koalagate/engine"
)

// dynamicMetadata is the decision for Envoy's access log and later filters,
// which find it in the namespace envoy.filters.http.ratelimit. It goes to the
// gateway alone and so holds quotas that clients are not told of.
func dynamicMetadata(d *engine.Decision) *structpb.Struct {
	i := telling(d)
	a := &d.Sets[i]
	facts := append(make([]fact, 0, 6), fact{"descriptor", int64(i)})
	if a.Result.Number >= 0 { // a limit that the call brought has no entry
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
	told := metadata(a.DecisionWord(), facts...)
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

// metadata is a verdict and its facts. The facts are made in one piece, since
// a number of structpb is two messages and every decision has half a dozen.
func metadata(verdict string, facts ...fact) *structpb.Struct {
	type number struct {
		value structpb.Value
		kind  structpb.Value_NumberValue
	}
	made := make([]number, len(facts))
	fields := make(map[string]*structpb.Value, len(facts)+3)
	fields["verdict"] = structpb.NewStringValue(verdict)
	for i, f := range facts {
		made[i].kind.NumberValue = float64(f.number)
		made[i].value.Kind = &made[i].kind
		fields[f.name] = &made[i].value
	}
	return &structpb.Struct{Fields: fields}
}
