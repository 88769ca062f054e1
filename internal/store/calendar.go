package store

import (
	"sync/atomic"
	"time"
)

// dayEnd is the first instant later than now at which the local date of zone
// is another, in ms since the epoch. Days of 23 and 25 hours, a midnight that
// is missing and one that comes twice are as long as the clocks on the wall.
func dayEnd(zone *time.Location, now int64) int64 {
	at := time.UnixMilli(now).In(zone)
	year, month, day := at.Date()
	for {
		hour, minute, second := at.Clock()
		midnight := at.Unix() + int64(86400-hour*3600-minute*60-second)
		_, change := at.ZoneBounds()
		if change.IsZero() || midnight < change.Unix() {
			return midnight * 1000
		}
		// The clocks change first: at once to another date, or back before
		// midnight, and the day goes on.
		at = change
		if y, m, d := at.Date(); y != year || m != month || d != day {
			return at.UnixMilli()
		}
	}
}

// longestDay is more than any day lasts: the clocks of a zone that changed
// its side of the date line showed one date for two days.
const longestDay = 50 * 3600 * 1000

// days are some days of a zone in a row: a day lasts from its begin to the
// next one, which is outside. The one asked for begins at begins[1].
type days struct {
	zone   *time.Location
	begins [4]int64 // ms since the epoch
}

// daysAround are the day of zone that now belongs to, the one before it and
// the one after.
func daysAround(zone *time.Location, now int64) days {
	d := days{zone: zone}
	d.begins[2] = dayEnd(zone, now-2*longestDay)
	for d.begins[2] <= now {
		d.begins[0], d.begins[1] = d.begins[1], d.begins[2]
		d.begins[2] = dayEnd(zone, d.begins[2])
	}
	d.begins[3] = dayEnd(zone, d.begins[2])
	return d
}

// calendar knows the days that were last asked for: they rarely change, and
// to find them takes microseconds. Its zero value is ready.
type calendar struct {
	known atomic.Pointer[[]days]
}

// maxZones bounds the zones that a calendar knows. A reload may bring the same
// zone as another Location, so they come and go.
const maxZones = 8

// days are those around now.
func (c *calendar) days(zone *time.Location, now int64) days {
	known := c.known.Load()
	if known != nil {
		for _, d := range *known {
			if d.zone == zone && d.begins[1] <= now && now < d.begins[2] {
				return d
			}
		}
	}
	found := daysAround(zone, now)
	next := make([]days, 1, maxZones)
	next[0] = found
	if known != nil {
		for _, d := range *known {
			if d.zone != zone && len(next) < maxZones {
				next = append(next, d)
			}
		}
	}
	c.known.Store(&next) // a lost race costs another look, never a wrong day
	return found
}

// daily tells whether the rule asks for the calendar.
func (r *Rule) daily() bool {
	return r.Method == Base || r.Method == Count && r.Time == Day
}

// daily tells whether a rule of the plan asks for the calendar.
func (p *Plan) daily() bool {
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			if p.Sets[i].Rules[j].daily() {
				return true
			}
		}
	}
	return false
}
