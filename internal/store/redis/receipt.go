package redis

import (
	"encoding/binary"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// ReceiptTag is the hash tag of the receipts of a store that keeps all counters in one
// slot, or has none. No subject has this text.
const ReceiptTag = "#r"

// A receipt is a key with what a settlement must know: when the take was, which weights
// it recorded where, and by which rules. Its name is PREFIX:2:{TAG}ID, where ID is that
// of the receipt's text. The script writes the first (lua/receipts.lua), for the rules
// that take part; the rules come with the take, as a description that the script does
// not read. A description has for each rule of the take that may take part:
//
//	part       one byte: store.Part, 16 for an overdraft, 32 if the subject is the previous rule's
//	counter    as varints: number, method + 8 × unit, from
//	thresholds as varints: time in s, count, base or burst
//	subject    its length as a varint and its text, as in the names of keys
const (
	// receiptHead and receiptPart are the sizes of the head of a receipt and of a part.
	receiptHead = 1 + 6 + 6 + 2
	receiptPart = 2 + 7 + 6 + 7 + 6

	overdrawn   = 16
	sameSubject = 32
)

// describe sets the description of the rules that may take part.
func (c *Call) describe() {
	d := c.description[:0]
	var before *store.Rule
	for i := range c.plan.Sets {
		for j := range c.plan.Sets[i].Rules {
			r := &c.plan.Sets[i].Rules[j]
			if r.Settles() {
				d = appendRule(d, c.begin, r, before)
				before = r
			}
		}
	}
	c.description = d
}

// appendRule appends the description of a rule, which follows another one or nil.
func appendRule(d []byte, begin string, r, before *store.Rule) []byte {
	kind, size := byte(store.Estimate), r.Burst
	switch {
	case r.Outcome:
		kind = byte(store.Charge)
	case method.Of(r.Method).Holds:
		kind = byte(store.Held)
	}
	same := before != nil && string(before.Subject) == string(r.Subject)
	kind |= byte(flag(r.Overdraft, overdrawn) | flag(same, sameSubject))
	d = append(d, kind)
	for _, n := range [...]int64{r.Return, int64(r.Method) + 8*int64(r.Unit), int64(r.From), r.Time, r.Count, size} {
		d = binary.AppendUvarint(d, uint64(n))
	}
	if same {
		return d
	}
	at := len(d)
	d = append(d, 0)
	d = appendSubject(d, r.Subject, subjectRoom(begin))
	d[at] = byte(len(d) - at - 1)
	return d
}

// record is the content of a receipt.
type record struct {
	taken, till int64
	parts       []part
}

// part is the part of a rule in a receipt.
type part struct {
	kind   store.Part
	number int        // of the rule in the description, from 1
	rule   store.Rule // the subject is the text of a name
}

// parseReceipt returns the content of a receipt; ok is false for any other value. The parts
// must be in the order of their rules, each once, as the script writes them: a settlement of
// the same part thousands of times would occupy Redis for long.
func parseReceipt(value string) (c record, ok bool) {
	r := reader{rest: value}
	version, taken, till, n := r.uint(1), r.uint(6), r.uint(6), int(r.uint(2))
	if r.bad || version != layout || len(r.rest) < n*receiptPart {
		return c, false
	}
	parts := reader{rest: r.rest[:n*receiptPart]}
	rules, ok := parseRules([]byte(r.rest[n*receiptPart:]))
	if !ok || !validRules(rules) {
		return c, false
	}
	c.taken, c.till = int64(taken), int64(till)
	last := 0
	for range n {
		number, weight := int(parts.uint(2)), int64(parts.uint(7))
		parts.skip(receiptPart - 2 - 7)
		if number <= last || number > len(rules) || weight > store.MaxCounter {
			return c, false
		}
		last = number
		one := rules[number-1]
		one.rule.Weight = weight
		c.parts = append(c.parts, one)
	}
	return c, true
}

// parseRules returns the rules of a description, to which they refer; ok is false if no
// take has such a description.
func parseRules(rest []byte) (list []part, ok bool) {
	for len(rest) > 0 {
		kind := rest[0]
		var numbers [6]int64
		rest = rest[1:]
		for i := range numbers {
			n, size := binary.Uvarint(rest)
			if size <= 0 || n > store.MaxCounter {
				return nil, false
			}
			numbers[i], rest = int64(n), rest[size:]
		}
		one := part{kind: store.Part(kind % overdrawn), number: len(list) + 1, rule: store.Rule{
			Return: numbers[0], Method: store.Method(numbers[1] % 8), Unit: store.Unit(min(numbers[1]/8, 255)), From: uint8(min(numbers[2], 255)),
			Time: numbers[3], Count: numbers[4], Burst: numbers[5], Overdraft: kind&overdrawn != 0,
		}}
		switch one.kind {
		case store.Charge:
			one.rule.Settle, one.rule.Outcome = 1, true
		case store.Estimate:
			one.rule.Settle = 1
		case store.Held:
		default:
			return nil, false
		}
		switch {
		case kind&sameSubject != 0 && len(list) > 0:
			one.rule.Subject = list[len(list)-1].rule.Subject
		case kind&sameSubject != 0, len(rest) == 0, len(rest) <= int(rest[0]), !literalSubject(rest[1 : 1+int(rest[0])]):
			return nil, false
		default:
			one.rule.Subject, rest = rest[1:1+int(rest[0])], rest[1+int(rest[0]):]
		}
		if one.kind == store.Held != method.Of(one.rule.Method).Holds {
			return nil, false
		}
		list = append(list, one)
	}
	return list, true
}

// validRules reports whether a plan may have the rules of a description. The script
// fails on others, and all calls of its batch with it.
func validRules(list []part) bool {
	set := store.Set{Rules: make([]store.Rule, len(list))}
	for i := range list {
		set.Rules[i] = list[i].rule
	}
	p := store.Plan{Op: store.Take, Sets: []store.Set{set}}
	return p.Validate() == nil
}
