package memory

import "github.com/koalagate/koalagate/internal/store"

// daily is the counter of a base rule: today's hits, and the second window,
// which counts every hit that brings today's number to base or above.
type daily struct {
	today  window
	second window
}

// split tells how the weight falls, hit by hit: how many of its hits find base
// hits today and need room in the second window, and how many count there.
// These are the former and the hit that brings today's number to base.
func (d *daily) split(r *store.Rule, now int64) (need, counting int64) {
	free := max(r.Base-d.today.counted(now), 0)
	need = max(r.Weight-free, 0)
	counting = need
	if free > 0 && r.Weight >= free {
		counting++
	}
	return need, counting
}

func (d *daily) look(r *store.Rule, t moment) reading {
	need, counting := d.split(r, t.now)
	today, second := d.today.counted(t.now), d.second.counted(t.now)
	got := reading{
		admits: need == 0 || second+counting <= r.Count,
		retry:  d.second.end - t.now,
		hits:   today,
	}
	// A closed second window that refuses can never admit as much.
	if counting > r.Count {
		got.retry = Never
	}
	if today < r.Base {
		end := t.dayEnd
		if d.today.open(t.now) {
			end = d.today.end
		}
		got.daily = true
		got.limit, got.remaining, got.reset = r.Base, r.Base-today, end-t.now
		return got
	}
	got.limit, got.remaining, got.reset = r.Count, max(r.Count-second, 0), r.Time*1000
	if d.second.open(t.now) {
		got.reset = d.second.end - t.now
	}
	return got
}

func (d *daily) add(r *store.Rule, t moment) {
	_, counting := d.split(r, t.now)
	d.today.put(r.Weight, t.now, t.dayEnd)
	d.second.put(counting, t.now, t.now+r.Time*1000)
}

func (d *daily) refund(r *store.Rule, t moment) {
	d.today.take(r.Weight, t.now)
	d.second.take(r.Weight, t.now)
}

func (d *daily) until() int64 { return max(d.today.end, d.second.end) }
