package redis

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/store"
)

// FuzzReceipt reads arbitrary values of receipts: the rules of each that is accepted are
// rules that a plan may have, each at most once, and no weight is above what a counter holds.
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
	several := func(parts ...string) string {
		head := head[:len(head)-2] + string(binary.BigEndian.AppendUint16(nil, uint16(len(parts))))
		return head + strings.Join(parts, "") + string(c.description)
	}
	first, last := "\x00\x02"+part[2:], part
	if content, ok := parseReceipt(several(first, last)); !ok || len(content.parts) != 2 {
		f.Fatalf("two parts are read as %+v, %t", content, ok)
	}
	for name, value := range map[string]string{
		"a part twice":       several(last, last),
		"parts out of order": several(last, first),
		"a part of no rule":  several("\x00\x00"+part[2:], last),
	} {
		if content, ok := parseReceipt(value); ok {
			f.Fatalf("%s: it is read as %+v", name, content)
		}
		f.Add(value)
	}
	f.Add(good)
	f.Add(head)
	f.Add("")
	f.Fuzz(func(t *testing.T, value string) {
		content, ok := parseReceipt(value)
		if !ok {
			return
		}
		if len(content.parts) > store.MaxRules {
			t.Errorf("%x has %d parts", value, len(content.parts))
		}
		for i := range content.parts {
			one := &content.parts[i]
			if i > 0 && one.number <= content.parts[i-1].number {
				t.Errorf("part %d of %x has the number %d after %d", i, value, one.number, content.parts[i-1].number)
			}
			p := store.Plan{Op: store.Take, Sets: []store.Set{{Rules: []store.Rule{one.rule}}}}
			p.Sets[0].Rules[0].Weight = 0
			if err := p.Validate(); err != nil || one.number < 1 || one.rule.Weight < 0 || one.rule.Weight > store.MaxCounter {
				t.Errorf("part %d of %x is %+v: %v", i, value, one, err)
			}
		}
	})
}
