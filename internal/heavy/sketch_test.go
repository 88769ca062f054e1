package heavy

import (
	"hash/maphash"
	"math/rand"
	"strconv"
	"testing"
	"time"

	"github.com/koalagate/koalagate/rules"
)

// The bounds of a sketch hold for samples of one of eight calls as for all calls, and
// those of the heaviest identities differ by at most 1 % of the calls.
func TestBoundsOfSamples(t *testing.T) {
	const (
		calls    = 1_000_000
		exponent = 3
	)
	c := newCrowd(t)
	random := rand.New(rand.NewSource(1))
	zipf := rand.NewZipf(random, 1.05, 1, 1_000_000)
	s := newSketch(maphash.MakeSeed())
	exact := make(map[string]int64)
	for range calls {
		identity := strconv.FormatUint(zipf.Uint64(), 10)
		exact[identity]++
		if random.Intn(1<<exponent) == 0 {
			s.add(c.set.Rules[0], "koala", []byte(identity), exponent)
		}
	}
	wrong, worst := 0, int64(0)
	for _, one := range s.top.Sorted() {
		n := exact[string(one.Value.identity)]
		delete(exact, string(one.Value.identity))
		if n < least(one) || n > most(one) {
			wrong++
		}
		if n > calls/1000 {
			worst = max(worst, most(one)-least(one))
		}
	}
	if wrong > len(s.top.Sorted())/200 {
		t.Errorf("%d of %d bounds are wrong", wrong, len(s.top.Sorted()))
	}
	if worst == 0 || worst > calls/100 {
		t.Errorf("the bounds of the heaviest identities differ by %d of %d calls", worst, calls)
	}
	for identity, n := range exact {
		if n > s.most() {
			t.Errorf("%s has %d calls and no counter; want at most %d", identity, n, s.most())
		}
	}
}

// Callers append a sample while calls of a kind are many, and all calls of the other
// kinds, and again all when they are few.
func TestSamplesWhileCallsAreMany(t *testing.T) {
	c := newCrowd(t)
	r := c.recorder(nil)
	one, err := c.set.Rule(201).Identify(rules.MakeParams(map[string]string{"uid": "ann"}))
	if err != nil {
		t.Fatal(err)
	}
	const calls = 10 * maxCounted
	interval := func(k Kind, n int) (appended int) {
		for range n {
			r.Add(k, "koala", []rules.Match{one})
		}
		for i := range r.lanes {
			appended += len(r.lanes[i].calls)
		}
		r.empty()
		r.adapt()
		return appended
	}
	if n := interval(Admitted, calls); n != calls {
		t.Errorf("%d calls of the first interval; want %d", n, calls)
	}
	for range 5 {
		if n := interval(Admitted, calls); n < maxCounted/4 || n > 2*maxCounted {
			t.Errorf("a sample of %d calls has %d; want about %d", calls, n, calls/16)
		}
	}
	if n := interval(Refused, 100); n != 100 {
		t.Errorf("%d refused calls; want 100", n)
	}
	rows, _ := r.Top(t.Context(), Question{By: Admitted})
	if len(rows) != 1 || rows[0].Refused != 100 || rows[0].Error > calls ||
		6*calls < rows[0].Admitted-rows[0].Error || 6*calls > rows[0].Admitted+2*rows[0].Error { // the bounds hold with 99.7 % only
		t.Errorf("%+v; want about %d admitted calls", rows, 6*calls)
	}
	c.now = c.now.Add(time.Minute)
	for range maxExponent {
		interval(Admitted, 1)
	}
	if n := interval(Admitted, 3); n != 3 {
		t.Errorf("%d calls after the flood; want 3", n)
	}
}
