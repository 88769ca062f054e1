package operations

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// Refusals remembers the last refusals of identities. Its memory is bounded: identities
// share 8192 places, and a new one replaces the identity that was there. So a crowd of
// refused identities takes places at random, but a single one, however often it is
// refused, takes only its own.
type Refusals struct {
	seed   maphash.Seed
	now    func() time.Time
	shards [refusalShards]refusalShard
	banned bannedMemory
}

const (
	refusalShards = 32
	refusalPlaces = 256 // in a shard
	refusalsKept  = 5   // of an identity
)

type refusalShard struct {
	sync.Mutex
	places *[refusalPlaces]refusalPlace // nil before the first refusal
}

// refusalPlace holds the last refusals of one identity, as a ring.
type refusalPlace struct {
	key  uint64 // hash of rule and identity; 0 for an empty place
	next int
	list [refusalsKept]refusal
}

type refusal struct {
	at   int64 // ms since the epoch
	door string
}

// Refusal is a refusal of an identity.
type Refusal struct {
	At   time.Time `json:"at"`
	Door string    `json:"door"`
	Rule int64     `json:"rule"`
}

// NewRefusals returns an empty memory.
func NewRefusals() *Refusals {
	return &Refusals{seed: maphash.MakeSeed(), now: time.Now}
}

// Observe remembers the refusal of an input, if a counting rule decided.
func (r *Refusals) Observe(c *engine.Call, matches []rules.Match, a *engine.Answer) {
	if a.Decider == nil || !a.Decider.Counts() {
		return
	}
	for i := range matches {
		if matches[i].Rule == a.Decider {
			r.add(c.Door, &matches[i])
			if a.Decider.Ban > 0 {
				r.banned.add(r.key(&matches[i]), c.Door, &matches[i])
			}
		}
	}
}

func (r *Refusals) add(door string, m *rules.Match) {
	key := r.key(m)
	shard := r.shard(key)
	shard.Lock()
	defer shard.Unlock()
	if shard.places == nil {
		shard.places = new([refusalPlaces]refusalPlace)
	}
	place := shard.place(key)
	if place.key != key {
		*place = refusalPlace{key: key}
	}
	place.list[place.next] = refusal{r.now().UnixMilli(), door}
	place.next = (place.next + 1) % refusalsKept
}

// Of returns the last refusals of the identity of a match by its rule, the latest
// first.
func (r *Refusals) Of(m *rules.Match) []Refusal {
	key := r.key(m)
	shard := r.shard(key)
	shard.Lock()
	defer shard.Unlock()
	if shard.places == nil {
		return nil
	}
	place := shard.place(key)
	if place.key != key {
		return nil
	}
	var list []Refusal
	for i := range refusalsKept {
		one := place.list[(place.next+i)%refusalsKept]
		if one.at != 0 {
			list = append(list, Refusal{time.UnixMilli(one.at).UTC(), one.door, m.Rule.Return})
		}
	}
	slices.Reverse(list)
	return list
}

// key returns the hash of a rule and an identity, never 0.
func (r *Refusals) key(m *rules.Match) uint64 {
	const golden = 0x9e3779b97f4a7c15
	return (maphash.Bytes(r.seed, m.Identity) ^ uint64(m.Rule.Return)*golden) | 1
}

func (r *Refusals) shard(key uint64) *refusalShard { return &r.shards[key>>1%refusalShards] }

// place returns the place of a key. The shard has places, and is locked.
func (s *refusalShard) place(key uint64) *refusalPlace { return &s.places[key>>8%refusalPlaces] }
