package lease

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math"
	"time"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// part is what this instance holds of the limit of a counter. Its shard's lock guards it.
type part struct {
	rule store.Rule // with thresholds, and a subject of its own
	name string

	held  int64         // hits that can be spent
	until time.Duration // when they end, by the clock of the store
	// The part in Redis: its era, its end there, and the hits that are recorded as
	// unspent; 0 hits if that is unknown.
	era, ends, recorded int64

	asked  time.Duration // when the last request was sent
	asking bool          // a request is under way
	pause  time.Duration // no request before
	sent   int           // number of requests
	gone   bool          // it is forgotten

	state  store.Grant   // the last one
	stated time.Duration // when its request was sent

	taken int64         // weights of takes since asked
	rate  float64       // of weights per nanosecond
	used  time.Duration // the last take
}

// The part of the own rate that a part is sized for, and how soon requests are repeated
// that got nothing.
const (
	ahead     = 50 * time.Millisecond
	afterNone = 50 * time.Millisecond
	afterFail = 250 * time.Millisecond
)

// maxName is enough for most names without an allocation.
const maxName = 288

// appendName appends the name of a rule's counter.
func appendName(b []byte, r *store.Rule) []byte {
	return append(binary.AppendUvarint(b, uint64(r.Tag())), r.Subject...)
}

// at returns the shard of a name, and the name's hash.
func (s *Store) at(name []byte) (*shard, uint64) {
	hash := maphash.Bytes(s.hash, name)
	return &s.shards[hash%shardCount], hash
}

// concerns reports whether the part is one of the rule's limit: the thresholds of a rule
// differ after a reload, under an exception, and by parameters.
func (p *part) concerns(r *store.Rule) bool {
	q := &p.rule
	return q.Count == r.Count && q.Burst == r.Burst && q.Time == r.Time && q.Unit == r.Unit && q.From == r.From &&
		q.Lease == r.Lease && q.Ban == r.Ban
}

// adopt makes an empty part one of the rule's limit.
func (p *part) adopt(r *store.Rule) {
	subject := p.rule.Subject
	if !bytes.Equal(subject, r.Subject) {
		subject = bytes.Clone(r.Subject)
	}
	p.rule = *r
	p.rule.Subject, p.rule.Weight = subject, 0
}

// refills reports whether the part is one of a bucket, which Redis fills again with what
// the part held once it has ended.
func (p *part) refills() bool { return method.Of(p.rule.Method).Refills }

// limit returns the limit of the part's counter.
func (p *part) limit() int64 {
	if p.refills() {
		return p.rule.Burst
	}
	return p.rule.Count
}

// most returns the largest number of hits that instances may hold together. For a bucket it
// is half the share, because a bucket may lose as much refill as instances hold.
func (p *part) most() int64 {
	if p.refills() {
		return p.share() / 2
	}
	return p.share()
}

// share returns the share of the limit by which calls may be refused early.
func (p *part) share() int64 {
	limit := p.limit()
	return limit/1000*p.rule.Lease + limit%1000*p.rule.Lease/1000
}

// admits reports whether the part has the weight of a rule. Weight 0 needs a hit, too:
// without one, an update may have filled the counter.
func (p *part) admits(r *store.Rule, now time.Duration) bool {
	return now < p.until && p.held >= max(r.Weight, 1) && p.concerns(r)
}

// remaining returns what is left of the limit, as far as this instance knows, and when
// the counter is as new, in ms.
func (p *part) remaining(now time.Duration) (left, reset int64) {
	passed := max(now-p.stated, 0).Milliseconds() // the caller may have read its clock before the grant
	left, reset = p.state.Remaining, p.state.Reset
	if !p.refills() {
		return left + p.held, max(reset-passed, 0)
	}
	limit, perToken := p.limit(), float64(p.rule.Time)*1000/float64(max(p.rule.Count, 1))
	refilled := min(float64(passed)/perToken, float64(limit))
	left = min(left+int64(refilled)+p.held, limit)
	return left, int64(math.Ceil(float64(limit-left) * perToken))
}

// want returns how many hits the part should hold for the next 50 ms, by the rate since
// the last request. It begins a new measurement.
func (p *part) want(now time.Duration) int64 {
	rate := float64(p.taken) / float64(max(now-p.asked, time.Millisecond))
	if p.rate > 0 {
		rate = (rate + p.rate) / 2
	}
	p.rate, p.taken = rate, 0
	return min(int64(math.Ceil(rate*float64(ahead))), p.most())
}

// low reports whether it is time to ask for more.
func (p *part) low(now time.Duration) bool {
	return !p.asking && now >= p.pause && (p.held*2 <= p.recorded || now >= p.until)
}

// holds reports whether Redis must hear of the part: it holds hits, or has spent hits that
// are recorded as unspent.
func (p *part) holds() bool { return p.held > 0 || p.recorded > 0 }
