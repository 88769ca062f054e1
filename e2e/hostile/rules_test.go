package hostile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// The numbers of rule files in one folder, in the two forms of the test.
const (
	manyFiles     = 2_000
	manyFilesLong = 100_000
)

// A folder of very many rule files costs little when nothing changes, and a change of one
// file applies without waiting for the next check at intervals.
func TestHostileFolderOfRuleFilesCostsLittle(t *testing.T) {
	count := manyFiles
	if *long {
		// Alone: reading and comparing so many files pauses for decisions thousands of times, and
		// each pause lasts as long as other tests keep the processors.
		count = manyFilesLong
	} else {
		t.Parallel()
	}
	h := rig.NewFixture(t)
	dir := filepath.Join(h.Dir, "rules")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	rule := func(i, limit int) {
		text := fmt.Sprintf("[rules]\nrule : [count] [act=a%d; uid=+] [time=60; count=%d] [result=2; return=%d]\n", i, limit, i)
		// Atomically: without the rule of an empty file there would be another generation.
		if err := os.Rename(h.File("next", text), filepath.Join(dir, fmt.Sprintf("r%06d.conf", i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range count {
		rule(i+1, 5)
	}
	h.File("rules/results.conf", "[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n")
	k := rig.Must(h.Stage.Koalagate(h.Released(), []string{"KOALAGATE_WATCH_INTERVAL=100ms"}, "--rules", dir))(t)
	rig.WaitUntil(t, "the first check is logged", func() bool { return strings.Contains(k.Log(), "checking them less often") })
	wantIdle(t, k)

	rule(count/2, 6)
	rig.WaitUntil(t, "the changed file applies", func() bool {
		r, err := k.Readyz()
		return err == nil && r.Generation == 2
	})
}

// wantIdle waits for two seconds in which a program uses half a processor at most. Checks
// without a pause use all of it.
func wantIdle(t *testing.T, k *e2e.Koalagate) {
	t.Helper()
	const window = 2 * time.Second
	rig.WaitUntil(t, "the instance is idle", func() bool {
		before := processorTime(t, k)
		time.Sleep(window)
		return processorTime(t, k)-before < window/2
	})
}

// processorTime returns the processor time that a program has used.
func processorTime(t *testing.T, k *e2e.Koalagate) time.Duration {
	t.Helper()
	stat := string(rig.Must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", k.PID())))(t))
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const tick = time.Second / 100 // USER_HZ, which is 100 for programs on every Linux
	user, system := rig.Must(strconv.Atoi(fields[11]))(t), rig.Must(strconv.Atoi(fields[12]))(t)
	return time.Duration(user+system) * tick
}
