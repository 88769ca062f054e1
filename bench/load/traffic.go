package main

import (
	"math/rand/v2"
	"slices"
	"strconv"
)

// descriptor is one name with one value, which is an identity of the rule with this
// name.
type descriptor struct{ name, value string }

// traffic is a kind of request.
type traffic struct {
	name string
	// request returns the i-th request.
	request func(i int) []descriptor
	// refused is the expected share of refused calls: any other share means
	// that something else was measured.
	refused float64
}

// identities is the number of identities of the kinds with many: more than fit into any
// processor cache.
const identities = 20_000

// about returns a descriptor of the i-th identity of a name. Equal values are one subject
// in the store, so no two names have a value in common.
func about(name string, i int) descriptor {
	at := slices.IndexFunc(limits, func(l limit) bool { return l.name == name })
	return descriptor{name, strconv.Itoa(1_000_000_000 + 1_000_000*at + i)}
}

func many(name string) func(i int) []descriptor {
	return func(i int) []descriptor { return []descriptor{about(name, i)} }
}

var (
	oneCounter = traffic{name: "one counter", request: func(int) []descriptor { return []descriptor{about("one", 0)} }}
	leased     = traffic{name: "one counter with a lease", request: func(int) []descriptor { return []descriptor{about("hot", 0)} }}
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

// kinds lists all kinds of traffic.
var kinds = []traffic{oneCounter, leased, plain, four, methods, attack}

// requests returns one request per identity, in a random order that is the same in each
// run.
func (t traffic) requests() [][]descriptor {
	made := make([][]descriptor, identities)
	for i, n := range rand.New(rand.NewPCG(1, 2)).Perm(identities) { //nolint:gosec // not a secret
		made[i] = t.request(n)
	}
	return made
}

// turns returns a function that returns the index of a caller's next request. Callers
// start at different requests and cycle through all.
func turns(caller, callers int) func() int {
	next := caller * identities / callers
	return func() int {
		next++
		return next % identities
	}
}
