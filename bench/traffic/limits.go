package traffic

import (
	"fmt"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/store"
)

// Limit is a counting rule for the requests with its name.
type Limit struct {
	// Name is the parameter that the rule counts. Limits of one name are rules of one
	// identity.
	Name   string
	Method store.Method
	// The thresholds, Time in seconds. Most limits are never reached, as for most requests
	// in production.
	Time, Count, Base int64
	// Lease is the share of the limit that instances may hold in advance, in percent.
	Lease int64
	// Settle is how long receipts are valid, in seconds; 0 for none.
	Settle int64
	// Shadow rules never refuse.
	Shadow bool
}

const (
	never  = 1_000_000_000
	minute = 60
	hour   = 3600
)

// limits contains all rules, in order. One kind of request meets each rule whose name
// starts with size-, to measure the memory of a method. The last rule of a name that ends
// with -full refuses all requests of an identity after the first.
var limits = []Limit{
	{Name: "one", Method: store.Count, Time: minute, Count: never},
	{Name: "hot", Method: store.Count, Time: minute, Count: never, Lease: 5},
	{Name: "uid", Method: store.Count, Time: minute, Count: never},
	{Name: "settled", Method: store.Count, Time: minute, Count: never, Settle: minute},
	{Name: "a", Method: store.Count, Time: minute, Count: never},
	{Name: "b", Method: store.Count, Time: minute, Count: never},
	{Name: "c", Method: store.Count, Time: minute, Count: never},
	{Name: "d", Method: store.Count, Time: minute, Count: never},
	{Name: "multi", Method: store.Count, Time: minute, Count: never},
	{Name: "multi", Method: store.Count, Time: store.Day, Count: never},
	{Name: "multi", Method: store.Base, Time: minute, Count: never, Base: 1000},
	{Name: "multi", Method: store.Leak, Time: 1, Count: 1000},
	{Name: "attack", Method: store.Count, Time: hour, Count: 1},
	{Name: "size-count", Method: store.Count, Time: 6 * hour, Count: never},
	{Name: "size-day", Method: store.Count, Time: store.Day, Count: never},
	{Name: "size-base", Method: store.Base, Time: 6 * hour, Count: never, Base: 1000},
	{Name: "size-leak", Method: store.Leak, Time: 6 * hour, Count: 1000},
	{Name: "size-token", Method: store.Token, Time: 6 * hour, Count: 10},
	{Name: "two", Method: store.Count, Time: minute, Count: never},
	{Name: "two", Method: store.Count, Time: store.Day, Count: never},
	{Name: "user", Method: store.Count, Time: 10, Count: never},
	{Name: "user", Method: store.Count, Time: minute, Count: never},
	{Name: "user", Method: store.Count, Time: hour, Count: never},
	{Name: "user", Method: store.Count, Time: store.Day, Count: never},
	{Name: "eight", Method: store.Count, Time: 10, Count: never},
	{Name: "eight", Method: store.Count, Time: 30, Count: never},
	{Name: "eight", Method: store.Count, Time: minute, Count: never},
	{Name: "eight", Method: store.Count, Time: 5 * minute, Count: never},
	{Name: "eight", Method: store.Count, Time: 15 * minute, Count: never},
	{Name: "eight", Method: store.Count, Time: hour, Count: never},
	{Name: "eight", Method: store.Count, Time: 6 * hour, Count: never},
	{Name: "eight", Method: store.Count, Time: store.Day, Count: never},
	{Name: "token", Method: store.Token, Time: minute, Count: tokens},
	{Name: "leak", Method: store.Leak, Time: minute, Count: leaks},
	{Name: "shadow", Method: store.Count, Time: minute, Count: never, Shadow: true},
	{Name: "token-day", Method: store.Token, Time: minute, Count: tokens},
	{Name: "token-day", Method: store.Count, Time: store.Day, Count: never},
	{Name: "base-count", Method: store.Base, Time: minute, Count: never, Base: 1000},
	{Name: "base-count", Method: store.Count, Time: minute, Count: never},
	{Name: "leak-day", Method: store.Leak, Time: minute, Count: leaks},
	{Name: "leak-day", Method: store.Count, Time: store.Day, Count: never},
	{Name: "two-full", Method: store.Count, Time: minute, Count: never},
	{Name: "two-full", Method: store.Count, Time: store.Day, Count: 1},
	{Name: "user-full", Method: store.Count, Time: 10, Count: never},
	{Name: "user-full", Method: store.Count, Time: minute, Count: never},
	{Name: "user-full", Method: store.Count, Time: hour, Count: never},
	{Name: "user-full", Method: store.Count, Time: store.Day, Count: 1},
	{Name: "token-day-full", Method: store.Token, Time: minute, Count: tokens},
	{Name: "token-day-full", Method: store.Count, Time: store.Day, Count: 1},
	{Name: "base-count-full", Method: store.Base, Time: minute, Count: never, Base: 1000},
	{Name: "base-count-full", Method: store.Count, Time: hour, Count: 1},
	{Name: "leak-day-full", Method: store.Leak, Time: minute, Count: leaks},
	{Name: "leak-day-full", Method: store.Count, Time: store.Day, Count: 1},
	{Name: "settled-full", Method: store.Count, Time: hour, Count: 1, Settle: minute},
}

// The limits of buckets and logs that never refuse.
const (
	tokens = 1_000_000
	leaks  = 10_000
)

// firstReturn is the number of the first rule; the others follow.
const firstReturn = 201

var methodNames = map[store.Method]string{store.Count: "count", store.Base: "base", store.Leak: "leak", store.Token: "token"}

// Rules returns a rule file with the limits of these names, or with all limits without
// names. A rule has the same number in every file.
func Rules(names ...string) string {
	var b strings.Builder
	b.WriteString("[settings]\ntimezone : UTC\n[rules]\n")
	for i, l := range limits {
		if len(names) == 0 || slices.Contains(names, l.Name) {
			fmt.Fprintf(&b, "rule : [%s] [%s=+] [%s] [%s]\n", methodNames[l.Method], l.Name, l.thresholds(), l.result(i))
		}
	}
	b.WriteString("[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10, \"Str_reason\":\"Deny\"}\n[end]\n")
	return b.String()
}

func (l *Limit) thresholds() string {
	text := fmt.Sprintf("time=%d; count=%d", l.Time, l.Count)
	if l.Base > 0 {
		text = fmt.Sprintf("base=%d; %s", l.Base, text)
	}
	if l.Lease > 0 {
		text += fmt.Sprintf("; lease=%d%%", l.Lease)
	}
	if l.Settle > 0 {
		text += fmt.Sprintf("; settle=%d", l.Settle)
	}
	return text
}

func (l *Limit) result(i int) string {
	text := fmt.Sprintf("result=2; return=%d", firstReturn+i)
	if l.Shadow {
		text += "; shadow=1"
	}
	return text
}

// Of returns the limits of a name.
func Of(name string) (list []Limit) {
	for _, l := range limits {
		if l.Name == name {
			list = append(list, l)
		}
	}
	return list
}

// Set returns the set that the engine builds for a descriptor, without leases and
// receipts.
func Set(d Descriptor) store.Set {
	set := store.Set{Allows: true}
	for i, l := range limits {
		if l.Name != d.Name {
			continue
		}
		r := store.Rule{
			Subject: append([]byte{1, byte(len(d.Value))}, d.Value...),
			Return:  int64(firstReturn + i), Weight: 1, Method: l.Method, Time: l.Time, Count: l.Count, Base: l.Base,
			Shadow: l.Shadow,
		}
		if l.Method == store.Token {
			r.Burst = l.Count
		}
		set.Rules = append(set.Rules, r)
	}
	return set
}

// PeerConfig returns the equivalent limits for envoyproxy/ratelimit, as far as possible:
// it supports only windows, one of each name.
func PeerConfig() string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", Domain)
	units := map[int64]string{minute: "minute", hour: "hour"}
	for _, l := range limits {
		if unit := units[l.Time]; unit != "" && l.isPlain() {
			fmt.Fprintf(&b, "  - key: %s\n    rate_limit:\n      unit: %s\n      requests_per_unit: %d\n", l.Name, unit, l.Count)
		}
	}
	return b.String()
}

// isPlain reports whether the limit is the only one of its name, counts windows, and
// refuses what exceeds it.
func (l *Limit) isPlain() bool {
	return l.Method == store.Count && !l.Shadow && l.Settle == 0 && len(Of(l.Name)) == 1
}
