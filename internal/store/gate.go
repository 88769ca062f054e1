package store

import "sync/atomic"

// everyCall is the share of a gate that is open: so many calls of everyCall
// pass.
const everyCall = 16

// gate says which share of the calls asks Redis, and how often Redis has been
// left alone so far, so that a call can tell whether it began before the last
// time. Both are one number: a call looks once. The zero value is closed.
type gate struct{ value atomic.Uint64 }

// look returns how often Redis was left alone, and how many calls of everyCall
// ask it now.
func (g *gate) look() (absences, share uint32) {
	v := g.value.Load()
	return uint32(v >> 32), uint32(v)
}

// open lets every call through.
func (g *gate) open() { g.value.Store(g.value.Load()&^uint64(1<<32-1) | everyCall) }

// close lets no call through, and counts an absence more. One closes it at a
// time.
func (g *gate) close() {
	absences, _ := g.look()
	g.value.Store(uint64(absences+1) << 32)
}

// widen lets so many calls of everyCall through, unless the gate was closed
// since there were so many absences.
func (g *gate) widen(absences, share uint32) bool {
	v := g.value.Load()
	return uint32(v>>32) == absences && g.value.CompareAndSwap(v, uint64(absences)<<32|uint64(share))
}
