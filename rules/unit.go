package rules

import (
	"fmt"
	"slices"
)

// Unit is the unit of the windows of a count rule.
type Unit uint8

// The units.
const (
	Seconds Unit = iota // windows of Time seconds that their first hit opens; with a Time of Day the calendar day
	Epoch               // windows of Time seconds that begin at whole multiples of Time since 1970 UTC
	Minute
	Hour
	_     // a unit of stores: the calendar day, which is Seconds with a Time of Day
	Week  // begins on the day From, 1 (Monday) … 7
	Month // begins on the day From, 1 … 31, or on the last day of a shorter month
	Year
)

// calendarWord is a unit of the calendar as a value of time.
type calendarWord struct {
	name   string
	unit   Unit
	length int64 // of the longest, in seconds
	from   int64 // the largest value of from; 0 if the unit has none
}

// calendarWords are the units of the calendar. A day is what 86400 is.
var calendarWords = []calendarWord{
	{"minute", Minute, 60, 0},
	{"hour", Hour, 3600, 0},
	{"day", Seconds, Day, 0},
	{"week", Week, 7 * Day, 7},
	{"month", Month, 31 * Day, 31},
	{"year", Year, 366 * Day, 0},
}

const (
	epochWord = "epoch"
	fromWord  = "from"
)

// calendarWordOf returns the word for the value of time, nil if it is none.
func calendarWordOf(text string) *calendarWord {
	if i := slices.IndexFunc(calendarWords, func(w calendarWord) bool { return w.name == text }); i >= 0 {
		return &calendarWords[i]
	}
	return nil
}

// UsesCalendar reports whether the windows of the rule are units of the calendar, and so
// depend on the time zone.
func (r *Rule) UsesCalendar() bool {
	is := r.Method.is()
	return is.FirstFree || is.Windows && (r.Unit >= Minute || r.Unit == Seconds && r.mayBeDay())
}

// mayBeDay reports whether the windows may be the calendar day.
func (r *Rule) mayBeDay() bool {
	return r.Time == Day || slices.ContainsFunc(r.Thresholds, func(t Threshold) bool { return t.Word == timeLimit.name })
}

// parseTime reads the value of time: a unit of the calendar or a number of seconds.
func parseTime(p *parser, d *ruleDecl, w word, used bool) {
	c := calendarWordOf(w.value.text())
	switch {
	case c == nil:
		timeLimit.parse(p, d, w, used)
	case !used:
	case !d.Method.is().Windows:
		p.reportf(w.value, errCalendar, "want a number of seconds, or use a [count] rule", "time=%s in a %s rule", c.name, d.Method)
	default:
		d.Time, d.Unit, d.calendar = c.length, c.unit, c
	}
}

// parseFrom reads `from=N` and `from=epoch`. It follows parseTime.
func parseFrom(p *parser, d *ruleDecl, w word, _ bool) {
	isEpoch := w.value.text() == epochWord
	switch c := d.calendar; {
	case w.value.empty():
	case !d.Method.is().Windows:
		p.reportf(w.name, errCalendar, "remove it", "from in a %s rule", d.Method)
	case isEpoch && c == nil:
		d.Unit = Epoch
	case !isEpoch && c != nil && c.from > 0:
		d.From = int(p.number(w, 1, c.from))
	case isEpoch:
		p.reportf(w.value, errCalendar, "remove it, or write time in seconds", "from=%s with time=%s", epochWord, c.name)
	case c == nil:
		p.reportf(w.value, errCalendar, fmt.Sprintf("want from=%s with seconds, or time=week or time=month", epochWord), "from=%s with a time in seconds", w.value.mention())
	default:
		p.reportf(w.value, errCalendar, "remove it; only a week and a month have another beginning", "from=%s with time=%s", w.value.mention(), c.name)
	}
}
