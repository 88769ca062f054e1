package breaker

import (
	"testing"
	"time"
)

// TestBreaker checks that a breaker opens at exactly the expected failure.
func TestBreaker(t *testing.T) {
	for _, c := range []struct {
		name  string
		calls string // a: answered, f: failed, A … Z: failed in that round trip, digit: a wait of that many times 25 ms
		opens int    // number of the failure that opens it, 0 for never
	}{
		{"one failure", "aaafaaa", 0},
		{"three in a row", "afff", 3},
		{"three in a row, however slow", "f9f9f", 3},
		{"an answer ends the sequence", "ff9a9ff9a9ff", 0},
		{"half of the calls", "fafaf", 3},
		{"two of two are too few", "fa9ff", 0},
		{"less than half", "faaafaaafaaafaaaf", 0},
		{"half, but over more than 100 ms", "fa3fa3fa3fa3fa", 0},
		{"a span begins with a failure", "aaaaaaaaaafafaf", 3},
		{"a new span starts from zero", "faaaaaaaaaa9fafaf", 4},
		{"one round trip of many calls", "aaAAAAAAAAAA", 0},
		{"one round trip among answers", "AaAaAaAaA", 0},
		{"two shared by many calls", "AAB", 3},
		{"two shared by many calls, among many answers", "A1BaaaaAaaB", 0},
		{"three in a row shared by many calls", "A9B9C", 3},
		{"two in a row with long pauses", "A3A9B", 0},
		{"one that hangs", "A5AA5A", 4},
		{"one that hangs, among answers", "A5AaaA5AaaA5Aaa", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			now, failures := time.Unix(0, 0), 0
			b := Breaker{now: func() time.Time { return now }}
			for _, what := range c.calls {
				switch what {
				case 'a':
					b.Answered()
				case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
					now = now.Add(time.Duration(what-'0') * 25 * time.Millisecond)
				default:
					number := uint64(0)
					if what != 'f' {
						number = uint64(what)
					}
					failures++
					if opens := b.Failed(number); opens != (failures == c.opens) {
						t.Fatalf("failure %d of %q: opens %v; want it to open with failure %d", failures, c.calls, opens, c.opens)
					}
				}
			}
		})
	}
}

func TestBreakerResetForgetsFailures(t *testing.T) {
	b := Breaker{now: time.Now}
	for range 3 {
		if b.Failed(0); b.Failed(0) {
			t.Fatal("opened by two failures after a reset")
		}
		b.Reset()
	}
}
