package main

import (
	"math/rand/v2"
	"slices"
	"strconv"
)

// descriptor is what a request asks about: one name with one value, which is
// one identity of the rule of this name.
type descriptor struct{ name, value string }

// traffic is a kind of requests.
type traffic struct {
	name string
	// request makes the i-th of many requests.
	request func(i int) []descriptor
	// refused is the share of calls that have to be refused: anything else
	// means that something other than this is measured.
	refused float64
}

// identities is how many different ones the kinds with many of them have:
// more than any cache of the processor holds.
const identities = 20_000

// about is a descriptor of the i-th identity of a name. Equal values are one
// subject in the store, so no two names have one in common.
func about(name string, i int) descriptor {
	at := slices.IndexFunc(limits, func(l limit) bool { return l.name == name })
	return descriptor{name, strconv.Itoa(1_000_000_000 + 1_000_000*at + i)}
}

func many(name string) func(i int) []descriptor {
	return func(i int) []descriptor { return []descriptor{about(name, i)} }
}

var (
	oneCounter = traffic{name: "one counter", request: func(int) []descriptor { return []descriptor{about("one", 0)} }}
	plain      = traffic{name: "one descriptor, many identities", request: many("uid")}
	four       = traffic{name: "four descriptors on four identities", request: func(i int) []descriptor {
		return []descriptor{about("a", i), about("b", i*7%identities), about("c", i*11%identities), about("d", i*13%identities)}
	}}
	methods = traffic{name: "four methods on one subject", request: many("multi")}
	attack  = traffic{name: "90 % over the limit", refused: 0.9, request: func(i int) []descriptor {
		if i%10 == 0 {
			return []descriptor{about("uid", i)}
		}
		return []descriptor{about("attack", i%100)}
	}}
)

// kinds are all of them, for those who want to choose.
var kinds = []traffic{oneCounter, plain, four, methods, attack}

// requests are as many as there are identities, in an order that nothing can
// guess and that is the same in each run.
func (t traffic) requests() [][]descriptor {
	made := make([][]descriptor, identities)
	for i, n := range rand.New(rand.NewPCG(1, 2)).Perm(identities) { //nolint:gosec // no secret
		made[i] = t.request(n)
	}
	return made
}

// turns returns a function that tells a caller which request is next: callers
// begin at different ones and go through all.
func turns(caller, callers int) func() int {
	next := caller * identities / callers
	return func() int {
		next++
		return next % identities
	}
}
