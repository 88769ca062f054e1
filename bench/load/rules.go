package main

import (
	"fmt"
	"strings"

	"github.com/koalagate/koalagate/internal/store"
)

// limit is a counting rule for the requests with its name.
type limit struct {
	name   string
	method store.Method
	// The thresholds. Most limits are never reached, as for most requests in
	// production.
	time, count, base int64
	// lease is the share of the limit that instances may hold in advance, in percent.
	lease int64
	// settle is the time of receipts in seconds, 0 for none.
	settle int64
}

const never = 1_000_000_000

// limits contains all rules, in order. One kind of request meets each rule whose name
// starts with size-, to measure the memory of a method.
var limits = []limit{
	{name: "one", method: store.Count, time: 60, count: never},
	{name: "hot", method: store.Count, time: 60, count: never, lease: 5},
	{name: "uid", method: store.Count, time: 60, count: never},
	{name: "settled", method: store.Count, time: 60, count: never, settle: 60},
	{name: "a", method: store.Count, time: 60, count: never},
	{name: "b", method: store.Count, time: 60, count: never},
	{name: "c", method: store.Count, time: 60, count: never},
	{name: "d", method: store.Count, time: 60, count: never},
	{name: "multi", method: store.Count, time: 60, count: never},
	{name: "multi", method: store.Count, time: store.Day, count: never},
	{name: "multi", method: store.Base, time: 60, count: never, base: 1000},
	{name: "multi", method: store.Leak, time: 1, count: 1000},
	{name: "attack", method: store.Count, time: 3600, count: 1},
	{name: "size-count", method: store.Count, time: 3600, count: never},
	{name: "size-day", method: store.Count, time: store.Day, count: never},
	{name: "size-base", method: store.Base, time: 3600, count: never, base: 1000},
	{name: "size-leak", method: store.Leak, time: 3600, count: 1000},
	{name: "size-token", method: store.Token, time: 3600, count: 10},
}

// firstReturn is the number of the first rule; the others follow.
const firstReturn = 201

var methodNames = map[store.Method]string{store.Count: "count", store.Base: "base", store.Leak: "leak", store.Token: "token"}

// ruleText returns the rule file of this version, or without the words that an earlier
// version may not know.
func ruleText(earlier bool) string {
	var b strings.Builder
	b.WriteString("[settings]\ntimezone : UTC\n[rules]\n")
	for i, l := range limits {
		base := ""
		if l.base > 0 {
			base = fmt.Sprintf("base=%d; ", l.base)
		}
		words := ""
		if l.lease > 0 && !earlier {
			words += fmt.Sprintf("; lease=%d%%", l.lease)
		}
		if l.settle > 0 && !earlier {
			words += fmt.Sprintf("; settle=%d", l.settle)
		}
		fmt.Fprintf(&b, "rule : [%s] [%s=+] [%stime=%d; count=%d%s] [result=2; return=%d]\n",
			methodNames[l.method], l.name, base, l.time, l.count, words, firstReturn+i)
	}
	b.WriteString("[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10, \"Str_reason\":\"Deny\"}\n[end]\n")
	return b.String()
}

// planSet returns the set that the engine builds for a descriptor.
func planSet(d descriptor) store.Set {
	set := store.Set{Allows: true}
	for i, l := range limits {
		if l.name != d.name {
			continue
		}
		r := store.Rule{
			Subject: append([]byte{1, byte(len(d.value))}, d.value...),
			Return:  int64(firstReturn + i), Weight: 1, Method: l.method, Time: l.time, Count: l.count, Base: l.base,
		}
		if l.method == store.Token {
			r.Burst = l.count
		}
		set.Rules = append(set.Rules, r)
	}
	return set
}

// peerConfig returns the equivalent rules for envoyproxy/ratelimit, as far as possible:
// it supports only windows.
func peerConfig() string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", domain)
	units := map[int64]string{60: "minute", 3600: "hour"}
	for _, l := range limits {
		if unit := units[l.time]; unit != "" && l.method == store.Count && l.name != "multi" {
			fmt.Fprintf(&b, "  - key: %s\n    rate_limit:\n      unit: %s\n      requests_per_unit: %d\n", l.name, unit, l.count)
		}
	}
	return b.String()
}
