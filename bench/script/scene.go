package main

import (
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/koalagate/koalagate/bench/traffic"
)

// scene is traffic whose decisions are replayed.
type scene struct {
	kind traffic.Kind
	// settles makes each take be settled, in the batch after the next one.
	settles bool
	// timed scenes cost more or less with the time between two decisions: their
	// instructions are not compared.
	timed bool
}

// scenes lists all scenes.
var scenes = []scene{
	{kind: traffic.Plain},
	{kind: traffic.Four},
	{kind: traffic.OneCounter},
	{kind: traffic.Receipt},
	{kind: traffic.Receipt, settles: true},
	{kind: traffic.TwoOfOne},
	{kind: traffic.FourOfOne},
	{kind: traffic.EightOfOne},
	{kind: traffic.TokenDay},
	{kind: traffic.BaseCount},
	{kind: traffic.LeakDay, timed: true},
	{kind: traffic.Token},
	{kind: traffic.Leak, timed: true},
	{kind: traffic.Shadow},
	{kind: traffic.OneFull},
	{kind: traffic.UserFull},
	{kind: traffic.FourFull},
	{kind: traffic.OneOfFifteen},
	{kind: traffic.TokenFull},
	{kind: traffic.BaseFull},
	{kind: traffic.LeakFull, timed: true},
}

func (s *scene) name() string {
	if s.settles {
		return s.kind.Name + " and its settlement"
	}
	return s.kind.Name
}

func (s *scene) request(i int) *rlsv3.RateLimitRequest {
	return traffic.RateLimitRequest(s.kind.Request(i % traffic.Identities))
}

// steps returns the batches of a scene. The receipts of a batch are known when the batch
// after it has gathered, and are settled then.
func (s *scene) steps(batches int) (list []step) {
	for i := range batches {
		list = append(list, step{number: i})
		if s.settles && i > 0 {
			list = append(list, step{true, i - 1})
		}
	}
	return list
}
