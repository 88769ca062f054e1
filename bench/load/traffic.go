package main

import "github.com/koalagate/koalagate/bench/traffic"

// kinds lists the kinds of traffic that the rate limit service is measured with.
var kinds = []traffic.Kind{
	traffic.OneCounter, traffic.Leased, traffic.Plain, traffic.Four, traffic.FourOfOneValue, traffic.Methods, traffic.Attack,
	traffic.TwoOfOne, traffic.FourOfOne, traffic.TokenDay, traffic.BaseCount, traffic.LeakDay,
	traffic.UserFull, traffic.TokenFull, traffic.BaseFull, traffic.LeakFull, traffic.FourFull,
}

// turns returns a function that returns the index of a caller's next request. Callers
// start at different requests and cycle through all.
func turns(caller, callers int) func() int {
	next := caller * traffic.Identities / callers
	return func() int {
		next++
		return next % traffic.Identities
	}
}
