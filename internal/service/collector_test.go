package service

import (
	"runtime/metrics"
	"testing"
)

func TestGarbageGrowsToTheHeadroomOrTheLiveMemory(t *testing.T) {
	const mega = 1 << 20
	for _, c := range []struct {
		headroom, inUse int64
		want            int
	}{
		{32 * mega, 0, 800}, // nothing was collected yet
		{32 * mega, 1 * mega, 800},
		{32 * mega, 8 * mega, 400},
		{32 * mega, 32 * mega, 100},
		{32 * mega, 4096 * mega, 100}, // never less often than Go itself
		{1, 0, 100},
	} {
		if got := collectorPercent(c.headroom, c.inUse); got != c.want {
			t.Errorf("headroom %d, in use %d: %d %%; want %d", c.headroom, c.inUse, got, c.want)
		}
	}
}

func TestTheEnvironmentKeepsTheCollector(t *testing.T) {
	now := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := now()
	for name, c := range map[string]struct {
		environ  []string
		headroom int
		changes  bool
	}{
		"nothing is said":     {nil, 1 << 30, true},
		"GOGC is said":        {[]string{"GOGC=100"}, 1 << 30, false},
		"GOMEMLIMIT is said":  {[]string{"GOMEMLIMIT=1GiB"}, 1 << 30, false},
		"it is switched off":  {nil, 0, false},
		"an empty GOGC is no": {[]string{"GOGC="}, 1 << 30, true},
	} {
		end := calmCollector(c.headroom, c.environ)
		if got := now(); (got != before) != c.changes {
			t.Errorf("%s: %d %% after %d %%; want a change: %v", name, got, before, c.changes)
		}
		end()
		if got := now(); got != before {
			t.Errorf("%s: %d %% is left behind; want %d", name, got, before)
		}
	}
}
