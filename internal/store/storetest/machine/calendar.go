package machine

import (
	"sync"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

const (
	minute  = 60_000
	quarter = 15 * minute
	day     = 24 * 60 * minute
)

// windowEnd returns when a window of a count rule closes that opens at now.
func windowEnd(r *store.Rule, zone *time.Location, now int64) int64 {
	switch {
	case r.Unit == store.Epoch:
		return (now/(r.Time*1000) + 1) * r.Time * 1000
	case r.Unit == store.Seconds && r.Time != store.Day:
		return now + r.Time*1000
	case r.Unit == store.Seconds:
		return unitEnd(zone, store.Date, 0, now)
	}
	return unitEnd(zone, r.Unit, r.From, now)
}

// ends are the results of unitEnd: searching for a year's end takes milliseconds.
var ends sync.Map

type endKey struct {
	zone *time.Location
	unit store.Unit
	from uint8
	now  int64
}

// unitEnd returns the first instant after now whose local unit differs. It tries one
// instant after the other. In today's time zones days begin, and clocks change, on
// quarters of an hour.
func unitEnd(zone *time.Location, unit store.Unit, from uint8, now int64) int64 {
	step := int64(quarter)
	if unit < store.Date {
		step = minute
	}
	// All instants before the next step lie in the same unit.
	key := endKey{zone, unit, from, now / step}
	if end, ok := ends.Load(key); ok {
		return end.(int64)
	}
	at, unitNow := now-now%step+step, unitOf(zone, unit, from, now)
	for unitOf(zone, unit, from, at) == unitNow {
		if unit > store.Date && unitOf(zone, unit, from, at+day) == unitNow {
			at += day // no zone leaves a week, a month or a year and returns within a day
			continue
		}
		at += step
	}
	ends.Store(key, at)
	return at
}

// unitOf returns the number of the local unit that contains an instant.
func unitOf(zone *time.Location, unit store.Unit, from uint8, at int64) int64 {
	local := time.UnixMilli(at).In(zone)
	date := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	days := date.Unix() / store.Day
	switch unit {
	case store.Minute:
		return (days*24+int64(local.Hour()))*60 + int64(local.Minute())
	case store.Hour:
		return days*24 + int64(local.Hour())
	case store.Week: // 1 January 1970 was a Thursday
		return (days + 4 - max(int64(from), 1)) / 7
	case store.Month:
		last := time.Date(local.Year(), local.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
		n := int64(local.Year())*12 + int64(local.Month())
		if local.Day() < min(max(int(from), 1), last) {
			n--
		}
		return n
	case store.Year:
		return int64(local.Year())
	}
	return days
}
