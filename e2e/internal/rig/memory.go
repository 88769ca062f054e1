package rig

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// PeakMemory returns the largest resident memory of a program so far, in bytes.
func PeakMemory(t *testing.T, k *e2e.Koalagate) int {
	t.Helper()
	status := string(Must(os.ReadFile(fmt.Sprintf("/proc/%d/status", k.PID())))(t))
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(status)
	if found == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	return Must(strconv.Atoi(found[1]))(t) << 10
}
