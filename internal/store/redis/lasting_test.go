package redis_test

import (
	"testing"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// TestBansAreRemembered checks that refusals by a ban come from memory until it ends,
// for weights of which other refusals are not remembered.
func TestBansAreRemembered(t *testing.T) {
	for name, r := range map[string]store.Rule{
		"count": {Subject: []byte("u"), Return: 1, Method: store.Count, Time: 60, Count: 3, Ban: 1},
		"leak":  {Subject: []byte("u"), Return: 2, Method: store.Leak, Time: 60, Count: 3, Ban: 1},
	} {
		p := openPair(t, storetest.StartServer(t))
		r.Weight = 2
		for _, at := range []int64{-1, 0, 1} { // the second opens it, the third is remembered
			p.do(p.remembering, store.Take, at, r)
		}
		for _, at := range []int64{2, 500, 999} {
			want := p.do(p.plain, store.Take, at, r)
			if !p.fromMemory(func() {
				if got := p.do(p.remembering, store.Take, at, r); !got.Sets[0].Banned || got.Sets[0].Retry != want.Sets[0].Retry || got.Sets[0].Reset != want.Sets[0].Reset {
					t.Errorf("%s, after %d ms: %+v from memory, want %+v", name, at, got.Sets[0], want.Sets[0])
				}
			}) {
				t.Errorf("%s: after %d ms the ban is not remembered", name, at)
			}
		}
		if got := p.do(p.remembering, store.Take, 1000, r); got.Sets[0].Decider >= 0 {
			t.Errorf("%s: refused after the ban: %+v", name, got.Sets[0])
		}
	}
}

// TestOverdraftsAreNeverRefusedFromMemory checks that each refused weight is recorded.
func TestOverdraftsAreNeverRefusedFromMemory(t *testing.T) {
	p := openPair(t, storetest.StartServer(t))
	above := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Count, Weight: 1, Time: 60, Count: 1, Overdraft: true}
	decider := store.Rule{Subject: []byte("u"), Return: 2, Method: store.Count, Weight: 1, Time: 60}
	above.Count = 1000
	if p.fromMemory(func() {
		for range 20 {
			p.do(p.remembering, store.Take, 0, above, decider)
		}
	}) {
		t.Error("a refusal came from memory")
	}
	if got := p.do(p.plain, store.Peek, 0, above); got.Sets[0].Hits != 20 {
		t.Errorf("%d hits are recorded, want 20", got.Sets[0].Hits)
	}
}
