package main

import (
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// stopwatch measures how long operators need: `stopwatch start`, and `stopwatch LIMIT TEXT`,
// which logs the time since then with the text.
func stopwatch(ts *testscript.TestScript, _ bool, args []string) {
	s := serverOf(ts)
	if args[0] == "start" {
		s.watched = time.Now()
		return
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	took := time.Since(s.watched).Round(time.Millisecond)
	ts.Logf("%s: %s", args[1], took)
	if took > limit {
		ts.Fatalf("%s: it took %s; want %s at most", args[1], took, limit)
	}
}
