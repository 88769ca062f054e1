package main

import (
	"math/rand/v2"
	"strconv"
)

// identities is the number of identities of uniform traffic.
const identities = 20_000

// traffic is how calls are spread over identities.
type traffic struct {
	name, description string
	// hot is the share of the calls that are on one identity.
	hot float64
}

var kinds = []traffic{
	{"hot", "every call counts on one identity", 1},
	{"mixed", "half of the calls count on one identity, the others on 20,000", 0.5},
	{"uniform", "the calls count on 20,000 identities", 0},
}

// next returns the value of a parameter in a caller's next call. Equal values of two
// parameters would be one subject, whose counters share a key.
func (t *traffic) next(param string, random *rand.Rand) string {
	if t.hot > 0 && random.Float64() < t.hot {
		return param
	}
	return param + strconv.Itoa(random.IntN(identities))
}

// parameters are those by which the rules with and without a lease count.
var parameters = map[bool]string{true: "tenant", false: "user"}

const ruleText = `[settings]
timezone : UTC
[rules]
rule : [count] [tenant=+] [time=3600; count=1000000000; lease=5%] [result=2; return=201]
rule : [count] [user=+] [time=3600; count=1000000000] [result=2; return=202]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
[end]
`
