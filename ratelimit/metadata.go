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

// metadata is a verdict and its facts, made in one piece: a value of structpb
// is two messages, and every decision has half a dozen.
func metadata(verdict string, facts ...fact) *structpb.Struct {
	type number struct {
		value structpb.Value
		kind  structpb.Value_NumberValue
	}
	told := new(struct {
		whole   structpb.Struct
		verdict structpb.Value
		word    structpb.Value_StringValue
		numbers [6]number
	})
	told.word.StringValue, told.verdict.Kind = verdict, &told.word
	fields := make(map[string]*structpb.Value, 1+len(facts))
	fields["verdict"] = &told.verdict
	numbers := told.numbers[:0]
	for _, f := range facts {
		numbers = append(numbers, number{})
		n := &numbers[len(numbers)-1]
		n.kind.NumberValue, n.value.Kind = float64(f.number), &n.kind
		fields[f.name] = &n.value
	}
	told.whole.Fields = fields
	return &told.whole
}
