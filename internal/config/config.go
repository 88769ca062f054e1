// Package config is the service's configuration: one commented struct, its
// defaults and their reasons, and a strict load from a file, the environment
// and flags.
package config

import "time"

// Config is every option of the service. A key has one name in three
// spellings: `grpc_addr` in the file, KOALAGATE_GRPC_ADDR in the environment,
// and, where there is one, the flag --grpc-addr.
//
// Durations are written with their unit, as in 1m30s; sizes are in bytes;
// lists in the environment are separated by commas.
type Config struct {
	// Rules are rule files, and folders of which every *.conf is one.
	Rules []string `koanf:"rules" validate:"dive,required"`
	// DictRoot is the folder that the paths of word lists start from. Empty:
	// the folder of the rule file that names them.
	DictRoot string `koanf:"dict_root"`
	// Timezone is the IANA name of the zone of the calendar days of rule sets
	// that state none.
	Timezone string `koanf:"timezone" validate:"timezone"`
	// RequireEnd refuses rule files without [end].
	RequireEnd bool `koanf:"require_end"`
	// AllowEmptyRules accepts a rule set without any rule.
	AllowEmptyRules bool `koanf:"allow_empty_rules"`
	// WatchInterval is the time between two looks at the content of rule files
	// and word lists. Changes that the system reports are seen at once.
	WatchInterval time.Duration `koanf:"watch_interval" validate:"min=100ms,max=1h"`

	// StateDir is a folder of this instance's own for the rules that were last in
	// force, to start with if the rule files are faulty then. Empty: none.
	StateDir string `koanf:"state_dir"`

	// GRPCAddr is where Envoy calls: host:port, or unix:/path.
	GRPCAddr string `koanf:"grpc_addr" validate:"listen"`
	// GRPCMaxConnectionAge is after what time a connection is asked to close,
	// so that callers spread over instances that came later.
	GRPCMaxConnectionAge time.Duration `koanf:"grpc_max_connection_age" validate:"min=1s,max=24h"`
	// GRPCMaxConnectionAgeGrace is how long calls of such a connection may
	// still last.
	GRPCMaxConnectionAgeGrace time.Duration `koanf:"grpc_max_connection_age_grace" validate:"min=100ms,max=10m"`
	// GRPCMaxStreams is the number of calls that one connection may have under
	// way.
	GRPCMaxStreams uint32 `koanf:"grpc_max_streams" validate:"min=1,max=1000000"`
	// GRPCMaxMessage bounds a request message, in bytes.
	GRPCMaxMessage int `koanf:"grpc_max_message" validate:"min=4096,max=67108864"`

	// GRPCStreamWorkers is the number of goroutines that stay to carry out
	// calls, which spares each call the growth of a new stack. Calls beyond it
	// get goroutines of their own, and with 0 all do.
	GRPCStreamWorkers uint32 `koanf:"grpc_stream_workers" validate:"max=65536"`

	// GRPCTLSCert is the PEM file of the certificate that GRPCAddr proves
	// itself by, those that lead to its root behind it. Empty: no TLS.
	GRPCTLSCert string `koanf:"grpc_tls_cert" validate:"required_with=GRPCTLSKey GRPCTLSClientCA"`
	// GRPCTLSKey is the PEM file of the certificate's private key.
	GRPCTLSKey string `koanf:"grpc_tls_key" validate:"required_with=GRPCTLSCert"`
	// GRPCTLSClientCA is the PEM file of the authorities whose certificates
	// callers must bring. Empty: callers need none.
	GRPCTLSClientCA string `koanf:"grpc_tls_client_ca"`

	// HTTPAddr is where nginx, Caddy, Traefik, HAProxy and Koala's clients
	// call: host:port, or unix:/path.
	HTTPAddr string `koanf:"http_addr" validate:"listen"`
	// HTTPHeaderTimeout is how long a request's header may take to arrive.
	HTTPHeaderTimeout time.Duration `koanf:"http_header_timeout" validate:"min=100ms,max=1m"`
	// HTTPIdleTimeout is how long a connection is kept without a request.
	HTTPIdleTimeout time.Duration `koanf:"http_idle_timeout" validate:"min=1s,max=1h"`
	// HTTPMaxHeader bounds a request's header, in bytes.
	HTTPMaxHeader int `koanf:"http_max_header" validate:"min=4096,max=1048576"`
	// TrustedProxies are the addresses and blocks whose HTTP checks are
	// answered; other peers get 403.
	TrustedProxies []string `koanf:"trusted_proxies" validate:"dive,ip|cidr"`
	// TrustedHops is the number of proxies between the client and the gateway
	// that asks: so many entries are passed over at the right end of
	// X-Forwarded-For.
	TrustedHops int `koanf:"trusted_hops" validate:"min=0,max=32"`
	// MalformedPaths says what holds for a request whose path cannot be
	// decoded: refuse it, or keep the path as it came.
	MalformedPaths string `koanf:"malformed_paths" validate:"oneof=refuse keep"`
	// AccelTargets are the locations that /v1/accel may send nginx to; the
	// first holds where the gateway names none.
	AccelTargets []string `koanf:"accel_targets" validate:"min=1,dive,required,printascii"`

	// Modes are the modes of doors at the start, as door=mode: enforce holds
	// unless observe or off is said. The admin address changes them later.
	Modes []string `koanf:"modes" validate:"dive,mode"`

	// Headers says in which form clients are told of their quota.
	Headers string `koanf:"headers" validate:"oneof=draft10 legacy both none"`
	// RateLimitHeaders adds these fields to answers of the rate limit service,
	// where Envoy makes x-ratelimit-* and Retry-After of its own.
	RateLimitHeaders bool `koanf:"ratelimit_headers"`
	// HideDecisionHeaders keeps X-Koala-Decision, X-Koala-Rule and
	// X-Koala-Result from clients.
	HideDecisionHeaders bool `koanf:"hide_decision_headers"`

	// KoalaAPI says how much of Koala's own API is served on HTTPAddr: auto is
	// full on a loopback or unix listener and read on any other.
	KoalaAPI string `koanf:"koala_api" validate:"oneof=auto full read off"`
	// KoalaToken is the bearer token that callers of Koala's API must bring.
	// Empty: none.
	KoalaToken Secret `koanf:"koala_token" validate:"omitempty,min=8,printascii"`
	// KoalaTokenFile is a file that holds KoalaToken.
	KoalaTokenFile string `koanf:"koala_token_file"`

	// AdminAddr is where health, readiness, metrics and profiles are served:
	// host:port, or unix:/path.
	AdminAddr string `koanf:"admin_addr" validate:"listen"`
	// AdminHosts are the names, beside localhost and plain addresses, by which
	// the admin address may be called.
	AdminHosts []string `koanf:"admin_hosts" validate:"dive,hostname_rfc1123"`
	// AdminToken is the bearer token for everything but health and readiness.
	// Empty: a loopback address or unix socket serves all without, any other
	// address only those two.
	AdminToken Secret `koanf:"admin_token" validate:"omitempty,min=8,printascii"`
	// AdminTokenFile is a file that holds AdminToken.
	AdminTokenFile string `koanf:"admin_token_file"`

	// Redis is the URL of the Redis that instances share: redis://, unix://,
	// redis-sentinel:// or redis-cluster://, and with rediss for TLS. Empty: each instance counts
	// for itself, in process.
	Redis RedisURL `koanf:"redis" validate:"omitempty,redisurl"`
	// RedisUsername is the user of Redis's ACL, where the URL names none.
	RedisUsername string `koanf:"redis_username" validate:"excluded_without=Redis"`
	// RedisPassword is the password for Redis, where the URL holds none.
	RedisPassword Secret `koanf:"redis_password" validate:"excluded_without=Redis"`
	// RedisPasswordFile is a file that holds RedisPassword.
	RedisPasswordFile string `koanf:"redis_password_file"`
	// RedisSentinelUsername is the user of the Sentinels' ACL.
	RedisSentinelUsername string `koanf:"redis_sentinel_username" validate:"excluded_without=Redis"`
	// RedisSentinelPassword is the password for the Sentinels.
	RedisSentinelPassword Secret `koanf:"redis_sentinel_password" validate:"excluded_without=Redis"`
	// RedisSentinelPasswordFile is a file that holds RedisSentinelPassword.
	RedisSentinelPasswordFile string `koanf:"redis_sentinel_password_file"`
	// RedisTLSCA is the PEM file of the authorities that Redis's certificate
	// may come from. Empty: those of the system. This file and the next two
	// are read with each new connection.
	RedisTLSCA string `koanf:"redis_tls_ca" validate:"excluded_without=Redis"`
	// RedisTLSCert is the PEM file of the certificate that Redis is shown.
	RedisTLSCert string `koanf:"redis_tls_cert" validate:"excluded_without=Redis"`
	// RedisTLSKey is the PEM file of the certificate's private key.
	RedisTLSKey string `koanf:"redis_tls_key" validate:"excluded_without=Redis"`
	// RedisTLSServerName is the name in Redis's certificate. Empty: the host
	// that is called.
	RedisTLSServerName string `koanf:"redis_tls_server_name" validate:"excluded_without=Redis"`
	// ClusterTag says how counters are spread over a Redis Cluster: by subject,
	// so that those of one identity share a slot, or fixed, all in one slot.
	ClusterTag string `koanf:"cluster_tag" validate:"oneof=subject fixed"`
	// RedisPrefix begins every key in Redis.
	RedisPrefix string `koanf:"redis_prefix" validate:"min=1,max=64,printascii,excludesall={} "`
	// RedisBudget is the most time that Redis gets for one decision.
	RedisBudget time.Duration `koanf:"redis_budget" validate:"min=1ms,max=10s"`
	// RedisBatching is how decisions that are asked for at the same time go to
	// Redis: script (many in one script call), pipeline (a script call each, in
	// one round trip) or off (each by itself). What is decided is the same.
	RedisBatching string `koanf:"redis_batching" validate:"oneof=script pipeline off"`
	// RedisCountPath has decisions that only count, as most do, take the short
	// way through the script. What is decided is the same.
	RedisCountPath bool `koanf:"redis_count_path"`
	// RedisRefusals is how many refusals are remembered, for a second at most,
	// and told without asking Redis again; 0 for none.
	RedisRefusals int `koanf:"redis_refusals" validate:"min=0,max=10000000"`

	// MaxIdentities is how many identities have counters of their own in
	// process; those beyond share counters.
	MaxIdentities int `koanf:"max_identities" validate:"min=1000,max=1000000000"`
	// RescueShare is the share of each limit that an instance admits by itself
	// while Redis is away.
	RescueShare float64 `koanf:"rescue_share" validate:"gt=0,lte=1"`
	// FailPolicies say what holds at a door while Redis is away, as
	// door=policy: rescue, allow, deny or gateway. Rules without fail= take it;
	// of a rule with one, the stricter of both holds.
	FailPolicies []string `koanf:"fail_policies" validate:"dive,failpolicy"`

	// UnixSocketMode are the permissions of the sockets of addresses that begin
	// with unix:, in octal digits. Who may write to one may call it.
	UnixSocketMode string `koanf:"unix_socket_mode" validate:"filemode"`

	// GCHeadroom is how much garbage may gather before it is collected, in
	// bytes, where that is more than what is in use; 0 leaves it to Go, which
	// collects when there is as much garbage as there is in use. GOGC or
	// GOMEMLIMIT in the environment hold in its place.
	GCHeadroom int `koanf:"gc_headroom" validate:"min=0,max=17179869184"`

	// LogFormat is json or text.
	LogFormat string `koanf:"log_format" validate:"oneof=json text"`
	// LogLevel is the least level that is logged.
	LogLevel string `koanf:"log_level" validate:"oneof=debug info warn error"`

	// DecisionLog is the file that decisions are written to, a line of JSON
	// each, which `koalagate replay` reads. Empty: none. SIGHUP opens it anew.
	DecisionLog string `koanf:"decision_log"`
	// DecisionLogEvery has one in so many decisions written, at random.
	DecisionLogEvery int `koanf:"decision_log_every" validate:"min=1,max=1000000"`
	// DecisionLogParams says which values of parameters are written as they
	// are: all, masked for none, or the names of these parameters. The others
	// are pseudonyms, equal for equal values until the process ends.
	DecisionLogParams []string `koanf:"decision_log_params" validate:"min=1,dive,required"`
	// DecisionLogMaxSize is the size from which the file moves aside, in bytes.
	DecisionLogMaxSize int `koanf:"decision_log_max_size" validate:"min=1048576,max=1099511627776"`
	// DecisionLogKeep is how many such files are kept; 0 keeps all.
	DecisionLogKeep int `koanf:"decision_log_keep" validate:"min=0,max=10000"`

	// DrainWait is how long the service still takes calls after it began to
	// say that it is going away.
	DrainWait time.Duration `koanf:"drain_wait" validate:"min=0s,ltefield=DrainTimeout"`
	// DrainTimeout is the time from the signal to the end of the process,
	// whatever callers keep open.
	DrainTimeout time.Duration `koanf:"drain_timeout" validate:"min=1s,max=5m"`
}
