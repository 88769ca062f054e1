package rules

import (
	"math"
	"slices"
	"strings"
	"time"
)

// instantLayouts are the forms of a date and time. A date stands for its midnight.
var instantLayouts = []string{"2006-01-02T15:04", "2006-01-02", "2006-01-02T15:04:05"}

// parseAnyWall reads a date and time in one of the layouts, as if it were UTC.
func parseAnyWall(text string) (time.Time, bool) {
	if !slices.ContainsFunc(instantLayouts, func(layout string) bool { return hasForm(text, layout) }) {
		return time.Time{}, false
	}
	var parts [6]int // from the year to the second
	part := 0
	for i := range len(text) {
		if text[i]-'0' < 10 {
			parts[part] = 10*parts[part] + int(text[i]-'0')
		} else {
			part++
		}
	}
	t := time.Date(parts[0], time.Month(parts[1]), parts[2], parts[3], parts[4], parts[5], 0, time.UTC)
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	return t, parts == [6]int{year, int(month), day, hour, minute, second} // none exceeds its range
}

// hasForm reports whether text has digits and other characters where the layout has them.
func hasForm(text, layout string) bool {
	if len(text) != len(layout) {
		return false
	}
	for i := range len(layout) {
		if isDigit := text[i]-'0' < 10; layout[i]-'0' < 10 != isDigit || !isDigit && text[i] != layout[i] {
			return false
		}
	}
	return true
}

// ParseInstant returns the instant of a value that the conditions `before now` and `after now`
// compare with the time: seconds since 1970 in digits, a time as since= has it, or a date, which
// stands for its end in the zone. It reports whether the value is one of them.
func ParseInstant(text string, zone *time.Location) (time.Time, bool) {
	ms, ok := readInstant(strings.TrimSpace(text), zone)
	return time.UnixMilli(ms), ok
}

// readInstant reads a value that a condition compares with the time, in ms since the epoch:
// seconds since 1970 in digits, a time in the form of since and until, or a date, which
// stands for its end.
func readInstant(text string, zone *time.Location) (int64, bool) {
	if hasIntegerForm(text) {
		seconds, ok := parseInteger(text)
		if !ok || seconds > math.MaxInt64/1000 {
			seconds = math.MaxInt64 / 1000
		}
		return seconds * 1000, text[0] != '-'
	}
	wall, ok := parseAnyWall(text)
	if !ok {
		return 0, false
	}
	if len(text) == len(time.DateOnly) {
		wall = wall.AddDate(0, 0, 1)
	}
	return inZone(wall, zone).UnixMilli(), true
}

// inZone returns the instant of a date and time in a zone.
func inZone(wall time.Time, zone *time.Location) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone)
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	switch shown := time.Unix(t.Unix()+int64(offset), 0); { // t as if it were UTC
	case shown.After(wall) && !start.IsZero(): // in the gap before start
		return start
	case shown.Before(wall) && !end.IsZero(): // in the gap at end
		return end
	}
	if start.IsZero() {
		return t
	}
	_, offset = start.Add(-time.Second).Zone()
	if first := time.Unix(wall.Unix()-int64(offset), 0); first.Before(start) {
		return first.In(zone)
	}
	return t
}
