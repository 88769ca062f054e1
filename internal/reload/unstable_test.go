package reload

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Unstable files do not become active. The state reports that until they are
// stable, and the log has one line however long it takes.
func TestUnstableFilesAreReportedOnce(t *testing.T) {
	for _, c := range []struct {
		name, end  string // the stable content
		generation uint64
		want       string // the last error afterwards
	}{
		{"then other rules", ruleText(1, 2), 2, ""},
		{"then the active rules", ruleText(1), 1, ""},
		{"then rules that were rejected before", badText, 1, "unknown method"},
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
			before := len(b.states)
			for range 3 {
				b.reload()
			}
			if s := b.State(); !strings.Contains(s.LastError, "keep changing") || len(b.states) != before+1 || strings.Count(b.log.String(), "keep changing") != 1 {
				t.Fatalf("state %+v, notified %d times; want the reason, once:\n%s", s, len(b.states)-before, b.log)
			}
			b.sleep = func(context.Context, time.Duration) bool { return true }
			b.write(t, c.end)
			b.reload()
			if s := b.State(); s.Generation != c.generation || !strings.Contains(s.LastError, c.want) || c.want == "" && s.LastError != "" {
				t.Errorf("stable: %+v; want generation %d, error %q", s, c.generation, c.want)
			}
		})
	}
}
