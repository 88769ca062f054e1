//go:build !race

package adminapi

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/koalagate/koalagate/internal/operations"
)

// long selects the long form of the tests, as in `make verify`.
var long = flag.Bool("long", false, "ask about 20,000 rules and exceptions")

// stretches notes the processor time of each stretch of work between two steps, which ask for
// its error: the shortest of several attempts, as a stretch may have helped to collect garbage.
// What else the machine does costs a thread no processor time.
type stretches struct {
	context.Context
	last  time.Duration
	n     int
	times []time.Duration
}

func (s *stretches) Err() error {
	s.note()
	return s.Context.Err()
}

// Value notes steps, too: those with a context derived from this one ask here for the pauses alone.
func (s *stretches) Value(key any) any {
	if strings.HasPrefix(fmt.Sprintf("%T", key), "pace.") {
		s.note()
	}
	return s.Context.Value(key)
}

func (s *stretches) note() {
	took := threadTime() - s.last
	if s.n == len(s.times) {
		s.times = append(s.times, took)
	}
	s.times[s.n] = min(s.times[s.n], took)
	s.n++
	s.last = threadTime()
}

// threadTime returns the processor time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // Linux has this clock
	}
	return time.Duration(t.Nano())
}

// No part of a document of 20 MB, a text, spaces or a list where a text belongs, holds the
// processor for more than 5 ms at a stretch.
func TestLongDocumentsPause(t *testing.T) {
	const size, most, attempts = 20 << 20, 5 * time.Millisecond, 3
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, document := range map[string]string{
		"a text":               `{"text":"` + strings.Repeat("# a rule\\n", size/10) + `"}`,
		"spaces":               `{` + strings.Repeat(" ", size) + `}`,
		"a list, not a text":   `{"text":[` + strings.Repeat("0,", size/2) + `0]}`,
		"a number, not a text": `{"text":` + strings.Repeat("1", size) + `}`,
	} {
		s := &stretches{Context: t.Context()}
		for range attempts {
			s.last, s.n = threadTime(), 0
			var f operations.File
			err := newDecoder(s, strings.NewReader(document)).document(&f)
			if refused := strings.Contains(name, "not"); (err != nil) != refused {
				t.Fatalf("%s: %v; want an error: %v", name, err, refused)
			}
			_ = s.Err()
		}
		longest := slices.Max(s.times)
		t.Logf("%s: %v", name, longest)
		if longest > most {
			t.Errorf("%s: %v at a stretch; want at most %v", name, longest, most)
		}
	}
}

// No part of a question holds the processor for more than 5 ms at a stretch: not while it is read,
// not while it is worked on, nor while it is answered. With ten times as many rules, a stretch may
// help to collect more garbage.
func TestQuestionsPause(t *testing.T) {
	const attempts = 3
	many, most := 2_000, 5*time.Millisecond
	if *long {
		many, most = 20_000, 20*time.Millisecond
	}
	a := newAsking(t, many)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for line := range a.asked {
		s := &stretches{Context: t.Context()}
		for range attempts {
			a.except()
			s.n, s.last = 0, threadTime()
			if err := a.answer(s, line); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			_ = s.Err()
		}
		longest := slices.Max(s.times[1:]) // the first one is of this test
		t.Logf("%s: %v at %d of %d", line, longest, slices.Index(s.times, longest), len(s.times))
		if longest > most {
			t.Errorf("%s: %v at a stretch; want at most %v", line, longest, most)
		}
	}
}
