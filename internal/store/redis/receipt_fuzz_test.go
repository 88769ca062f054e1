package redis

import (
	"testing"

	"github.com/koalagate/koalagate/internal/store"
)

// FuzzReceipt reads arbitrary values of receipts: the rules of each that is accepted are
// rules that a plan may have, and no weight is above what a counter holds.
func FuzzReceipt(f *testing.F) {
	rule := func(method store.Method, change func(*store.Rule)) store.Rule {
		r := store.Rule{Subject: []byte("a subject"), Return: 7, Method: method, Time: 60, Count: 5, Burst: 5, Settle: 60}
		change(&r)
		return r
	}
	c := &Call{begin: "koala:2:", plan: &store.Plan{Sets: []store.Set{{Rules: []store.Rule{
		rule(store.Count, func(*store.Rule) {}),
		rule(store.Leak, func(r *store.Rule) { r.Overdraft = true }),
		rule(store.Token, func(r *store.Rule) { r.Subject = []byte("another") }),
		rule(store.Count, func(r *store.Rule) { r.Outcome, r.Unit, r.From = true, store.Month, 31 }),
		rule(store.Hold, func(r *store.Rule) { r.Settle = 0 }),
	}}}}}
	c.describe()
	const head = "\x02\x01\x9e\x83\x0e\x1a\x00\x01\x9e\x83\x17\x41\xc0\x00\x01"
	part := "\x00\x05" + "\x00\x00\x00\x00\x00\x00\x03" + "\x01\x9e\x83\x0e\x1a\x00" + "\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00"
	good := head + part + string(c.description)
	if content, ok := parseReceipt(good); !ok || len(content.parts) != 1 || content.parts[0].rule.Method != store.Hold || content.parts[0].rule.Weight != 3 {
		f.Fatalf("%x is read as %+v, %t; want a hold of 3", good, content, ok)
	}
	f.Add(good)
	f.Add(head)
	f.Add("")
	f.Fuzz(func(t *testing.T, value string) {
		content, ok := parseReceipt(value)
		if !ok {
			return
		}
		for i := range content.parts {
			one := &content.parts[i]
			p := store.Plan{Op: store.Take, Sets: []store.Set{{Rules: []store.Rule{one.rule}}}}
			p.Sets[0].Rules[0].Weight = 0
			if err := p.Validate(); err != nil || one.number < 1 || one.rule.Weight < 0 || one.rule.Weight > store.MaxCounter {
				t.Errorf("part %d of %x is %+v: %v", i, value, one, err)
			}
		}
	})
}
