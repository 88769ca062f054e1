package redis

import (
	"bytes"
	"hash/maphash"
	"sync"

	"github.com/koalagate/koalagate/internal/store"
)

// descriptions remembers the descriptions of receipts that takes of this process made, so
// that a settlement by the same process need not read the receipt first. What is forgotten
// is read from Redis. It is safe for concurrent use.
type descriptions struct {
	seed   maphash.Seed
	shards [descriptionShards]descriptionShard
	sets   uint64 // of descriptionWays entries, in each shard
}

const (
	// DefaultReceipts is the default number of remembered receipts. They take some
	// megabytes.
	DefaultReceipts = 1 << 14
	// descriptionShards is the number of locks.
	descriptionShards = 64
	// descriptionWays is the number of places for one receipt. If all are taken, it
	// takes the place of the oldest.
	descriptionWays = 4
	// usualDescription and maxDescription are the memory of an entry that is allocated in
	// advance, and its bound, in bytes.
	usualDescription = 64
	maxDescription   = 512
)

type descriptionShard struct {
	sync.Mutex
	entries []description // nil until a take makes a receipt
}

// description is an entry of descriptions.
type description struct {
	tag, id string // of the receipt; the id is "" if there is no entry
	taken   int64  // in ms, by the clock of the take
	text    []byte
}

// newDescriptions returns descriptions with room for about n receipts; nil for none.
func newDescriptions(n int) *descriptions {
	if n <= 0 {
		return nil
	}
	const parts = descriptionShards * descriptionWays
	return &descriptions{seed: maphash.MakeSeed(), sets: uint64((n + parts - 1) / parts)}
}

// RememberReceipt remembers the receipt of a take with these answers.
func (e *Evaluator) RememberReceipt(c *Call, a *store.Answers) {
	if e.receipts != nil && len(c.description) <= maxDescription {
		e.receipts.remember(c.tag, idOf(c.receipt), a.Now, c.description)
	}
}

// remember adds the receipt of a take, whose clock was taken.
func (d *descriptions) remember(tag, id string, taken int64, text []byte) {
	shard, first := d.place(tag, id)
	shard.Lock()
	defer shard.Unlock()
	if shard.entries == nil {
		shard.fill(int(d.sets) * descriptionWays)
	}
	ways := shard.entries[first:][:descriptionWays]
	to := &ways[0]
	for i := range ways {
		if way := &ways[i]; way.id == "" || to.id != "" && way.taken < to.taken {
			to = way
		}
	}
	to.tag, to.id, to.taken, to.text = tag, id, taken, append(to.text[:0], text...)
}

// fill makes n empty entries.
func (s *descriptionShard) fill(n int) {
	s.entries = make([]description, n)
	texts := make([]byte, n*usualDescription)
	for i := range s.entries {
		s.entries[i].text = texts[:0:usualDescription]
		texts = texts[usualDescription:]
	}
}

// recall returns the description of a receipt and the clock of its take; nil if it is not
// remembered. A receipt that is about to be spent is forgotten.
func (d *descriptions) recall(tag, id string, spends bool) (text []byte, taken int64) {
	if d == nil {
		return nil, 0
	}
	shard, first := d.place(tag, id)
	shard.Lock()
	defer shard.Unlock()
	if shard.entries == nil {
		return nil, 0
	}
	ways := shard.entries[first:][:descriptionWays]
	for i := range ways {
		way := &ways[i]
		if way.id != id || way.tag != tag {
			continue
		}
		text = bytes.Clone(way.text)
		if spends {
			way.id = ""
		}
		return text, way.taken
	}
	return nil, 0
}

// place returns the shard of a receipt and the position of its ways.
func (d *descriptions) place(tag, id string) (shard *descriptionShard, first uint64) {
	h := maphash.String(d.seed, id) + 31*maphash.String(d.seed, tag)
	return &d.shards[h%descriptionShards], h / descriptionShards % d.sets * descriptionWays
}
