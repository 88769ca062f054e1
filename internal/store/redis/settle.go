package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// use is the settlement of a part of a receipt.
type use struct {
	rule int   // its number in the description, from 1
	kind int64 // useHits, useEnd or useCharge
	hits int64
}

// The kinds of a use; lua/receipts.lua has the same numbers.
const (
	useHits   = 1 // hits replace the estimate
	useEnd    = 2 // the hold ends
	useCharge = 3 // the weight is recorded
)

func (u *use) pack(n *numbers, op store.Op) {
	n.add(int64(u.rule))
	if op == settleReceipt {
		n.add(u.kind)
		n.add(u.hits)
	}
}

// Settle carries out a settlement: one call spends the receipt and settles in one atomic
// step. If the receipt is not remembered, another call reads it before, whose rules are
// judged then. Both are carried out even if the caller has left; the budget bounds each.
func (s *Store) Settle(ctx context.Context, t *store.Settlement) (store.Settled, error) {
	if len(t.Receipt) != receiptLength {
		return store.Settled{}, nil
	}
	return s.evaluator.Settle(ctx, s.batcher, 0, ReceiptTag, t)
}

// Renew extends the holds of a receipt. It makes the same calls as Settle.
func (s *Store) Renew(ctx context.Context, r *store.Renewal) (store.Settled, error) {
	if len(r.Receipt) != receiptLength {
		return store.Settled{}, nil
	}
	return s.evaluator.Renew(ctx, s.batcher, 0, ReceiptTag, r)
}

// Settle settles the parts of a receipt in the slot of a tag.
func (e *Evaluator) Settle(ctx context.Context, sender Sender, slot uint16, tag string, t *store.Settlement) (store.Settled, error) {
	p := &store.Plan{Now: t.Now, Zone: t.Zone}
	return e.onReceipt(ctx, sender, slot, tag, t.Receipt, p, settleReceipt, func(one *part) (u use, applies bool) {
		judged := t.Judge.Judge(one.rule.Return, one.rule.Method)
		switch {
		case !judged.Concerns:
			return u, false
		case one.kind == store.Held:
			return use{one.number, useEnd, 0}, true
		case one.kind == store.Charge:
			return use{one.number, useCharge, 0}, judged.Charge
		}
		return use{one.number, useHits, judged.Hits}, judged.Given
	})
}

// Renew renews the parts of a receipt in the slot of a tag.
func (e *Evaluator) Renew(ctx context.Context, sender Sender, slot uint16, tag string, r *store.Renewal) (store.Settled, error) {
	p := &store.Plan{Now: r.Now}
	return e.onReceipt(ctx, sender, slot, tag, r.Receipt, p, renewReceipt, func(one *part) (use, bool) {
		return use{rule: one.number}, one.kind == store.Held
	})
}

// onReceipt carries out an operation on the parts of a receipt that applies selects, by
// its remembered description or the one in Redis.
func (e *Evaluator) onReceipt(ctx context.Context, sender Sender, slot uint16, tag, receipt string, p *store.Plan, op store.Op, applies func(*part) (use, bool)) (store.Settled, error) {
	if !store.KeptBy(store.KeptInRedis, receipt) {
		return store.Settled{}, nil
	}
	ctx = context.WithoutCancel(ctx)
	at := place{slot, tag, receipt}
	if text, taken := e.receipts.recall(tag, idOf(receipt), op == settleReceipt); text != nil {
		list, _ := parseRules(text)
		got, err := e.useParts(ctx, sender, at, p, op, record{taken: taken, parts: list}, applies)
		if err != nil || got.Known { // else it has been spent or has expired, or is damaged
			return got, err
		}
	}
	p.Op, p.Sets = readReceipt, nil
	value, _, err := e.exchangeReceipt(ctx, sender, at, p, nil)
	if err != nil || value == "" {
		return store.Settled{}, err
	}
	content, ok := parseReceipt(value)
	if !ok {
		if e.onDamage != nil {
			e.onDamage(e.receiptKey(tag, receipt))
		}
		return store.Settled{}, nil
	}
	return e.useParts(ctx, sender, at, p, op, content, applies)
}

// useParts carries out an operation on the parts that applies selects. Parts that the
// receipt does not have are passed over.
func (e *Evaluator) useParts(ctx context.Context, sender Sender, at place, p *store.Plan, op store.Op, content record, applies func(*part) (use, bool)) (store.Settled, error) {
	p.Op, p.Sets = op, make([]store.Set, 1)
	p.Sets[0].Rules = make([]store.Rule, 0, len(content.parts))
	uses := make([]use, 0, len(content.parts))
	for i := range content.parts {
		if u, ok := applies(&content.parts[i]); ok {
			uses = append(uses, u)
			r := content.parts[i].rule
			r.Weight = 0 // the script has it; calls that differ in weights have one shape
			p.Sets[0].Rules = append(p.Sets[0].Rules, r)
		}
	}
	value, now, err := e.exchangeReceipt(ctx, sender, at, p, uses)
	if err != nil || value != "\x01" {
		return store.Settled{}, err
	}
	return store.Settled{Known: true, Age: max(now-content.taken, 0)}, nil
}

// place is where a receipt is kept.
type place struct {
	slot         uint16
	tag, receipt string
}

// exchangeReceipt carries out one operation on a receipt, and returns the reply and the
// clock of Redis. The reply to a read is the value of the receipt, "" if there is none.
func (e *Evaluator) exchangeReceipt(ctx context.Context, sender Sender, at place, p *store.Plan, uses []use) (string, int64, error) {
	c := e.calls.Get().(*Call)
	c.packReceipt(e.begin, at.tag, at.receipt, p, uses)
	c.Slot = at.slot
	c.start = time.Now()
	c.end = e.deadline(ctx, c.start)
	c.time.begin(ctx, c.start, c.end)
	abandoned, err := sender.Send(&c.time, c) //nolint:contextcheck // it wraps the caller's, with an end
	e.Changed(c, p)
	var rest string
	var now int64
	if err == nil {
		r := reader{rest: c.answer.sets}
		if now = c.answer.now; p.Op == readReceipt {
			r.skip(4)
		}
		rest = r.rest
	}
	if c.time.finish() && !abandoned {
		e.Release(c)
	}
	if err != nil {
		return "", 0, fmt.Errorf("redis: receipt: %w", err)
	}
	return rest, now, nil
}

// packReceipt fills c for an operation on a receipt. The subjects of the plan are texts
// of names.
func (c *Call) packReceipt(begin, tag, receipt string, p *store.Plan, uses []use) {
	c.plan, c.begin, c.op, c.undo, c.wants, c.tentative, c.bare = p, begin, p.Op, nil, false, false, false
	c.Slot, c.Asking = 0, false
	c.clear(tag)
	c.receipt, c.literal = receipt, true
	c.uses = append(c.uses, uses...)
	c.fill()
	c.sets = 0 // no answers
}

// receiptKey returns the key of a receipt.
func (e *Evaluator) receiptKey(tag, receipt string) string {
	return e.begin + "{" + tag + "}" + idOf(receipt)
}
