package store

import (
	"sync/atomic"
	"time"
)

// Period is a calendar unit with its beginning.
type Period struct {
	Unit Unit  // Minute … Year
	From uint8 // of Week and Month; see Rule.From
}

// number identifies a unit of the calendar among units of its kind: two local times
// are in one unit if their numbers are equal.
type number [4]int

// number returns the number of the unit that contains the local time at.
func (p Period) number(at time.Time) number {
	year, month, day := at.Date()
	switch p.Unit {
	case Minute:
		return number{year, at.YearDay(), at.Hour(), at.Minute()}
	case Hour:
		return number{year, at.YearDay(), at.Hour()}
	case Week:
		begin := midnight(year, month, day-p.weekday(at))
		return number{int(begin / Day)}
	case Month:
		if day < beginOf(year, month, int(p.From)) {
			month--
		}
		return number{year*12 + int(month)}
	case Year:
		return number{year}
	}
	return number{year, at.YearDay()}
}

// weekday returns the number of days between the beginning of the week and the local
// time at, 0 … 6.
func (p Period) weekday(at time.Time) int {
	first := max(int(p.From), 1) // Monday is 1
	return (int(at.Weekday()) - first + 7) % 7
}

// beginOf returns the day of a month on which a month begins that begins on day from.
func beginOf(year int, month time.Month, from int) int {
	if from <= 28 {
		return max(from, 1)
	}
	return min(from, time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day())
}

// midnight returns the beginning of a day, in seconds since the epoch of a clock that
// shows the local time.
func midnight(year int, month time.Month, day int) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()
}

// left returns the number of seconds from the local time at to the end of its unit,
// if the clocks do not change before.
func (p Period) left(at time.Time) int64 {
	year, month, day := at.Date()
	hour, minute, second := at.Clock()
	var end int64
	switch p.Unit {
	case Minute:
		return int64(60 - second)
	case Hour:
		return int64(3600 - minute*60 - second)
	case Week:
		end = midnight(year, month, day-p.weekday(at)+7)
	case Month:
		begin := beginOf(year, month, int(p.From))
		if day >= begin {
			// The first of the month, because day 31 is not in every month.
			next := time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
			year, month, begin = next.Year(), next.Month(), beginOf(next.Year(), next.Month(), int(p.From))
		}
		end = midnight(year, month, begin)
	case Year:
		end = midnight(year+1, time.January, 1)
	default:
		end = midnight(year, month, day+1)
	}
	year, month, day = at.Date()
	return end - midnight(year, month, day) - int64(hour*3600+minute*60+second)
}

// end returns the first instant after now at which the local unit in zone differs, in
// ms since the epoch. It handles days of 23 and 25 hours, a missing midnight and one
// that occurs twice, and hours that occur twice.
func (p Period) end(zone *time.Location, now int64) int64 {
	at := time.UnixMilli(now).In(zone)
	unit := p.number(at)
	for {
		end := at.Unix() + p.left(at)
		_, change := at.ZoneBounds()
		if change.IsZero() || end < change.Unix() {
			return end * 1000
		}
		// The clocks change before that end: either directly to another unit, or
		// within the same unit, which continues.
		at = change
		if p.number(at) != unit {
			return at.UnixMilli()
		}
	}
}

// longest is more than any unit lasts, in ms: a zone that moved across the date line
// showed one date for two days, and any unit may contain an hour twice.
var longest = [...]int64{
	Minute: 3 * 60_000,
	Hour:   3 * 3600_000,
	Date:   50 * 3600_000,
	Week:   9 * 24 * 3600_000,
	Month:  34 * 24 * 3600_000,
	Year:   369 * 24 * 3600_000,
}

// Span is three consecutive units of a calendar. A unit lasts from its beginning up
// to, but not including, the beginning of the next. The requested unit begins at
// Begins[1].
type Span struct {
	Zone *time.Location
	Period
	Begins [4]int64 // ms since the epoch
}

// End returns the end of the requested unit, in ms since the epoch.
func (s *Span) End() int64 { return s.Begins[2] }

// around returns the unit that contains now, the unit before it and the unit after it.
func (p Period) around(zone *time.Location, now int64) Span {
	s := Span{Zone: zone, Period: p}
	s.Begins[2] = p.end(zone, now-2*longest[p.Unit])
	for s.Begins[2] <= now {
		s.Begins[0], s.Begins[1] = s.Begins[1], s.Begins[2]
		s.Begins[2] = p.end(zone, s.Begins[2])
	}
	s.Begins[3] = p.end(zone, s.Begins[2])
	return s
}

// Calendar caches the last requested spans, which rarely change: computing them
// takes microseconds. The zero value is ready to use. It is safe for concurrent
// use.
type Calendar struct {
	cached atomic.Pointer[[]Span]
}

// maxSpans is the number of cached spans. A reload may create the same zone as a new
// Location, so old ones are dropped.
const maxSpans = 16

// Span returns the units of zone around now.
func (c *Calendar) Span(zone *time.Location, p Period, now int64) Span {
	cached := c.cached.Load()
	if cached != nil {
		for i := range *cached {
			s := &(*cached)[i]
			if s.Zone == zone && s.Period == p && s.Begins[1] <= now && now < s.Begins[2] {
				return *s
			}
		}
	}
	found := p.around(zone, now)
	next := make([]Span, 1, maxSpans)
	next[0] = found
	if cached != nil {
		for _, s := range *cached {
			if (s.Zone != zone || s.Period != p) && len(next) < maxSpans {
				next = append(next, s)
			}
		}
	}
	c.cached.Store(&next) // a lost race costs another computation, never a wrong unit
	return found
}

// End returns the end of the unit of zone that contains now, in ms since the epoch.
func (c *Calendar) End(zone *time.Location, p Period, now int64) int64 {
	s := c.Span(zone, p, now)
	return s.End()
}

// DayEnd returns the end of the day of zone that contains now, in ms since the
// epoch.
func (c *Calendar) DayEnd(zone *time.Location, now int64) int64 {
	return c.End(zone, Period{Unit: Date}, now)
}
