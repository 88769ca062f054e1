package memory

import "github.com/koalagate/koalagate/internal/store"

// daily is the counter of a base rule: today's hits, and the second window,
// which counts each hit that raises today's number to base or above.
type daily struct {
	today  window
	second window
}

// split divides the hits of the rule's weight. need is the number of hits above the free
// ones: they must fit into the second window. counting is the number of hits that the
// second window counts: need, and the last free hit of the day.
func (d *daily) split(r *store.Rule, now int64) (need, counting int64) {
	free := max(r.Base-d.today.hitsAt(now), 0)
	need = max(r.Weight-free, 0)
	counting = need
	if free > 0 && r.Weight >= free {
		counting++
	}
	return need, counting
}

func (d *daily) read(r *store.Rule, t *moment, got *reading) {
	need, counting := d.split(r, t.now)
	today, second := d.today.hitsAt(t.now), d.second.hitsAt(t.now)
	*got = reading{
		admits: need == 0 || counting <= r.Count-second,
		retry:  d.second.end - t.now,
		hits:   today,
	}
	// More hits than count fit into no window, not even an empty one.
	if counting > r.Count {
		got.retry = never
	}
	if today < r.Base {
		end := d.today.end
		if !d.today.isOpen(t.now) {
			end = t.dayEnd()
		}
		got.daily = true
		got.limit, got.remaining, got.reset = r.Base, r.Base-today, end-t.now
		return
	}
	got.limit, got.remaining, got.reset = r.Count, max(r.Count-second, 0), r.Time*1000
	if d.second.isOpen(t.now) {
		got.reset = d.second.end - t.now
	}
}

func (d *daily) add(r *store.Rule, t *moment) {
	if r.Weight == 0 {
		return
	}
	_, counting := d.split(r, t.now)
	if !d.today.isOpen(t.now) {
		d.today.open(t.now, t.dayEnd())
	}
	d.today.count(r.Weight)
	if counting == 0 {
		return
	}
	if !d.second.isOpen(t.now) {
		d.second.open(t.now, t.now+r.Time*1000)
	}
	d.second.count(counting)
}

func (d *daily) refund(r *store.Rule, t *moment) {
	d.today.subtract(r.Weight, t.now)
	d.second.subtract(r.Weight, t.now)
}

func (d *daily) banned(int64) bool { return false }

func (d *daily) ban(int64) {}

// amend does not concern base rules, which have no settle.
func (d *daily) amend(*taken, int64, *moment) {}

func (d *daily) giveBack(c *taken, t *moment) {
	d.today.takeBack(&c.window, t.now)
	d.second.takeBack(&c.second, t.now)
}

func (d *daily) save(s *saved)    { s.daily = *d }
func (d *daily) restore(s *saved) { *d = s.daily }
func (d *daily) clone() counter   { return new(*d) }

func (d *daily) taken(c *taken, before *saved, _ *moment) {
	c.window, c.second = before.daily.today.counted(&d.today), before.daily.second.counted(&d.second)
}

func (d *daily) untaken(*taken, *moment) {}

func (d *daily) until() int64 { return max(d.today.end, d.second.end) }
