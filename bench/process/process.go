// Package process measures what other processes use.
package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ID is the ID of a process whose resources are measured; 0 for none.
type ID int

// CPU returns the CPU time used so far, by the scheduler's accounting of its threads:
// the ticks of /proc/PID/stat are too coarse for a short run.
func (p ID) CPU() (time.Duration, error) {
	if p == 0 {
		return 0, nil
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p))
	if err == nil && len(threads) == 0 {
		err = fmt.Errorf("no CPU time of the threads of process %d; the process must exist, on Linux", p)
	}
	if err != nil {
		return 0, err
	}
	var whole time.Duration
	for _, thread := range threads {
		text, err := os.ReadFile(thread) //nolint:gosec // a file of the kernel
		if errors.Is(err, fs.ErrNotExist) {
			continue // the thread has ended meanwhile
		} else if err != nil {
			return 0, err
		}
		running, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(running, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", thread, err)
		}
		whole += time.Duration(ns)
	}
	return whole, nil
}

// Memory returns the resident memory of the process, in bytes.
func (p ID) Memory() (int64, error) {
	if p == 0 {
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if size, found := strings.CutPrefix(line, "VmRSS:"); found {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmRSS", p)
}
