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
		if got := dayEnd(zone, now.UnixMilli()); got != want.UnixMilli() {
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
			if got := dayEnd(zone, now); end > 0 && got != end {
				t.Fatalf("%s: the day of %s ends at %s, want %s", c.zone, time.UnixMilli(now).In(zone), time.UnixMilli(got).In(zone), time.UnixMilli(end).In(zone))
			}
		}
	}
}

func TestCalendarAnswersAsDayEnd(t *testing.T) {
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
				d := c.Days(zone, now)
				if d.Begins[1] > now || now >= d.Begins[2] {
					t.Errorf("%s at %d: not within %v", zone, now, d.Begins)
				}
				for j := range 3 {
					if got := dayEnd(zone, d.Begins[j]); got != d.Begins[j+1] {
						t.Errorf("%s at %d: the day from %d ends at %d, want %d", zone, now, d.Begins[j], d.Begins[j+1], got)
					}
				}
			}
		})
	}
	callers.Wait()
}

func BenchmarkCalendar(b *testing.B) {
	zone, now := location(b, "America/New_York"), time.Now().UnixMilli()
	b.Run("known", func(b *testing.B) {
		var c Calendar
		for b.Loop() {
			c.Days(zone, now)
		}
	})
	b.Run("unknown", func(b *testing.B) {
		for b.Loop() {
			daysAround(zone, now)
		}
	})
}
