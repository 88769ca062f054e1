package app

import (
	"log/slog"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// evictionWatch detects that Redis evicts keys: the limits of their counters start from
// zero. The setting that permits it is logged at the start, but can change later.
type evictionWatch struct {
	logger  *slog.Logger
	evicted func(int64)      // called with the number of keys; may be nil
	before  map[string]int64 // by server: its evictions at its last reading
}

// record logs and counts the keys that a server evicted since its last reading.
func (w *evictionWatch) record(c redisconn.Clock) {
	if c.Evicted < 0 {
		return // the server does not report evictions
	}
	before, known := w.before[c.Server]
	w.before[c.Server] = c.Evicted
	if !known || c.Evicted <= before { // fewer after a restart
		return
	}
	if w.evicted != nil {
		w.evicted(c.Evicted - before)
	}
	w.logger.Warn("Redis has evicted keys; the limits of evicted counters start from zero", "server", clockName(c), "keys", c.Evicted-before,
		"remedy", "set maxmemory-policy noeviction and raise maxmemory, or use a Redis without other data")
}
