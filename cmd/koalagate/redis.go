package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/store"
)

// redisOptions are what the configuration says of Redis.
func redisOptions(c *config.Config) store.RedisOptions {
	return store.RedisOptions{
		URL: c.Redis.Reveal(), Prefix: c.RedisPrefix, Budget: c.RedisBudget, Batching: store.Batching(c.RedisBatching),
		NoCountPath: !c.RedisCountPath, Refusals: refusals(c.RedisRefusals),
		Username: c.RedisUsername, Password: c.RedisPassword.Reveal(),
		SentinelUsername: c.RedisSentinelUsername, SentinelPassword: c.RedisSentinelPassword.Reveal(),
		FixedTag: c.ClusterTag == "fixed",
		TLS:      store.TLSFiles{CA: c.RedisTLSCA, Cert: c.RedisTLSCert, Key: c.RedisTLSKey, ServerName: c.RedisTLSServerName},
	}
}

// refusals is the store's option for so many: its 0 is a default.
func refusals(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// redisKeys are the keys of the options that the store may complain of.
var redisKeys = map[string]string{
	"URL":              "redis",
	"Username":         "redis_username",
	"Password":         "redis_password",
	"SentinelPassword": "redis_sentinel_password",
	"FixedTag":         "cluster_tag",
	"TLS":              "redis_tls_ca",
	"TLS.CA":           "redis_tls_ca",
	"TLS.Cert":         "redis_tls_cert",
	"TLS.Key":          "redis_tls_key",
}

// checkRedis has the store judge what the configuration says of Redis, and
// names the key, and who set it, in each complaint.
func checkRedis(l *config.Loaded) error {
	if l.Redis == "" {
		return nil
	}
	o := redisOptions(&l.Config)
	return naming(l, o.Validate())
}

// naming is the error with the key, and who set it, in place of each option
// that the store complains of.
func naming(l *config.Loaded, err error) error {
	if err == nil {
		return nil
	}
	var faults []error
	for _, err := range flat(err) {
		var wrong *store.OptionError
		if errors.As(err, &wrong) {
			key := redisKeys[wrong.Option]
			err = fmt.Errorf("%s (%s): %w", key, l.Sources[key], wrong.Err)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// flat is the errors that were joined.
func flat(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// inspectEvery is how often a Redis that was away at the start is asked for its
// settings, and inspectTime how long it may take to tell.
const (
	inspectEvery = 5 * time.Second
	inspectTime  = 2 * time.Second
)

// inspectRedis logs what may harm counting in the settings of Redis, once it
// tells them, in the background. Stop ends that.
func inspectRedis(r *store.Redis, logger *slog.Logger) (stop func()) {
	return beside(func(ctx context.Context) {
		told := make(map[store.Finding]bool)
		for !inspectOnce(ctx, r, logger, told) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(inspectEvery):
			}
		}
	})
}

// beside runs f beside the rest until stop is called, which waits for its end.
func beside(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(ctx)
	}()
	return func() { cancel(); <-ended }
}

// inspectOnce logs what was not told yet, and tells whether Redis told all its
// settings: of a Cluster, some masters may be away.
func inspectOnce(ctx context.Context, r *store.Redis, logger *slog.Logger, told map[store.Finding]bool) bool {
	ctx, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	findings, err := r.Inspect(ctx)
	for _, f := range findings {
		if told[f] {
			continue
		}
		told[f] = true
		level := slog.LevelInfo
		if f.Warning {
			level = slog.LevelWarn
		}
		logger.Log(ctx, level, "The settings of Redis", "finding", f.Text)
	}
	return err == nil // else the calls tell what is wrong
}
