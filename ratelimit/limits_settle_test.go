package ratelimit_test

import (
	"testing"

	extv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
)

// with returns a descriptor with a further entry.
func with(d *extv3.RateLimitDescriptor, key, value string) *extv3.RateLimitDescriptor {
	d.Entries = append(d.Entries, &extv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	return d
}

func TestOperationsOnImportedLimits(t *testing.T) {
	for name, free := range map[string]bool{"refusals count": false, "free refusals": true} {
		t.Run(name, func(t *testing.T) {
			i := importLimits(t, func(o *limitOptions, _ *clock) { o.Settle, o.FreeRefusals = true, free })
			charge := with(weighing("ten", 7), "koala.op", "charge")
			i.want(ok, []uint32{0, 1}, charge, oneEntry("two"))
			i.want(ok, []uint32{3}, weighing("ten", 0))
			i.want(ok, []uint32{0, 5}, with(weighing("ten", 2), "koala.op", "refund"), weighing("ten", 0))
			// An operation comes first, is OK even above the limit, and counts although
			// another descriptor is refused.
			i.want(overLimit, []uint32{0, 0, 0}, weighing("two", 5), charge, weighing("ten", 0))
			i.want(overLimit, nil, weighing("ten", 0))
			i.want(ok, nil, charge)
			i.want(ok, []uint32{0, 10}, with(with(oneEntry("ten"), "koala.op", "refund"), "koala.hits", "1e2"), weighing("ten", 0))
		})
	}
}

func TestStatusOfAnOperationHasNoLimit(t *testing.T) {
	i := importLimits(t, func(o *limitOptions, _ *clock) { o.Settle = true })
	answer, err := i.try(with(weighing("two", 9), "koala.op", "charge"), with(oneEntry("two"), "koala.receipt", "unknown"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range answer.GetStatuses() {
		if s.GetCode() != ok || s.GetCurrentLimit() != nil || s.GetDurationUntilReset() != nil {
			t.Errorf("the status is %v; want OK alone", s)
		}
	}
	if _, err := i.try(with(oneEntry("two"), "koala.op", "spend")); err == nil {
		t.Error("an unknown operation is accepted")
	}
}

// besideLimits has a rule whose estimate a receipt settles.
const besideLimits = `[rules]
rule : [count] [domain=d; ten=+] [time=3600; count=100; settle=600] [result=2; return=201]
[result]
0 : {"Err_no":0, "Str_reason":"Allow"}
1 : {"Err_no":0, "Str_reason":"Allow"}
2 : {"Err_no":10, "Str_reason":"Deny"}
`

// beside returns a door of imported limits with a rule beside them, and a function that
// returns what the rule has left.
func beside(t *testing.T, settles bool) (i *importedDoor, left func() uint32) {
	t.Helper()
	var own *ratelimit.Server
	i = importLimits(t, func(o *limitOptions, c *clock) {
		own = ratelimit.New(ratelimit.Options{Engine: engine.New(parse(t, besideLimits), wiring.CountIn(c.store())), PlainEntries: !settles})
		o.Rules, o.Settle = own, settles
	})
	front := wiretest.Open(own)
	return i, func() uint32 {
		t.Helper()
		reply, err := front.Call(t.Context(), wiretest.Marshal(t, &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*extv3.RateLimitDescriptor{weighing("ten", 0)}}))
		answer := new(rlsv3.RateLimitResponse)
		if err == nil {
			err = proto.Unmarshal(reply, answer)
		}
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetStatuses()[0].GetLimitRemaining()
	}
}

func TestReceiptsOfRulesBesideImportedLimits(t *testing.T) {
	i, left := beside(t, true)
	answer, err := i.try(weighing("ten", 3))
	if err != nil {
		t.Fatal(err)
	}
	fields := answer.GetDynamicMetadata().GetFields()
	receipt := fields["receipt"].GetStringValue()
	if receipt == "" || fields["receipt.d"].GetStringValue() != receipt || left() != 97 {
		t.Fatalf("the metadata is %v, and %d are left; want a receipt, and 97", fields, left())
	}
	settlement := with(oneEntry("other"), "koala.receipt", receipt)
	settlement.HitsAddend = wrapperspb.UInt64(40)
	// The settlement is carried out although the limits refuse another descriptor.
	if i.want(overLimit, nil, settlement, weighing("two", 9)); left() != 60 {
		t.Errorf("%d are left; want 60", left())
	}
	if i.want(ok, nil, with(weighing("ten", 5), "koala.op", "charge")); left() != 55 {
		t.Errorf("%d are left after a charge; want 55", left())
	}
	i.want(ok, []uint32{2}, weighing("ten", 0)) // the limits do not know receipts
}

func TestEntriesOfOperationsAreOrdinaryByDefault(t *testing.T) {
	i, left := beside(t, false)
	answer, err := i.try(weighing("ten", 3))
	if err != nil || len(answer.GetDynamicMetadata().GetFields()) > 0 {
		t.Errorf("got %v, %v; want no metadata", answer, err)
	}
	i.want(ok, []uint32{0}, with(weighing("ten", 5), "koala.op", "charge")) // no limit has two entries
	if i.want(ok, []uint32{7}, weighing("ten", 0)); left() != 92 {
		t.Errorf("%d are left; want 92 after 3, and 5 that the rule matches by the key", left())
	}
}

func TestQuotasInGroups(t *testing.T) {
	quota := func(value string, requests uint32) envoylimits.Descriptor {
		return envoylimits.Descriptor{Key: "model", Value: value, Descriptors: []envoylimits.Descriptor{
			{Key: "bucket", Value: "own", Quota: true, Policy: &envoylimits.Policy{Unit: "hour", Requests: requests}},
			{Key: "bucket", Value: "all", Quota: true, Policy: &envoylimits.Policy{Unit: "hour", Requests: 100}},
		}}
	}
	config := &envoylimits.Config{Name: "c", Domain: "d", Descriptors: []envoylimits.Descriptor{
		{Key: "backend", Descriptors: []envoylimits.Descriptor{quota("a", 1), quota("b", 1)}},
		{Key: "limit", Policy: &envoylimits.Policy{Unit: "hour", Requests: 1}},
	}}
	set, err := envoylimits.Compile([]*envoylimits.Config{config}, false)
	if err != nil {
		t.Fatal(err)
	}
	bucket := func(model, name string, hits uint64) *extv3.RateLimitDescriptor {
		return with(with(weighing("backend", hits), "model", model), "bucket", name)
	}
	limit := weighing("limit", 2)
	for grouped, codes := range map[bool][]rlsv3.RateLimitResponse_Code{
		false: {ok, ok, ok, overLimit, overLimit},
		true:  {overLimit, ok, overLimit, overLimit, overLimit},
	} {
		i := importLimits(t, func(o *limitOptions, _ *clock) {
			o.Current, o.GroupQuotas = func() *envoylimits.Set { return set }, grouped
		})
		i.want(codes[0], nil, bucket("a", "own", 2), bucket("a", "all", 2))                        // one of a group
		i.want(codes[1], nil, bucket("a", "own", 0), bucket("b", "all", 1))                        // one of two groups
		i.want(codes[2], nil, bucket("b", "own", 5), bucket("b", "all", 1), bucket("a", "own", 1)) // one of each group
		i.want(codes[3], nil, bucket("a", "own", 1), bucket("b", "own", 1))                        // all
		i.want(codes[4], nil, bucket("a", "all", 1), limit)                                        // a limit that is no quota
	}
}
