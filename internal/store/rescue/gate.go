package rescue

import "sync/atomic"

// everyCall is the share of an open gate. Shares are numbers of calls that pass
// out of everyCall.
const everyCall = 16

// gate holds the share of the calls that go to the shared store, and the number
// of absences: how often the gate was closed. A call compares absences to find
// out whether it began before the last one. Both are one number, so that a call
// needs a single load. The zero value is closed.
type gate struct{ value atomic.Uint64 }

// load returns the number of absences and the current share.
func (g *gate) load() (absences, share uint32) {
	v := g.value.Load()
	return uint32(v >> 32), uint32(v)
}

// open lets every call pass.
func (g *gate) open() { g.value.Store(g.value.Load()&^uint64(1<<32-1) | everyCall) }

// close lets no call pass and counts an absence. Calls of close must not
// overlap.
func (g *gate) close() {
	absences, _ := g.load()
	g.value.Store(uint64(absences+1) << 32)
}

// widen sets the share, unless the gate was closed since that number of
// absences. It reports whether it did.
func (g *gate) widen(absences, share uint32) bool {
	v := g.value.Load()
	return uint32(v>>32) == absences && g.value.CompareAndSwap(v, uint64(absences)<<32|uint64(share))
}
