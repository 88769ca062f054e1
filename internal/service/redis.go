package service

import (
	"errors"
	"fmt"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// redisOptions returns the configured options of Redis.
func redisOptions(c *config.Config) redis.Options {
	return redis.Options{
		URL: c.Redis.Reveal(), Prefix: c.RedisPrefix, Budget: c.RedisBudget, Batching: redis.Batching(c.RedisBatching),
		Refusals: refusals(c.RedisRefusals),
		Username: c.RedisUsername, Password: c.RedisPassword.Reveal(),
		SentinelUsername: c.RedisSentinelUsername, SentinelPassword: c.RedisSentinelPassword.Reveal(),
		FixedTag: c.ClusterTag == "fixed",
		TLS:      redisconn.TLSFiles{CA: c.RedisTLSCA, Cert: c.RedisTLSCert, Key: c.RedisTLSKey, ServerName: c.RedisTLSServerName},
	}
}

// refusals returns the store's option for n remembered refusals. The store takes 0
// for its default.
func refusals(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// redisKeys maps the options that errors of the store name to settings.
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

// CheckRedis returns the errors in the settings of Redis that can be found without
// calling it. Each names its setting and the source of the value.
func CheckRedis(l *config.Loaded) error {
	if l.Redis == "" {
		return nil
	}
	o := redisOptions(&l.Config)
	return nameSettings(l, o.Validate())
}

// nameSettings replaces the options in errors of the store by settings and the sources of
// their values.
func nameSettings(l *config.Loaded, err error) error {
	if err == nil {
		return nil
	}
	var faults []error
	for _, err := range split(err) {
		var wrong *redisconn.OptionError
		if errors.As(err, &wrong) {
			key := redisKeys[wrong.Option]
			err = fmt.Errorf("%s (%s): %w", key, l.Sources[key], wrong.Err)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// split returns the errors that were joined.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
