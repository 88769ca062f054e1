package cluster

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
)

// A receipt of a take over several slots is one text: the receipt of a store in
// Redis, followed by the slots in which rules have a part, in ascending order. Each of
// these slots has its own receipt under that name, which is settled once, with the counters
// of the slot. A text has room for maxReceiptSlots; parts in further slots are not settled: their
// estimates stand, and their holds run out.
const (
	receiptLength   = 23 // without slots
	slotLength      = 3
	maxReceiptSlots = (store.MaxReceipt - receiptLength) / slotLength
	// slotDigits are the digits of slots.
	slotDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// newReceipt returns a receipt without slots.
func newReceipt() string { return store.NewReceipt(store.KeptInRedis) }

// appendSlot returns the receipt with one more slot.
func appendSlot(receipt string, slot uint16) string {
	return receipt + string([]byte{slotDigits[slot>>12], slotDigits[slot>>6&63], slotDigits[slot&63]})
}

// slotsOf returns the slots of a receipt; none for a text that is no receipt of this
// package.
func slotsOf(receipt string) (list []uint16) {
	if !store.KeptBy(store.KeptInRedis, receipt) || (len(receipt)-receiptLength)%slotLength != 0 {
		return nil
	}
	last := -1
	for rest := receipt[receiptLength:]; rest != ""; rest = rest[slotLength:] {
		slot := 0
		for i := range slotLength {
			slot = slot<<6 | strings.IndexByte(slotDigits, rest[i])
		}
		if slot >= slots || slot <= last {
			return nil
		}
		list, last = append(list, uint16(slot)), slot
	}
	return list
}

// setReceipt sets the receipt of an allowed take from the receipts of its parts.
func setReceipt(a *store.Answers, parts []*part) {
	var list []uint16
	for _, p := range parts {
		if p.after.Receipt != "" {
			a.Receipt = p.after.Receipt
			list = append(list, p.slot)
		}
	}
	slices.Sort(list)
	for _, slot := range list[:min(len(list), maxReceiptSlots)] {
		a.Receipt = appendSlot(a.Receipt, slot)
	}
}

// tagOf returns a text in the slot, which is the hash tag of its receipts. No subject has
// that hash tag, nor redis.ReceiptTag.
func tagOf(slot uint16) string { return slotTags()[slot] }

// slotTags are the texts # and a number with the smallest number in each slot. They take
// some milliseconds once.
var slotTags = sync.OnceValue(func() *[slots]string {
	var tags [slots]string
	key := []byte("{#")
	for n, missing := 0, slots; missing > 0; n++ {
		key = append(strconv.AppendInt(key[:2], int64(n), 10), '}')
		if slot := slotOf(key); tags[slot] == "" {
			tags[slot] = string(key[1 : len(key)-1])
			missing--
		}
	}
	return &tags
})

// Settle carries out a settlement in every slot of the receipt, in each as one atomic
// step. It is known if one of them knows it.
func (s *Store) Settle(ctx context.Context, t *store.Settlement) (store.Settled, error) {
	one := *t
	one.Judge = &oneAtATime{judge: t.Judge}
	return s.inSlots(t.Receipt, func(slot uint16, tag string) (store.Settled, error) {
		return s.evaluator.Settle(ctx, s.nodes, slot, tag, &one)
	})
}

// Renew makes the holds of a receipt last, in every slot of the receipt.
func (s *Store) Renew(ctx context.Context, r *store.Renewal) (store.Settled, error) {
	return s.inSlots(r.Receipt, func(slot uint16, tag string) (store.Settled, error) {
		return s.evaluator.Renew(ctx, s.nodes, slot, tag, r)
	})
}

// inSlots carries out an operation in every slot of a receipt, and returns the first
// error.
func (s *Store) inSlots(receipt string, do func(slot uint16, tag string) (store.Settled, error)) (all store.Settled, err error) {
	if s.fixed {
		if len(receipt) != receiptLength {
			return all, nil
		}
		return do(slotOf(s.evaluator.AppendKey(nil, nil)), redis.ReceiptTag)
	}
	list := slotsOf(receipt)
	got, errs := make([]store.Settled, len(list)), make([]error, len(list))
	var rest sync.WaitGroup
	for i, slot := range list[min(1, len(list)):] {
		rest.Go(func() { got[i+1], errs[i+1] = do(slot, tagOf(slot)) })
	}
	if len(list) > 0 {
		got[0], errs[0] = do(list[0], tagOf(list[0]))
	}
	rest.Wait()
	for i := range list {
		if errs[i] != nil {
			return store.Settled{}, errs[i]
		}
		all.Known, all.Age = all.Known || got[i].Known, max(all.Age, got[i].Age)
	}
	return all, nil
}

// oneAtATime is a judge that several slots ask.
type oneAtATime struct {
	sync.Mutex
	judge store.Judge
}

// Judge asks the judge.
func (o *oneAtATime) Judge(number int64, m store.Method) store.Use {
	o.Lock()
	defer o.Unlock()
	return o.judge.Judge(number, m)
}
