package memory

import (
	"container/heap"
	"math"
	"sync"
	"sync/atomic"

	"github.com/koalagate/koalagate/internal/store"
)

// receipts are the records of takes that can be settled, in shards with locks of their
// own. A lock of a shard is taken after the locks of counters, if at all.
type receipts struct {
	most    int64
	open    atomic.Int64
	expired atomic.Uint64
	turn    atomic.Uint32 // the shard that is swept next
	shards  [shards]receiptShard
}

// receiptShard is the records under one lock.
type receiptShard struct {
	sync.Mutex
	records map[string]*record
	ends    ends
	// first is the instant at which the first record is dropped, so that a call that finds
	// no place locks only shards in which one is due. The zero value is due.
	first atomic.Int64
}

// note updates first after a change of ends.
func (s *receiptShard) note() {
	first := int64(math.MaxInt64)
	if len(s.ends) > 0 {
		first = s.ends[0].until + linger
	}
	s.first.Store(first)
}

// ends is a heap of the records that are kept, the first to expire first.
type ends []*record

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].until < e[j].until }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i]; e[i].place, e[j].place = i, j }

// Push is for package heap.
func (e *ends) Push(x any) {
	r := x.(*record)
	r.place = len(*e)
	*e = append(*e, r)
}

// Pop is for package heap.
func (e *ends) Pop() any {
	last := len(*e) - 1
	r := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return r
}

// shard returns the shard of a receipt, from two of its random characters.
func (t *receipts) shard(receipt string) *receiptShard {
	return &t.shards[(uint(receipt[1])*64+uint(receipt[2]))%shards]
}

// reserve takes a place for a receipt, or returns false. It first drops receipts that have
// expired. add uses the place, and release gives it back.
func (t *receipts) reserve(now int64) bool {
	if t.open.Add(1) <= t.most {
		return true
	}
	for i := range t.shards {
		s := &t.shards[i]
		if s.first.Load() > now {
			continue
		}
		s.Lock()
		t.drop(s, now)
		s.Unlock()
	}
	if t.open.Load() <= t.most {
		return true
	}
	t.release()
	return false
}

// release gives back a place that reserve took.
func (t *receipts) release() { t.open.Add(-1) }

// add keeps the record under its receipt, in the place that was reserved.
func (t *receipts) add(r *record, now int64) {
	s := t.shard(r.receipt)
	s.Lock()
	defer s.Unlock()
	t.drop(s, now)
	if s.records == nil {
		s.records = make(map[string]*record)
	}
	s.records[r.receipt] = r
	heap.Push(&s.ends, r)
	s.note()
}

// drop drops the records of the shard that have expired.
func (t *receipts) drop(s *receiptShard, now int64) {
	for len(s.ends) > 0 && s.ends[0].until+linger <= now {
		r := heap.Pop(&s.ends).(*record)
		delete(s.records, r.receipt)
		t.open.Add(-1)
		t.expired.Add(1)
	}
	s.note()
}

// sweep drops the records of the next shard that have expired.
func (t *receipts) sweep(now int64) {
	if t.open.Load() == 0 {
		return
	}
	s := &t.shards[t.turn.Add(1)%shards]
	s.Lock()
	defer s.Unlock()
	t.drop(s, now)
}

// find returns the record of a receipt, nil if there is none.
func (t *receipts) find(receipt string) *record {
	if !store.KeptBy(store.KeptInProcess, receipt) {
		return nil
	}
	s := t.shard(receipt)
	s.Lock()
	defer s.Unlock()
	return s.records[receipt]
}

// remove drops a record that was spent.
func (t *receipts) remove(r *record) {
	if r.receipt == "" {
		return
	}
	s := t.shard(r.receipt)
	s.Lock()
	defer s.Unlock()
	if s.records[r.receipt] == r {
		delete(s.records, r.receipt)
		heap.Remove(&s.ends, r.place)
		s.note()
		t.open.Add(-1)
	}
}

// extend makes a record expire later.
func (t *receipts) extend(r *record, until int64) {
	s := t.shard(r.receipt)
	s.Lock()
	defer s.Unlock()
	if r.until = until; s.records[r.receipt] == r {
		heap.Fix(&s.ends, r.place)
		s.note()
	}
}

// clear forgets all records.
func (t *receipts) clear() {
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		t.open.Add(-int64(len(s.ends)))
		s.records, s.ends = nil, nil
		s.note()
		s.Unlock()
	}
}

// Receipts returns the number of receipts that are kept, and the number of receipts
// that expired before they were settled.
func (m *Store) Receipts() (open int, expired uint64) {
	return int(m.receipts.open.Load()), m.receipts.expired.Load()
}
