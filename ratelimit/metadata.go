package ratelimit

import (
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/koalagate/koalagate/engine"
)

// dynamicMetadata is the decision for Envoy's access log and later filters,
// which find it in the namespace envoy.filters.http.ratelimit. It goes to the
// gateway alone and so holds quotas that clients are not told of.
func (r *metadataRoom) dynamicMetadata(d *engine.Decision) *structpb.Struct {
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
	told := r.metadata(a.DecisionWord(), facts...)
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
	numbers [6]struct {
		value structpb.Value
		kind  structpb.Value_NumberValue
	}
}

// metadata is a verdict and its facts, six of them at most.
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
