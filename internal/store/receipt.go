package store

// A plan whose counters lie in several slots of a Cluster is a take in each of
// them. What a take counted while another one refused is given back, by the
// receipt of each rule: only where the counter is still the one that was
// counted on, and never more than would be there without the take. So a
// give-back that is late, or lost, leaves hits until their window ends, and none
// ever admits one too many.
//
//	method  a                           b                    c
//	count   when the window closes
//	base    when the day ends           hits in the second   when it closes
//	                                    window
//	leak    the run's instant
//	token   when the bucket was used
//
// Of tokens what was refilled since the take is not given back: without it the
// bucket might have been full, and the refill lost. What was missing then does
// not tell, since others may have given back meanwhile.

// receipt is what a take counted on one rule.
type receipt struct {
	flags   int64
	a, b, c int64
}

// The operations of the script beside those of plans.
const (
	// giveBack takes back what receipts say. On each rule.
	giveBack Op = 9
	// wantsReceipts, added to a take, has it answer receipts too, and before
	// its answers those of a look.
	wantsReceipts = 16
)

// The first byte of a receipt; lua/plan.lua has the flags.
const receiptSize = 1 + 6 + 7 + 6

// pack appends the receipt's numbers.
func (r *receipt) pack(n *numbers) {
	n.add(r.flags)
	n.add(r.a)
	n.add(r.b)
	n.add(r.c)
}

// receipts reads those of n rules; nil where nothing was counted.
func (r *reader) receipts(n int) []receipt {
	if r.uint(1) == 0 || r.bad {
		return nil
	}
	list := make([]receipt, n)
	for i := range list {
		list[i] = receipt{int64(r.uint(1)), int64(r.uint(6)), int64(r.uint(7)), int64(r.uint(6))}
	}
	return list
}

// skipReceipts passes those of n rules over.
func (r *reader) skipReceipts(n int) {
	if r.uint(1) == 1 {
		r.skip(n * receiptSize)
	}
}

// readTaken fills looked and a with the answers to the call's sets, before it
// counted and after, and returns the receipts; nil where it counted nothing.
func (c *call) readTaken(looked, a *Answers) ([]receipt, error) {
	r := reader{rest: c.answer.sets}
	a.Now = c.answer.now
	for _, answers := range []*Answers{looked, a} {
		answers.reset(len(c.plan.Sets))
		for i := range c.plan.Sets {
			r.answer(&answers.Sets[i], c.plan.Sets[i].Rules)
		}
	}
	list := r.receipts(len(c.keys))
	a.Now = c.answer.now
	return list, r.err()
}
