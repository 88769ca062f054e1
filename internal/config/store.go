package config

import "time"

// Store contains the options of the counters: in Redis, in process, and while Redis is
// unavailable.
type Store struct {
	// Redis is the URL of the Redis that instances share: redis://, unix://,
	// redis-sentinel:// or redis-cluster://, with rediss for TLS. Empty: each
	// instance counts on its own, in process.
	Redis RedisURL `koanf:"redis" validate:"omitempty,redisurl"`
	// RedisUsername is the Redis ACL user, if the URL has none.
	RedisUsername string `koanf:"redis_username" validate:"excluded_without=Redis"`
	// RedisPassword is the password for Redis, if the URL has none.
	RedisPassword Secret `koanf:"redis_password" validate:"excluded_without=Redis"`
	// RedisPasswordFile is a file that contains RedisPassword.
	RedisPasswordFile string `koanf:"redis_password_file"`
	// RedisSentinelUsername is the ACL user for the Sentinels.
	RedisSentinelUsername string `koanf:"redis_sentinel_username" validate:"excluded_without=Redis"`
	// RedisSentinelPassword is the password for the Sentinels.
	RedisSentinelPassword Secret `koanf:"redis_sentinel_password" validate:"excluded_without=Redis"`
	// RedisSentinelPasswordFile is a file that contains RedisSentinelPassword.
	RedisSentinelPasswordFile string `koanf:"redis_sentinel_password_file"`
	// RedisTLSCA is the PEM file with the authorities for Redis's certificate.
	// Empty: the system's. This file and the next two are read for each new
	// connection.
	RedisTLSCA string `koanf:"redis_tls_ca" validate:"excluded_without=Redis"`
	// RedisTLSCert is the PEM file with the client certificate for Redis.
	RedisTLSCert string `koanf:"redis_tls_cert" validate:"excluded_without=Redis"`
	// RedisTLSKey is the PEM file with the client certificate's private key.
	RedisTLSKey string `koanf:"redis_tls_key" validate:"excluded_without=Redis"`
	// RedisTLSServerName is the name in Redis's certificate. Empty: the host of
	// the connection.
	RedisTLSServerName string `koanf:"redis_tls_server_name" validate:"excluded_without=Redis"`
	// ClusterTag determines how counters are spread over a Redis Cluster: by
	// subject, so that the counters of one identity share a slot, or fixed, all in
	// one slot.
	ClusterTag string `koanf:"cluster_tag" validate:"oneof=subject fixed"`
	// RedisPrefix is the prefix of every key in Redis.
	RedisPrefix string `koanf:"redis_prefix" validate:"min=1,max=64,printascii,excludesall={} "`
	// RedisBudget is the maximum time that a decision waits for Redis.
	RedisBudget time.Duration `koanf:"redis_budget" validate:"min=1ms,max=10s"`
	// RedisCallTimeout is the maximum time of a call of Redis about anything but counters.
	RedisCallTimeout time.Duration `koanf:"redis_call_timeout" validate:"min=100ms,max=10s"`
	// RedisBatching determines how concurrent decisions are sent to Redis: script
	// (many in one script call), pipeline (one script call each, in one round
	// trip) or off (each separately). It does not change decisions.
	RedisBatching string `koanf:"redis_batching" validate:"oneof=script pipeline off"`
	// RedisRefusals is the number of refusals to remember, each for a second at
	// most, and to repeat without a call to Redis; 0 disables this.
	RedisRefusals int `koanf:"redis_refusals" validate:"min=0,max=10000000"`

	// MaxIdentities is the maximum number of identities with their own counters in
	// process; additional identities share counters.
	MaxIdentities int `koanf:"max_identities" validate:"min=1000,max=1000000000"`
	// MaxReceipts is the maximum number of receipts that are kept in process: of
	// requests that are not settled yet.
	MaxReceipts int `koanf:"max_receipts" validate:"min=1,max=100000000"`
	// MaxSettlementsWaiting is the maximum number of settlements that wait in process
	// while Redis is unavailable.
	MaxSettlementsWaiting int `koanf:"max_settlements_waiting" validate:"min=1,max=10000000"`
	// LeaseTime is how long an instance may hold a part of the limit of a rule with
	// lease=P% in advance.
	LeaseTime time.Duration `koanf:"lease_time" validate:"min=100ms,max=1m"`
	// RescueShare is the share of each limit that an instance admits on its own
	// while Redis is unavailable.
	RescueShare float64 `koanf:"rescue_share" validate:"gt=0,lte=1"`
	// FailPolicies are the policies of doors while Redis is unavailable, as
	// door=policy: rescue, allow, deny or gateway. They apply to rules without
	// fail=; for a rule with fail=, the stricter of both applies.
	FailPolicies []string `koanf:"fail_policies" validate:"dive,failpolicy"`
}
