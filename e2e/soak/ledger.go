package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ledger compares what each user was admitted with the limit.
type ledger struct {
	mu        sync.Mutex
	epoch     int // changes when a disturbance begins or ends
	disturbed bool
	users     int
	requests  int
	admitted  int
	within    int // users whose requests overlapped a disturbance
	unknown   int // requests without an answer, which may have reached the application
	statuses  map[int]int
	suspects  []suspect
}

// suspect is a user who was not admitted exactly the limit.
type suspect struct {
	begin, end time.Time
	text       string
}

// disturb begins or ends a time in which Redis loses counters: instances then decide on
// their own.
func (l *ledger) disturb(is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disturbed = is
	l.epoch++
}

// visit is the time from which a user sends requests.
type visit struct {
	begin time.Time
	epoch int // -1 during a disturbance
}

func (l *ledger) begin() visit {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.disturbed {
		return visit{time.Now(), -1}
	}
	return visit{time.Now(), l.epoch}
}

// judge records the answers of a user, a number per status. In quiet times exactly the
// limit is admitted, and every request is answered.
func (l *ledger) judge(v visit, user string, counts map[int]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.statuses == nil {
		l.statuses = make(map[int]int)
	}
	l.users++
	for status, n := range counts {
		l.statuses[status] += n
		l.requests += n
	}
	l.admitted += counts[http.StatusOK]
	l.unknown += counts[0]
	if v.epoch != l.epoch {
		l.within++
		return
	}
	if counts[http.StatusOK] != limit || counts[http.StatusOK]+counts[http.StatusTooManyRequests] != 12 {
		l.suspects = append(l.suspects, suspect{v.begin, time.Now(), fmt.Sprintf("%s: %s was answered %s; want %d admitted and the others 429",
			v.begin.UTC().Format(time.TimeOnly), user, table(counts), limit)})
	}
}

// abandon records the answers of a user whose requests the end of the run cut off.
func (l *ledger) abandon(counts map[int]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admitted += counts[http.StatusOK]
	l.unknown += counts[0]
}

// passed returns what is wrong with the number of requests that reached the
// application: hostile requests must not be among them.
func (l *ledger) passed(reached int) (faults []string) {
	if reached < l.admitted || reached > l.admitted+l.unknown {
		faults = append(faults, fmt.Sprintf("%d requests reached the application; want the %d that were admitted, and at most %d without an answer", reached, l.admitted, l.unknown))
	}
	return faults
}

// table formats a number per status.
func table(counts map[int]int) string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		name := strconv.Itoa(status)
		if status == 0 {
			name = "without an answer"
		}
		parts = append(parts, fmt.Sprintf("%d × %s", counts[status], name))
	}
	return strings.Join(parts, ", ")
}
