// Package environ reads the environment variables of envoyproxy/ratelimit.
//
// Settings (settings.go) has a field for each variable with an effect here, with the
// variable's name and default in its tags; Read (read.go) fills it. Settings.Base
// (base.go) turns the variables that koalagate has settings for into values of these settings.
// bounds.go lists the variables without an effect, for the log.
package environ

import "time"

// Settings are the variables of envoyproxy/ratelimit. The tag env is the name of the
// variable, default its default.
type Settings struct {
	Host      string `env:"HOST" default:"0.0.0.0"`
	Port      uint16 `env:"PORT" default:"8080"`
	GRPCHost  string `env:"GRPC_HOST" default:"0.0.0.0"`
	GRPCPort  uint16 `env:"GRPC_PORT" default:"8081"`
	GRPCUDS   string `env:"GRPC_UDS"`
	DebugHost string `env:"DEBUG_HOST" default:"0.0.0.0"`
	DebugPort uint16 `env:"DEBUG_PORT" default:"6070"`

	GRPCUseTLS            bool          `env:"GRPC_SERVER_USE_TLS"`
	GRPCCert              string        `env:"GRPC_SERVER_TLS_CERT"`
	GRPCKey               string        `env:"GRPC_SERVER_TLS_KEY"`
	GRPCClientCA          string        `env:"GRPC_CLIENT_TLS_CACERT"`
	GRPCClientName        string        `env:"GRPC_CLIENT_TLS_SAN"`
	MaxConnectionAge      time.Duration `env:"GRPC_MAX_CONNECTION_AGE" default:"24h"`
	MaxConnectionAgeGrace time.Duration `env:"GRPC_MAX_CONNECTION_AGE_GRACE" default:"1h"`

	ConfigType       string `env:"CONFIG_TYPE" default:"FILE"`
	RuntimeRoot      string `env:"RUNTIME_ROOT" default:"/srv/runtime_data/current"`
	RuntimeSub       string `env:"RUNTIME_SUBDIRECTORY"`
	RuntimeApp       string `env:"RUNTIME_APPDIRECTORY" default:"config"`
	RuntimeWatchRoot bool   `env:"RUNTIME_WATCH_ROOT" default:"true"`
	RuntimeNoDots    bool   `env:"RUNTIME_IGNOREDOTFILES"`
	MergeDomains     bool   `env:"MERGE_DOMAIN_CONFIG"`
	ForceStart       bool   `env:"FORCE_START_WITHOUT_INITIAL_CONFIG"`
	HealthyWithOne   bool   `env:"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"`

	XDS XDS

	BackendType string `env:"BACKEND_TYPE" default:"redis"`
	Redis       Redis

	StopWhenOver    bool    `env:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"`
	ShadowMode      bool    `env:"SHADOW_MODE"`
	QuotaMode       bool    `env:"QUOTA_MODE"`
	Metadata        bool    `env:"RESPONSE_DYNAMIC_METADATA"`
	NearLimitRatio  float64 `env:"NEAR_LIMIT_RATIO" default:"0.8"`
	Headers         bool    `env:"LIMIT_RESPONSE_HEADERS_ENABLED"`
	LimitHeader     string  `env:"LIMIT_LIMIT_HEADER" default:"RateLimit-Limit"`
	RemainingHeader string  `env:"LIMIT_REMAINING_HEADER" default:"RateLimit-Remaining"`
	ResetHeader     string  `env:"LIMIT_RESET_HEADER" default:"RateLimit-Reset"`

	UseStatsd        bool              `env:"USE_STATSD" default:"true"`
	StatsdHost       string            `env:"STATSD_HOST" default:"localhost"`
	StatsdPort       uint16            `env:"STATSD_PORT" default:"8125"`
	FlushInterval    time.Duration     `env:"STATS_FLUSH_INTERVAL" default:"10s"`
	DisableStats     bool              `env:"DISABLE_STATS"`
	ExtraTags        map[string]string `env:"EXTRA_TAGS"`
	UsePrometheus    bool              `env:"USE_PROMETHEUS"`
	PrometheusAddr   string            `env:"PROMETHEUS_ADDR" default:":9090"`
	PrometheusPath   string            `env:"PROMETHEUS_PATH" default:"/metrics"`
	PrometheusMapper string            `env:"PROMETHEUS_MAPPER_YAML"`
	Milliseconds     bool              `env:"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS"`

	LogLevel  string `env:"LOG_LEVEL" default:"WARN"`
	LogFormat string `env:"LOG_FORMAT" default:"text"`

	// Settings that only the drop-in has.
	Windows  string `env:"KOALAGATE_RATELIMIT_WINDOWS" default:"fixed"`
	Refused  string `env:"KOALAGATE_RATELIMIT_REFUSED" default:"counted"`
	Quotas   string `env:"KOALAGATE_RATELIMIT_QUOTAS" default:"all"`
	Settle   bool   `env:"KOALAGATE_RATELIMIT_SETTLE"`
	Profiles bool   `env:"KOALAGATE_RATELIMIT_PROFILES"`

	set map[string]bool // the variables that are set
}

// XDS are the variables of the client of a control plane.
type XDS struct {
	NodeID       string            `env:"CONFIG_GRPC_XDS_NODE_ID" default:"default"`
	NodeMetadata string            `env:"CONFIG_GRPC_XDS_NODE_METADATA"`
	Server       string            `env:"CONFIG_GRPC_XDS_SERVER_URL" default:"localhost:18000"`
	ConnectRetry time.Duration     `env:"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL" default:"3s"`
	Headers      map[string]string `env:"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"`
	UseTLS       bool              `env:"CONFIG_GRPC_XDS_SERVER_USE_TLS"`
	Cert         string            `env:"CONFIG_GRPC_XDS_CLIENT_TLS_CERT"`
	Key          string            `env:"CONFIG_GRPC_XDS_CLIENT_TLS_KEY"`
	CA           string            `env:"CONFIG_GRPC_XDS_SERVER_TLS_CACERT"`
	ServerName   string            `env:"CONFIG_GRPC_XDS_SERVER_TLS_SAN"`
	MaxMessage   int               `env:"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES"`
	Initial      time.Duration     `env:"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL" default:"10s"`
	Max          time.Duration     `env:"XDS_CLIENT_BACKOFF_MAX_INTERVAL" default:"60s"`
	Factor       float64           `env:"XDS_CLIENT_BACKOFF_RANDOM_FACTOR" default:"0.5"`
	Jitter       bool              `env:"XDS_CLIENT_BACKOFF_JITTER" default:"true"`
}

// Redis are the variables of the store.
type Redis struct {
	SocketType   string `env:"REDIS_SOCKET_TYPE" default:"unix"`
	Type         string `env:"REDIS_TYPE" default:"SINGLE"`
	URL          string `env:"REDIS_URL" default:"/var/run/nutcracker/ratelimit.sock"`
	Auth         string `env:"REDIS_AUTH"`
	SentinelAuth string `env:"REDIS_SENTINEL_AUTH"`
	TLS          bool   `env:"REDIS_TLS"`
	CA           string `env:"REDIS_TLS_CACERT"`
	Cert         string `env:"REDIS_TLS_CLIENT_CERT"`
	Key          string `env:"REDIS_TLS_CLIENT_KEY"`
	AnyName      bool   `env:"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION"`
	PerSecond    bool   `env:"REDIS_PERSECOND"`
	Prefix       string `env:"CACHE_KEY_PREFIX"`
}
