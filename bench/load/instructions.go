package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/koalagate/koalagate/bench/stage"
)

// tally counts the instructions of a service that runs in callgrind, without the kernel's.
// Other load changes them little as long as it leaves the callers a processor.
type tally struct {
	vgdb  string // the program that sends callgrind commands
	file  string // the path of its dumps without their number
	pid   int
	dumps int
	total float64
}

// inCallgrind returns a script that runs a binary in callgrind under its own process ID,
// and the tally of the process that will be started with it.
func (s *scene) inCallgrind(binary, name string) (script string, t *tally, err error) {
	valgrind, err := stage.Valgrind(s.stage, "valgrind")
	if err != nil {
		return "", nil, err
	}
	t = &tally{file: filepath.Join(s.dir, name+".callgrind")}
	if t.vgdb, err = stage.Valgrind(s.stage, "vgdb"); err != nil {
		return "", nil, err
	}
	// Callgrind ends the program at a signal of the scheduler, so that there must be none. A
	// collection of garbage would be in one turn and not in the next: allocations stand for them.
	text := fmt.Sprintf("#!/bin/sh\nGOMAXPROCS=1 GOGC=off GODEBUG=asyncpreemptoff=1 exec '%s' --tool=callgrind --callgrind-out-file='%s' '%s' \"$@\"\n",
		valgrind, t.file, binary)
	script = filepath.Join(s.dir, name+".sh")
	return script, t, os.WriteFile(script, []byte(text), 0o700) //nolint:gosec // the program must be executable
}

var totalLine = regexp.MustCompile(`(?m)^totals: (\d+)$`)

// read returns the instructions so far as if a thousand took a microsecond, so that they
// stand where CPU time does.
func (t *tally) read(ctx context.Context) (time.Duration, error) {
	// Callgrind counts anew after each dump.
	t.dumps++
	if out, err := exec.CommandContext(ctx, t.vgdb, "--pid="+strconv.Itoa(t.pid), "dump").CombinedOutput(); err != nil { //nolint:gosec // its own program
		return 0, fmt.Errorf("callgrind dumps nothing: %w\n%s", err, out)
	}
	text, err := os.ReadFile(t.file + "." + strconv.Itoa(t.dumps))
	if err != nil {
		return 0, err
	}
	m := totalLine.FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("dump %d of callgrind has no total", t.dumps)
	}
	counted, err := strconv.ParseFloat(string(m[1]), 64)
	t.total += counted
	return time.Duration(t.total), err
}
