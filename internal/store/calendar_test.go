package store

import (
	"sync"
	"testing"
	"time"
	_ "time/tzdata"
)

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestDayEnd(t *testing.T) {
	date := Period{Unit: Date}
	for _, c := range []struct {
		name, zone, now, want string
	}{
		{"an ordinary day", "Asia/Shanghai", "2026-06-01T12:00:00+08:00", "2026-06-02T00:00:00+08:00"},
		{"the last millisecond", "Asia/Shanghai", "2026-06-01T23:59:59.999+08:00", "2026-06-02T00:00:00+08:00"},
		{"midnight itself", "Asia/Shanghai", "2026-06-02T00:00:00+08:00", "2026-06-03T00:00:00+08:00"},
		{"the day of 25 hours", "America/New_York", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
		{"the day of 23 hours", "America/New_York", "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00"},
		{"within the hour that comes twice", "America/New_York", "2026-11-01T01:30:00-05:00", "2026-11-02T00:00:00-05:00"},
		{"midnight is missing", "America/Sao_Paulo", "2018-11-03T23:00:00-03:00", "2018-11-04T01:00:00-02:00"},
		{"the day that begins at one", "America/Sao_Paulo", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"at midnight the clocks go back before it", "America/Sao_Paulo", "2018-02-17T12:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		{"midnight comes twice", "America/Havana", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
		{"before the midnight that comes twice", "America/Havana", "2026-10-31T20:00:00-04:00", "2026-11-01T00:00:00-04:00"},
		{"half an hour of summer time", "Australia/Lord_Howe", "2026-04-05T00:00:00+11:00", "2026-04-06T00:00:00+10:30"},
		{"the clocks go back after midnight to the day before", "America/Goose_Bay", "2010-11-06T12:00:00-03:00", "2010-11-07T00:00:00-03:00"},
		{"the minute after that midnight is a day by itself", "America/Goose_Bay", "2010-11-07T00:00:00-03:00", "2010-11-06T23:01:00-04:00"},
		{"the hour that is the day before again", "America/Goose_Bay", "2010-11-06T23:30:00-04:00", "2010-11-07T00:00:00-04:00"},
		{"a date is missing", "Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"a date comes twice", "Pacific/Kwajalein", "1969-09-30T12:00:00+11:00", "1969-10-01T00:00:00-12:00"},
		{"no changes at all", "UTC", "1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z"},
	} {
		zone := location(t, c.zone)
		now, err := time.Parse(time.RFC3339Nano, c.now)
		if err != nil {
			t.Fatal(err)
		}
		want, err := time.Parse(time.RFC3339Nano, c.want)
		if err != nil {
			t.Fatal(err)
		}
		if got := date.end(zone, now.UnixMilli()); got != want.UnixMilli() {
			t.Errorf("%s, %s: the day of %s ends at %s, want %s", c.name, c.zone, c.now, time.UnixMilli(got).In(zone), want.In(zone))
		}
	}
}

// TestDayEndIsTheFirstOtherDate checks the definition minute by minute.
func TestDayEndIsTheFirstOtherDate(t *testing.T) {
	date := func(zone *time.Location, ms int64) [3]int {
		y, m, d := time.UnixMilli(ms).In(zone).Date()
		return [3]int{y, int(m), d}
	}
	for _, c := range []struct{ zone, from string }{
		{"America/Sao_Paulo", "2018-11-02"},
		{"America/Sao_Paulo", "2018-02-16"},
		{"America/Havana", "2026-10-30"},
		{"America/Havana", "2026-03-06"},
		{"Australia/Lord_Howe", "2026-04-03"},
		{"Australia/Lord_Howe", "2026-10-02"},
		{"America/Goose_Bay", "2010-11-05"},
		{"Pacific/Apia", "2011-12-28"},
		{"Africa/Cairo", "2026-04-22"},
	} {
		zone := location(t, c.zone)
		begin, err := time.ParseInLocation(time.DateOnly, c.from, zone)
		if err != nil {
			t.Fatal(err)
		}
		const minute = 60_000
		end := int64(0)
		for now := begin.UnixMilli() + 4*86_400_000; now >= begin.UnixMilli(); now -= minute {
			if date(zone, now) != date(zone, now+minute) {
				end = now + minute // every change of these zones is at a full minute
			}
			if got := (Period{Unit: Date}).end(zone, now); end > 0 && got != end {
				t.Fatalf("%s: the day of %s ends at %s, want %s", c.zone, time.UnixMilli(now).In(zone), time.UnixMilli(got).In(zone), time.UnixMilli(end).In(zone))
			}
		}
	}
}

func TestCalendarAnswersAsDayEnd(t *testing.T) {
	date := Period{Unit: Date}
	var c Calendar
	var callers sync.WaitGroup
	zones := []*time.Location{
		location(t, "Asia/Shanghai"), location(t, "America/Havana"), location(t, "Pacific/Apia"), location(t, "UTC"),
		location(t, "Asia/Shanghai"), location(t, "Asia/Kolkata"), location(t, "Asia/Kathmandu"), location(t, "Europe/Berlin"),
		location(t, "America/Sao_Paulo"), location(t, "Australia/Lord_Howe"), // more zones than a calendar keeps
	}
	for caller := range int64(4) {
		callers.Go(func() {
			for i := range int64(3000) {
				zone := zones[(i*7+caller)%int64(len(zones))]
				now := 1_324_900_000_000 + i*3_456_789*(1-i%3)
				d := c.Span(zone, Period{Unit: Date}, now)
				if d.Begins[1] > now || now >= d.Begins[2] {
					t.Errorf("%s at %d: not within %v", zone, now, d.Begins)
				}
				for j := range 3 {
					if got := date.end(zone, d.Begins[j]); got != d.Begins[j+1] {
						t.Errorf("%s at %d: the day from %d ends at %d, want %d", zone, now, d.Begins[j], d.Begins[j+1], got)
					}
				}
			}
		})
	}
	callers.Wait()
}

func TestUnitEnd(t *testing.T) {
	for _, c := range []struct {
		name, zone string
		period     Period
		now, want  string
	}{
		{"a minute", "UTC", Period{Unit: Minute}, "2026-06-01T12:00:59.999Z", "2026-06-01T12:01:00Z"},
		{"a minute of a zone with seconds", "Africa/Monrovia", Period{Unit: Minute}, "1970-01-01T00:00:00Z", "1970-01-01T00:00:30Z"},
		{"an hour of a zone with minutes", "Asia/Kathmandu", Period{Unit: Hour}, "2026-06-01T12:10:00+05:45", "2026-06-01T13:00:00+05:45"},
		{"an hour that comes twice", "America/New_York", Period{Unit: Hour}, "2026-11-01T01:10:00-04:00", "2026-11-01T02:00:00-05:00"},
		{"the second of them", "America/New_York", Period{Unit: Hour}, "2026-11-01T01:10:00-05:00", "2026-11-01T02:00:00-05:00"},
		{"the hour before a missing one", "America/New_York", Period{Unit: Hour}, "2026-03-08T01:10:00-05:00", "2026-03-08T03:00:00-04:00"},
		{"half an hour twice", "Australia/Lord_Howe", Period{Unit: Hour}, "2026-04-05T01:40:00+11:00", "2026-04-05T02:00:00+10:30"},
		{"a week from Sunday", "Asia/Shanghai", Period{Week, 0}, "2026-06-07T23:59:59+08:00", "2026-06-08T00:00:00+08:00"},
		{"a week from Monday", "Asia/Shanghai", Period{Week, 1}, "2026-06-08T00:00:00+08:00", "2026-06-15T00:00:00+08:00"},
		{"a week that begins on Sunday", "Asia/Shanghai", Period{Week, 7}, "2026-06-08T00:00:00+08:00", "2026-06-14T00:00:00+08:00"},
		{"a week over the year's end", "Asia/Shanghai", Period{Week, 3}, "2026-12-31T00:00:00+08:00", "2027-01-06T00:00:00+08:00"},
		{"the week of 169 hours", "America/New_York", Period{Week, 1}, "2026-10-26T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
		{"a month", "America/New_York", Period{Month, 0}, "2026-11-30T23:59:59-05:00", "2026-12-01T00:00:00-05:00"},
		{"December", "UTC", Period{Month, 1}, "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"a month from the 15th, before it", "UTC", Period{Month, 15}, "2026-12-14T23:00:00Z", "2026-12-15T00:00:00Z"},
		{"a month from the 15th, after it", "UTC", Period{Month, 15}, "2026-12-15T00:00:00Z", "2027-01-15T00:00:00Z"},
		{"a month from the 31st in February", "UTC", Period{Month, 31}, "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"},
		{"a month from the 31st after February", "UTC", Period{Month, 31}, "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"a month from the 31st in April", "UTC", Period{Month, 31}, "2026-04-29T00:00:00Z", "2026-04-30T00:00:00Z"},
		{"a month from the 30th in a leap year", "UTC", Period{Month, 30}, "2028-02-28T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"a month from the 29th", "UTC", Period{Month, 29}, "2027-02-27T00:00:00Z", "2027-02-28T00:00:00Z"},
		{"a year", "Pacific/Apia", Period{Unit: Year}, "2011-06-01T00:00:00-11:00", "2012-01-01T00:00:00+14:00"},
	} {
		zone := location(t, c.zone)
		now, err := time.Parse(time.RFC3339Nano, c.now)
		if err != nil {
			t.Fatal(err)
		}
		want, err := time.Parse(time.RFC3339Nano, c.want)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.period.end(zone, now.UnixMilli()); got != want.UnixMilli() {
			t.Errorf("%s, %s: the unit of %s ends at %s, want %s", c.name, c.zone, c.now, time.UnixMilli(got).In(zone), want.In(zone))
		}
	}
}

// TestUnitEndIsTheFirstOtherUnit checks that every instant of a span lies in the same
// local unit as its beginning, and its end in another, around every change of the
// clocks of some zones.
func TestUnitEndIsTheFirstOtherUnit(t *testing.T) {
	layouts := map[Unit]string{Minute: "2006-01-02 15:04", Hour: "2006-01-02 15", Date: "2006-01-02", Month: "2006-01", Year: "2006"}
	for _, name := range []string{"America/New_York", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia", "America/Goose_Bay", "Asia/Kathmandu"} {
		zone := location(t, name)
		_, change := time.Date(2010, 6, 1, 0, 0, 0, 0, zone).ZoneBounds()
		for changes := 0; changes < 6 && !change.IsZero(); changes++ {
			for unit, layout := range layouts {
				p := Period{Unit: unit}
				local := func(ms int64) string { return time.UnixMilli(ms).In(zone).Format(layout) }
				// The first later minute of each minute that has another local unit.
				const before, after = 150, 350
				at := func(minute int) int64 { return change.UnixMilli() + int64(minute-before)*60_000 }
				var next [before + after + 1]int
				next[before+after] = before + after + 1
				for m := before + after - 1; m >= 0; m-- {
					if next[m] = m + 1; local(at(m)) == local(at(m+1)) {
						next[m] = next[m+1]
					}
				}
				for m := range 2*before + 1 {
					now := at(m)
					s := p.around(zone, now)
					if now < s.Begins[1] || now >= s.Begins[2] || local(s.Begins[2]) == local(now) || local(s.Begins[1]-1) == local(now) {
						t.Fatalf("%s: the unit %d of %s is %v", name, unit, time.UnixMilli(now).In(zone), s.Begins)
					}
					if end := at(next[m]); end < s.Begins[2] && next[m] <= before+after {
						t.Fatalf("%s: the unit %d of %s ends at %s, want %s", name, unit, time.UnixMilli(now).In(zone), time.UnixMilli(s.Begins[2]).In(zone), time.UnixMilli(end).In(zone))
					}
				}
			}
			_, change = change.ZoneBounds()
		}
	}
}

func BenchmarkCalendar(b *testing.B) {
	zone, now := location(b, "America/New_York"), time.Now().UnixMilli()
	b.Run("known", func(b *testing.B) {
		var c Calendar
		for b.Loop() {
			c.Span(zone, Period{Unit: Date}, now)
		}
	})
	b.Run("unknown", func(b *testing.B) {
		for b.Loop() {
			Period{Unit: Date}.around(zone, now)
		}
	})
}
