// Package traffic contains the rules of the benchmarks and the requests that meet them.
// The limits of a kind of traffic have names of their own, so that an earlier version of
// the service can be measured with the kinds whose rules it knows.
package traffic

import (
	"math/rand/v2"
	"slices"
	"strconv"
)

// Domain is the domain of all requests.
const Domain = "bench"

// Descriptor is one name with one value, which is an identity of the limits with this
// name.
type Descriptor struct{ Name, Value string }

// Kind is a kind of traffic.
type Kind struct {
	Name string
	// Request returns the i-th request.
	Request func(i int) []Descriptor
	// Refused is the expected share of refused calls: any other share means
	// that something else was measured.
	Refused float64
}

// Identities is the number of identities of the kinds with many: more than fit into any
// processor cache.
const Identities = 20_000

// full is the number of identities of the kinds whose requests are refused.
const full = 100

// about returns a descriptor of the i-th identity of a name. Equal values are one subject
// in the store, so no two names have a value in common.
func about(name string, i int) Descriptor {
	at := slices.IndexFunc(limits, func(l Limit) bool { return l.Name == name })
	return Descriptor{name, strconv.Itoa(1_000_000_000 + 1_000_000*at + i)}
}

// Many returns the requests of many identities of one name.
func Many(name string) func(i int) []Descriptor {
	return func(i int) []Descriptor { return []Descriptor{about(name, i)} }
}

// refused returns the kind of a hundred identities whose requests are refused.
func refused(what, name string) Kind {
	return Kind{Name: what, Refused: 1, Request: func(i int) []Descriptor { return []Descriptor{about(name, i%full)} }}
}

// The kinds of traffic.
var (
	OneCounter = Kind{Name: "one counter", Request: func(int) []Descriptor { return []Descriptor{about("one", 0)} }}
	Leased     = Kind{Name: "one counter with a lease", Request: func(int) []Descriptor { return []Descriptor{about("hot", 0)} }}
	Plain      = Kind{Name: "one descriptor, many identities", Request: Many("uid")}
	Four       = Kind{Name: "four descriptors on four identities", Request: func(i int) []Descriptor {
		return []Descriptor{about("a", i), about("b", i*7%Identities), about("c", i*11%Identities), about("d", i*13%Identities)}
	}}
	// FourOfOneValue has four names with one value, which are limits of one identity.
	FourOfOneValue = Kind{Name: "four descriptors of one value", Request: func(i int) []Descriptor {
		value := strconv.Itoa(5_000_000_000 + i)
		return []Descriptor{{"a", value}, {"b", value}, {"c", value}, {"d", value}}
	}}
	Methods = Kind{Name: "four methods on one subject", Request: Many("multi")}
	Attack  = Kind{Name: "90 % over the limit", Refused: 0.9, Request: func(i int) []Descriptor {
		if i%10 == 0 {
			return []Descriptor{about("uid", i)}
		}
		return []Descriptor{about("attack", i%full)}
	}}

	TwoOfOne   = Kind{Name: "two limits of one identity", Request: Many("two")}
	FourOfOne  = Kind{Name: "four limits of one identity", Request: Many("user")}
	EightOfOne = Kind{Name: "eight limits of one identity", Request: Many("eight")}
	Token      = Kind{Name: "token", Request: Many("token")}
	Leak       = Kind{Name: "leak", Request: Many("leak")}
	Shadow     = Kind{Name: "a shadow rule", Request: Many("shadow")}
	TokenDay   = Kind{Name: "token and day", Request: Many("token-day")}
	BaseCount  = Kind{Name: "base and count", Request: Many("base-count")}
	LeakDay    = Kind{Name: "leak and day", Request: Many("leak-day")}
	Receipt    = Kind{Name: "a receipt", Request: Many("settled")}

	// OneFull is refused by its only rule, the others by the last of several.
	OneFull   = refused("refused by the only rule", "attack")
	TwoFull   = refused("two limits of one identity, refused", "two-full")
	UserFull  = refused("four limits of one identity, refused", "user-full")
	TokenFull = refused("token and day, refused", "token-day-full")
	BaseFull  = refused("base and count, refused", "base-count-full")
	LeakFull  = refused("leak and day, refused", "leak-day-full")
	FourFull  = Kind{Name: "four descriptors on four identities, the last one refused", Refused: 1, Request: func(i int) []Descriptor {
		return []Descriptor{about("a", i), about("b", i*7%Identities), about("c", i*11%Identities), about("attack", i%full)}
	}}
	ReceiptFull = refused("a receipt, refused", "settled-full")
	// OneOfFifteen has one refused request among fifteen.
	OneOfFifteen = Kind{Name: "one of fifteen refused", Refused: 1. / 15, Request: func(i int) []Descriptor {
		if i%15 == 7 {
			return []Descriptor{about("attack", i%full)}
		}
		return []Descriptor{about("uid", i)}
	}}
)

// Limits returns the limits that the requests meet.
func (t *Kind) Limits() (list []Limit) {
	for _, name := range t.Names() {
		list = append(list, Of(name)...)
	}
	return list
}

// Names returns the names of the descriptors, each once.
func (t *Kind) Names() (list []string) {
	for i := range full {
		for _, d := range t.Request(i) {
			if !slices.Contains(list, d.Name) {
				list = append(list, d.Name)
			}
		}
	}
	return list
}

// SuitsPeers reports whether envoyproxy/ratelimit supports the limits: windows, one of
// each name.
func (t *Kind) SuitsPeers() bool {
	return !slices.ContainsFunc(t.Limits(), func(l Limit) bool { return !l.isPlain() })
}

// Requests returns one request per identity, in a random order that is the same in each
// run.
func (t *Kind) Requests() [][]Descriptor {
	made := make([][]Descriptor, Identities)
	for i, n := range rand.New(rand.NewPCG(1, 2)).Perm(Identities) { //nolint:gosec // not a secret
		made[i] = t.Request(n)
	}
	return made
}
