package memory

import (
	"math/rand/v2"
	"testing"

	"github.com/koalagate/koalagate/internal/store"
)

// TestHoldsAsAList compares holds of many identical and different ends with a plain list
// of them.
func TestHoldsAsAList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, spread := range []int64{3, 1000, 1_000_000} {
		h, list, now := new(holds), []held(nil), int64(1_000_000)
		for i := range 3000 {
			now += random.Int64N(5) - 1
			switch one := (held{now + 1 + random.Int64N(spread), 1 + random.Int64N(4)}); random.IntN(5) {
			case 0, 1, 2:
				h.insert(one)
				list = append(list, one)
			case 3:
				if len(list) == 0 {
					continue
				}
				who := random.IntN(len(list))
				if got := h.release(list[who]); got != list[who].n && list[who].until > now {
					t.Fatalf("%d of %+v were released", got, list[who])
				}
				list[who] = list[len(list)-1]
				list = list[:len(list)-1]
			case 4:
				h.prune(now)
				list = living(list, now)
			}
			if i%7 == 0 || len(list) < 50 {
				compareHolds(t, h, living(list, now), now, random.Int64N(50))
			}
		}
	}
}

// living returns the holds that have not ended.
func living(list []held, now int64) (left []held) {
	for _, one := range list {
		if one.until > now {
			left = append(left, one)
		}
	}
	return left
}

func compareHolds(t *testing.T, h *holds, list []held, now, free int64) {
	t.Helper()
	sum, last := int64(0), int64(0)
	for _, one := range list {
		sum, last = sum+one.n, max(last, one.until)
	}
	// A rule that has room for free of what is asked for.
	r := store.Rule{Method: store.Hold, Time: 60, Count: max(sum, 1), Weight: max(min(free, sum), 1)}
	var got reading
	h.read(&r, &moment{now: now}, &got)
	if got.hits != sum {
		t.Fatalf("%d is held, want %d", got.hits, sum)
	}
	if sum == 0 {
		if got.reset != 0 || !got.admits {
			t.Fatalf("nothing is held, and %+v", got)
		}
		return
	}
	// The instant at which enough have ended, tried from the ends.
	retry := int64(never)
	for _, end := range list {
		if left := living(list, end.until); sumOf(left)+r.Weight <= r.Count && (retry < 0 || end.until-now < retry) {
			retry = end.until - now
		}
		if len(list) > 200 {
			retry = got.retry // too many to try
			break
		}
	}
	if got.admits || got.retry != retry || got.reset != last-now {
		t.Fatalf("%+v, want a retry of %d and a reset of %d", got, retry, last-now)
	}
}

func sumOf(list []held) (n int64) {
	for _, one := range list {
		n += one.n
	}
	return n
}

// TestSeededHoldsRefuseAsTold checks that holds refuse for as long as another store
// stated.
func TestSeededHoldsRefuseAsTold(t *testing.T) {
	r := store.Rule{Method: store.Hold, Time: 60, Count: 10, Weight: 3}
	h, at := new(holds), &moment{now: 1000}
	h.seed(&r, &store.Answer{Limit: 10, Remaining: 1, Reset: 500, Retry: 200}, at)
	var got reading
	h.read(&r, at, &got)
	if got.admits || got.remaining != 1 || got.retry != 200 || got.reset != 500 {
		t.Errorf("seeded: %+v", got)
	}
	h.raise(&r, &state{hits: 10, until: 2000}, at)
	if h.read(&r, at, &got); got.remaining != 0 || got.reset != 1000 {
		t.Errorf("raised: %+v", got)
	}
}

// BenchmarkHold takes and frees a hold among 100,000 of one identity, in a random order.
func BenchmarkHold(b *testing.B) {
	h, now := new(holds), int64(1_000_000)
	r := store.Rule{Method: store.Hold, Time: 600, Count: 100_000, Weight: 1}
	random := rand.New(rand.NewPCG(1, 2))
	list := make([]held, 0, 100_001)
	for i := range 100_000 {
		list = append(list, held{now + 1000 + int64(i), 1})
		h.insert(list[i])
	}
	var got reading
	for b.Loop() {
		h.read(&r, &moment{now: now}, &got)
		now++
		list = append(list, held{now + 600_000, 1})
		h.insert(list[len(list)-1])
		i := random.IntN(len(list))
		h.release(list[i])
		list[i] = list[len(list)-1]
		list = list[:len(list)-1]
	}
}
