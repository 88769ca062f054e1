package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/koalagate/koalagate/bench/stage"
	"github.com/koalagate/koalagate/e2e"
)

// countedPasses is the number of passes over a recording whose instructions are counted.
const countedPasses = 2

// instructions returns the instructions of Redis per decision, once each counter exists:
// those of a server that replays a recording three times, less those of a server that
// replays it once.
func instructions(ctx context.Context, programs *e2e.Stage, r *recording) (float64, error) {
	var totals [2]float64
	for i, passes := range []int{1, 1 + countedPasses} {
		var err error
		if totals[i], err = collected(ctx, programs, r, passes); err != nil {
			return 0, err
		}
	}
	return (totals[1] - totals[0]) / float64(countedPasses*r.decisions), nil
}

// collected returns the instructions of a server from start to end.
func collected(ctx context.Context, programs *e2e.Stage, r *recording, passes int) (float64, error) {
	valgrind, err := stage.Valgrind(programs, "valgrind")
	if err != nil {
		return 0, err
	}
	redis, err := programs.Find("redis-server")
	if err != nil {
		return 0, err
	}
	address, err := e2e.FreeAddress()
	if err != nil {
		return 0, err
	}
	// The server of .tools is started by a script. Its cron depends on the time that the
	// replay takes: it runs as rarely as possible.
	program, err := programs.Start("callgrind", valgrind, address, nil, "--tool=callgrind", "--callgrind-out-file=/dev/null", "--trace-children=yes",
		redis, "--port", address[len("127.0.0.1:"):], "--bind", "127.0.0.1", "--save", "", "--hz", "1", "--activerehashing", "no")
	if err != nil {
		return 0, err
	}
	p, err := newPlayer(ctx, 0, address)
	if err != nil {
		return 0, err
	}
	defer p.conn.Close()
	if err := errors.Join(p.load(r), p.play(r, passes), program.Stop()); err != nil {
		return 0, err
	}
	return collectedIn(program.Log())
}

var collectedLine = regexp.MustCompile(`==\d+== Collected : (\d+)`)

// collectedIn returns the instructions that callgrind reports in its output.
func collectedIn(log string) (float64, error) {
	m := collectedLine.FindAllStringSubmatch(log, -1)
	if m == nil {
		return 0, fmt.Errorf("callgrind reports no instructions:\n%s", log)
	}
	return strconv.ParseFloat(m[len(m)-1][1], 64)
}
