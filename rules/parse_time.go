package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/method"
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

// parseTime reads the value of time: a unit of the calendar or a number of seconds.
func parseTime(p *parser, d *ruleDecl, w word, used bool) {
	c := calendarWordOf(w.value.text())
	switch {
	case c == nil:
		timeLimit.parse(p, d, w, used)
	case !used:
	case !method.Of(d.Method).Windows:
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
	case !method.Of(d.Method).Windows:
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

// instantDecl is a date and time in a rule. Its instant depends on the zone of the rule
// set, which another file may state.
type instantDecl struct {
	at   span      // without a line if the rule states none
	wall time.Time // the date and time, as if they were UTC
}

// firstYear is the first year of a date in a rule: an instant is never 0, which stands
// for none.
const firstYear = 1971

const wantInstant = "want a date such as 2026-06-01, or a date and time such as 2026-06-01T12:00, in the time zone of the rule set"

// ParseTime reads a date and time in the form of since and until: 2026-06-01T12:00,
// with seconds, or a date for its midnight. A time that the zone skips is the end of the
// gap; a time that occurs twice is its first occurrence.
func ParseTime(text string, zone *time.Location) (time.Time, error) {
	wall, ok := parseWall(text)
	if !ok {
		return time.Time{}, errors.New(wantInstant)
	}
	return inZone(wall, zone), nil
}

func parseWall(text string) (time.Time, bool) {
	t, ok := parseAnyWall(text)
	return t, ok && t.Year() >= firstYear
}

// isEarly reports whether text is a date and time before the first year.
func isEarly(text string) bool {
	t, ok := parseAnyWall(text)
	return ok && t.Year() < firstYear
}

// instant reads the value of since or until. The zero instantDecl stands for a value
// that it reports, and for a missing one.
func (p *parser) instant(w word) instantDecl {
	text := w.value.text()
	if text == "" {
		return instantDecl{}
	}
	wall, ok := parseWall(text)
	if ok {
		return instantDecl{w.value, wall}
	}
	hint := wantInstant
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		hint = "remove the offset, and state the time zone under [settings]"
	} else if isEarly(text) {
		hint = fmt.Sprintf("want a year from %d on", firstYear)
	}
	p.found.add(errInstant, w.value, Finding{
		Message: fmt.Sprintf("invalid date and time %s=%s", w.name.text(), w.value.mention()), Hint: hint, Suggestion: likelyInstant(text),
	})
	return instantDecl{}
}

// likelyInstant returns the date and time that was probably meant by an invalid one, ""
// if there is none.
func likelyInstant(text string) string {
	for _, layout := range []string{"2006-1-2", "2006-1-2T15:4", "2006-1-2t15:4", "2006-1-2 15:4", "2006-1-2 15:4:5", "2006/1/2", "2006/1/2 15:4", "20060102"} {
		t, err := time.Parse(layout, text)
		switch {
		case err != nil || t.Year() < firstYear:
			continue
		case !strings.Contains(layout, "15"):
			return t.Format(time.DateOnly)
		case strings.HasSuffix(layout, ":5"):
			return t.Format("2006-01-02T15:04:05")
		}
		return t.Format("2006-01-02T15:04")
	}
	return ""
}
