package main

import (
	"encoding/json"
	"strings"
	"time"
)

// line is a line of an instance's log.
type line struct {
	Time  time.Time `json:"time"`
	Level string    `json:"level"`
	Msg   string    `json:"msg"`
}

// absence is a time in which an instance did not use Redis.
type absence struct{ begin, end time.Time }

// settling is the time before an absence in which calls may already have been decided
// in process, and after it in which their hits are charged to Redis.
const settling = 2 * time.Second

// readLogs returns the absences of all instances, and the number of each warning.
func (s *scene) readLogs() (absences []absence, warnings map[string]int) {
	warnings = make(map[string]int)
	for _, k := range s.instances {
		var left time.Time
		for text := range strings.Lines(k.Log()) {
			var l line
			if json.Unmarshal([]byte(text), &l) != nil {
				continue
			}
			if l.Level == "WARN" || l.Level == "ERROR" {
				warnings[l.Msg]++
			}
			switch {
			case strings.HasPrefix(l.Msg, "Redis is unreachable"):
				left = l.Time
			case strings.HasPrefix(l.Msg, "Redis is reachable again"):
				absences = append(absences, absence{left.Add(-settling), l.Time.Add(settling)})
			case strings.HasPrefix(l.Msg, "this instance is short of CPU"), strings.HasPrefix(l.Msg, "Redis did not answer a call"):
				// Logged at most every ten seconds, for all calls of that time.
				absences = append(absences, absence{l.Time.Add(-settling), l.Time.Add(10 * time.Second)})
			}
		}
	}
	return absences, warnings
}

// overlaps reports whether the suspect's requests overlap one of the absences.
func (u *suspect) overlaps(absences []absence) bool {
	for _, a := range absences {
		if u.begin.Before(a.end) && a.begin.Before(u.end) {
			return true
		}
	}
	return false
}
