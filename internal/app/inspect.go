package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/remote"
)

const (
	// inspectEvery is the time between two attempts to read the settings of a
	// Redis that did not answer.
	inspectEvery = 5 * time.Second
	// inspectTimeout bounds one attempt.
	inspectTimeout = 2 * time.Second
)

// inspectRedis logs settings of Redis that can lose counters or fail calls, once
// Redis has returned all of them or ctx is done.
func inspectRedis(ctx context.Context, r remote.Store, logger *slog.Logger) {
	logged := make(map[redisconn.Finding]bool)
	for !inspectOnce(ctx, r, logger, logged) {
		if !delay.Wait(ctx, inspectEvery) {
			return
		}
	}
}

// inspectOnce logs the findings that were not logged before. It reports whether
// Redis returned all its settings: some masters of a Cluster may be unreachable.
func inspectOnce(ctx context.Context, r remote.Store, logger *slog.Logger, logged map[redisconn.Finding]bool) bool {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	findings, err := r.Inspect(ctx)
	for _, f := range findings {
		if logged[f] {
			continue
		}
		logged[f] = true
		level := slog.LevelInfo
		if f.Warning {
			level = slog.LevelWarn
		}
		logger.Log(ctx, level, "finding about Redis", "finding", f.Text)
	}
	return err == nil // calls report the error itself
}
