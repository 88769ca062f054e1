package store

import (
	"sync/atomic"
	"time"
)

// dayEnd returns the first instant after now at which the local date in zone
// differs, in ms since the epoch. It handles days of 23 and 25 hours, a missing
// midnight and one that occurs twice.
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
		// The clocks change before that midnight: either directly to another
		// date, or within the same date, and the day continues.
		at = change
		if y, m, d := at.Date(); y != year || m != month || d != day {
			return at.UnixMilli()
		}
	}
}

// longestDay is more than any day lasts, in ms: a zone that moved across the
// date line showed one date for two days.
const longestDay = 50 * 3600 * 1000

// Days are three consecutive days of a zone. A day lasts from its beginning up
// to, but not including, the beginning of the next. The requested day begins at
// Begins[1].
type Days struct {
	Zone   *time.Location
	Begins [4]int64 // ms since the epoch
}

// End returns the end of the requested day, in ms since the epoch.
func (d *Days) End() int64 { return d.Begins[2] }

// daysAround returns the day of zone that contains now, the day before it and
// the day after it.
func daysAround(zone *time.Location, now int64) Days {
	d := Days{Zone: zone}
	d.Begins[2] = dayEnd(zone, now-2*longestDay)
	for d.Begins[2] <= now {
		d.Begins[0], d.Begins[1] = d.Begins[1], d.Begins[2]
		d.Begins[2] = dayEnd(zone, d.Begins[2])
	}
	d.Begins[3] = dayEnd(zone, d.Begins[2])
	return d
}

// Calendar caches the last requested days, which rarely change: computing them
// takes microseconds. The zero value is ready to use. It is safe for concurrent
// use.
type Calendar struct {
	cached atomic.Pointer[[]Days]
}

// maxZones is the number of cached zones. A reload may create the same zone as
// a new Location, so old ones are dropped.
const maxZones = 8

// Days returns the days of zone around now.
func (c *Calendar) Days(zone *time.Location, now int64) Days {
	cached := c.cached.Load()
	if cached != nil {
		for _, d := range *cached {
			if d.Zone == zone && d.Begins[1] <= now && now < d.Begins[2] {
				return d
			}
		}
	}
	found := daysAround(zone, now)
	next := make([]Days, 1, maxZones)
	next[0] = found
	if cached != nil {
		for _, d := range *cached {
			if d.Zone != zone && len(next) < maxZones {
				next = append(next, d)
			}
		}
	}
	c.cached.Store(&next) // a lost race costs another computation, never a wrong day
	return found
}

// DayEnd returns the end of the day of zone that contains now, in ms since the
// epoch.
func (c *Calendar) DayEnd(zone *time.Location, now int64) int64 {
	d := c.Days(zone, now)
	return d.End()
}

// UsesCalendar reports whether the rule counts by calendar days.
func (r *Rule) UsesCalendar() bool {
	return r.Method == Base || r.Method == Count && r.Time == Day
}

// UsesCalendar reports whether a rule of the plan counts by calendar days.
func (p *Plan) UsesCalendar() bool {
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			if p.Sets[i].Rules[j].UsesCalendar() {
				return true
			}
		}
	}
	return false
}
