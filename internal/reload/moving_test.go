package reload

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Files that never rest are not in force, and the state says so until they are,
// in one line of the log however long that takes.
func TestFilesThatNeverRest(t *testing.T) {
	for _, c := range []struct {
		name, end  string // what they rest at
		generation uint64
		want       string // the last error then
	}{
		{"and rest at other rules", ruleText(1, 2), 2, ""},
		{"and rest at the rules in force", ruleText(1), 1, ""},
		{"and rest at what was refused before", badText, 1, "unknown method"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, ruleText(1))
			b.write(t, badText)
			b.reload()
			writes := 0
			b.sleep = func(context.Context, time.Duration) bool {
				writes++
				b.write(t, ruleText(1)+fmt.Sprintf("# %d\n", writes))
				return true
			}
			told := len(b.told)
			for range 3 {
				b.reload()
			}
			if s := b.State(); !strings.Contains(s.LastError, "keep changing") || len(b.told) != told+1 || strings.Count(b.log.String(), "keep changing") != 1 {
				t.Fatalf("state %+v, told %d times; want why, once:\n%s", s, len(b.told)-told, b.log)
			}
			b.sleep = func(context.Context, time.Duration) bool { return true }
			b.write(t, c.end)
			b.reload()
			if s := b.State(); s.Generation != c.generation || !strings.Contains(s.LastError, c.want) || c.want == "" && s.LastError != "" {
				t.Errorf("at rest: %+v; want generation %d, error %q", s, c.generation, c.want)
			}
		})
	}
}
