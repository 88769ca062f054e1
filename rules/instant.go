package rules

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// instantDecl is a date and time in a rule. Its instant depends on the zone of the rule
// set, which another file may state.
type instantDecl struct {
	at   span      // without a line if the rule states none
	wall time.Time // the date and time, as if they were UTC
}

// instantLayouts are the forms of a date and time. A date stands for its midnight.
var instantLayouts = []string{"2006-01-02T15:04", "2006-01-02", "2006-01-02T15:04:05"}

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

func parseAnyWall(text string) (time.Time, bool) {
	for _, layout := range instantLayouts {
		if t, err := time.Parse(layout, text); err == nil && len(text) == len(layout) {
			return t, true
		}
	}
	return time.Time{}, false
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

// checkInstants sets the times at which rules begin and end.
func (p *parser) checkInstants(set *Set) {
	for _, d := range p.rules {
		if d.since.at.line != nil {
			d.Since = inZone(d.since.wall, set.Zone).UnixMilli()
		}
		if d.until.at.line != nil {
			d.Until = inZone(d.until.wall, set.Zone).UnixMilli()
		}
		set.timed = set.timed || d.isTimed()
		if d.Since != 0 && d.Until != 0 && d.Until <= d.Since {
			p.reportf(d.until.at, errNeverActive, "want a later time; until is the first instant at which the rule no longer matches",
				"until=%s is not after since=%s", d.until.at.text(), d.since.at.text())
		}
	}
}

// warnOver reports rules that have ended, if the options have a clock.
func (p *parser) warnOver() {
	if p.options.Now == nil {
		return
	}
	now := p.options.Now().UnixMilli()
	for _, d := range p.rules {
		if d.Until != 0 && d.Until <= now {
			p.reportf(d.until.at, warnOver, "remove the rule, or choose a later time", "the rule ended at %s and no longer matches", d.until.at.text())
		}
	}
}

func (r *Rule) isTimed() bool { return r.Since != 0 || r.Until != 0 }

// ActiveAt reports whether the rule is active at a time, in ms since the epoch: from
// Since on, and before Until. A rule that is not active matches no request.
func (r *Rule) ActiveAt(ms int64) bool {
	return (r.Since == 0 || ms >= r.Since) && (r.Until == 0 || ms < r.Until)
}

// Timed reports whether a rule has since or until, so that Match depends on the time.
func (s *Set) Timed() bool { return s.timed }
