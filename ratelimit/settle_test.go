package ratelimit_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const reservations = `
[rules]
rule : [count] [budget=+] [time=3600; count=1000; settle=600] [result=2; return=1]
rule : [hold] [running=+] [time=600; count=2] [result=2; return=2]
rule : [count] [login=+; response.status=401] [time=600; count=1] [result=2; return=3]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// receipted asks about a descriptor, and returns the receipt of the reply.
func (d *door) receipted(descriptor string) string {
	d.t.Helper()
	fields := d.ask(descriptor).DynamicMetadata.GetFields()
	receipt := fields["receipt"].GetStringValue()
	if receipt == "" || fields["receipt.lab"].GetStringValue() != receipt {
		d.t.Fatalf("the metadata is %v; want a receipt, also under the domain", fields)
	}
	return receipt
}

// settlement returns a descriptor that settles, with further entries `key=value`.
func settlement(receipt string, entries ...string) string {
	list := []string{fmt.Sprintf(`{"key": "koala.receipt", "value": %q}`, receipt)}
	for _, e := range entries {
		key, value, _ := strings.Cut(e, "=")
		list = append(list, fmt.Sprintf(`{"key": %q, "value": %q}`, key, value))
	}
	return `{"entries": [` + strings.Join(list, ", ") + `]}`
}

// left returns what is left of the budget.
func (d *door) left(budget string) uint32 {
	d.t.Helper()
	for _, s := range d.askFor(`{"domain": "lab", "descriptors": [` + one("budget", budget, `"hits_addend": "0"`) + `]}`).Statuses {
		return s.LimitRemaining
	}
	return 0
}

func TestSettlementReplacesTheEstimate(t *testing.T) {
	estimate := func(budget string) string { return one("budget", budget, `"hits_addend": "100"`) }
	for name, test := range map[string]struct {
		settle func(receipt string) string
		left   uint32
	}{
		"hits of an entry":        {func(r string) string { return settlement(r, "koala.hits=600") }, 400},
		"with an exponent":        {func(r string) string { return settlement(r, "koala.hits=2e+09") }, 0},
		"hits_addend":             {func(r string) string { return strings.Replace(settlement(r), "{", `{"hits_addend": "300", `, 1) }, 700},
		"hits_addend of nothing":  {func(r string) string { return strings.Replace(settlement(r), "{", `{"hits_addend": "0", `, 1) }, 1000},
		"hits that are no number": {func(r string) string { return settlement(r, "koala.hits=junk") }, 900},
		"hits beyond all weights": {func(r string) string { return settlement(r, "koala.hits=1000000000000001") }, 900},
		"hits_addend beyond": {func(r string) string {
			return strings.Replace(settlement(r), "{", `{"hits_addend": "1000000000000001", `, 1)
		}, 900},
		"none": {func(r string) string { return settlement(r) }, 900},
		"several: the first hits": {func(r string) string {
			return settlement(r) + ", " + settlement(r, "koala.hits=5") + ", " + settlement(r, "koala.hits=7")
		}, 995},
		"another receipt":               {func(r string) string { return settlement(r[:len(r)-1] + "!") }, 900},
		"an empty one":                  {func(string) string { return settlement("") }, 900},
		"a renewal changes no estimate": {func(r string) string { return settlement(r, "koala.op=renew") }, 900},
	} {
		d := open(t, reservations, nil)
		receipt := d.receipted(estimate(name))
		reply := d.ask(test.settle(receipt))
		if got := codesOf(reply); strings.Trim(got, "O") != "" {
			t.Errorf("%s: %s; want OK", name, got)
		}
		if got := d.left(name); got != test.left {
			t.Errorf("%s: %d left; want %d", name, got, test.left)
		}
	}
}

func TestSettlementEndsHoldsAndChargesOutcomes(t *testing.T) {
	d := open(t, reservations, nil)
	running, login := one("running", "a"), one("login", "a")
	first, second := d.receipted(running), d.receipted(running)
	failed := d.receipted(login)
	d.run([]step{
		{[]string{running}, "V"},
		{[]string{settlement(first, "response.status=200"), running}, "OO"}, // before the other descriptors
		{[]string{settlement(first), running}, "OV"},                        // once
		{[]string{settlement(second), one("budget", "x")}, "OO"},
		{[]string{login}, "O"},
		{[]string{settlement(failed), settlement(failed, "response.status=401")}, "OO"}, // one settlement, all parameters
		{[]string{login}, "V"},
	})
	for _, json := range []string{settlement(first, "koala.op=charge"), settlement(first, "koala.op=settle")} {
		if _, err := d.call(request(t, `{"domain": "lab", "descriptors": [`+json+`]}`)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v; want InvalidArgument", json, err)
		}
	}
}
