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

// day is a stretch of time with one local date.
type day struct {
	zone     *time.Location
	from, to int64 // ms since the epoch; to is outside
}

// dayOf is the day of zone that now belongs to.
func dayOf(zone *time.Location, now int64) day {
	from := now - longestDay
	for {
		to := dayEnd(zone, from)
		if to > now {
			return day{zone, from, to}
		}
		from = to
	}
}

// calendar knows the days that were last asked for: they rarely change, and
// to find one takes a microsecond. Its zero value is ready.
type calendar struct {
	known atomic.Pointer[[]day]
}

// maxZones bounds the zones that a calendar knows. A reload may bring the same
// zone as another Location, so they come and go.
const maxZones = 8

// day is the day of zone that now belongs to.
func (c *calendar) day(zone *time.Location, now int64) day {
	known := c.known.Load()
	if known != nil {
		for _, d := range *known {
			if d.zone == zone && d.from <= now && now < d.to {
				return d
			}
		}
	}
	found := dayOf(zone, now)
	next := make([]day, 1, maxZones)
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
