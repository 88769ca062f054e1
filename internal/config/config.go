// Package config defines the service's configuration: commented structs, the defaults
// with their reasons, and a strict loader for a file, the environment and flags.
package config

import "time"

// Config contains every option of the service. A key has one name in three
// spellings: `grpc_addr` in the file, KOALAGATE_GRPC_ADDR in the environment
// and, for some options, the flag --grpc-addr.
//
// Durations have a unit, as in 1m30s; sizes are in bytes; lists in the
// environment are separated by commas.
type Config struct {
	// Rules lists rule files, and folders in which every *.conf is a rule file; or
	// redis: alone, for the rules that `koalagate publish` keeps in Redis.
	Rules []string `koanf:"rules" validate:"dive,required"`
	// Trial lists rule files, and folders of them, that decide next to Rules without any
	// effect, and are compared with them; in place of envoyproxy/ratelimit also files of
	// limits, which end with .yaml or .yml. Empty: none.
	Trial []string `koanf:"trial" validate:"dive,required"`
	// DictRoot is the folder to which paths of word lists are relative. Empty: the
	// folder of the rule file that names them.
	DictRoot string `koanf:"dict_root"`
	// Timezone is the IANA time zone of calendar days, for rule sets that do not
	// specify one.
	Timezone string `koanf:"timezone" validate:"timezone"`
	// RequireEnd refuses rule files without [end].
	RequireEnd bool `koanf:"require_end"`
	// AllowEmptyRules accepts a rule set without any rule.
	AllowEmptyRules bool `koanf:"allow_empty_rules"`
	// WatchInterval is the interval at which the content of rule files and word
	// lists is checked; it is longer if checks take more than a twentieth of it.
	// Changes that the operating system reports are read at once.
	WatchInterval time.Duration `koanf:"watch_interval" validate:"min=100ms,max=1h"`

	// StateDir is a folder for this instance alone that keeps the last active
	// rules, which are used at startup if the rule files are invalid or published rules
	// cannot be read. Empty: none.
	StateDir string `koanf:"state_dir"`

	// MaxVersionBytes is the maximum size of a published version, in bytes: rule files,
	// word lists and tables. A larger one is refused before it is read.
	MaxVersionBytes int `koanf:"max_version_bytes" validate:"min=1024,max=536870912"`
	// KeepVersions is the number of published versions that stay in Redis.
	KeepVersions int `koanf:"keep_versions" validate:"min=2,max=1000"`
	// PublishPublicKey is the PEM file with the Ed25519 key that must have signed
	// published versions and exceptions. It requires StateDir for published rules, which
	// remembers the highest version over a restart. Empty: they need no signature.
	PublishPublicKey string `koanf:"publish_public_key"`

	GRPC

	// HTTPAddr is the listen address for nginx, Caddy, Traefik, HAProxy and Koala
	// clients: host:port, or unix:/path.
	HTTPAddr string `koanf:"http_addr" validate:"listen"`
	// ReportAddr is the listen address for nginx's access log, which reports how requests
	// ended: host:port for UDP, or unix:/path for a socket of datagrams. Empty: none.
	ReportAddr string `koanf:"report_addr" validate:"omitempty,listen"`
	// HTTPTLSCert is the PEM file with the certificate of HTTPAddr, as GRPCTLSCert.
	HTTPTLSCert string `koanf:"http_tls_cert" validate:"required_with=HTTPTLSKey HTTPTLSClientCA"`
	// HTTPTLSKey is the PEM file with the certificate's private key.
	HTTPTLSKey string `koanf:"http_tls_key" validate:"required_with=HTTPTLSCert"`
	// HTTPTLSClientCA is the PEM file with the authorities that must have issued the
	// callers' certificates. Empty: callers need none.
	HTTPTLSClientCA string `koanf:"http_tls_client_ca"`
	// HTTPHeaderTimeout is the maximum time for a request's header to arrive.
	HTTPHeaderTimeout time.Duration `koanf:"http_header_timeout" validate:"min=100ms,max=1m"`
	// HTTPReceiveTimeout is the same for a whole request, which has a body if it is a
	// form of Koala's API.
	HTTPReceiveTimeout time.Duration `koanf:"http_receive_timeout" validate:"max=10m,gtefield=HTTPHeaderTimeout"`
	// HTTPSendTimeout is the maximum time for a caller to read an answer.
	HTTPSendTimeout time.Duration `koanf:"http_send_timeout" validate:"min=100ms,max=10m"`
	// HTTPIdleTimeout is the time after which an idle connection is closed.
	HTTPIdleTimeout time.Duration `koanf:"http_idle_timeout" validate:"min=1s,max=1h"`
	// HTTPMaxConnections is the maximum number of connections. Above it, the
	// connection that has been silent longest is closed.
	HTTPMaxConnections int `koanf:"http_max_connections" validate:"min=1,max=1000000"`
	// HTTPMaxConnectionsPerPeer is the maximum number of connections from one
	// address. Above it, the one of them that has been silent longest is closed.
	HTTPMaxConnectionsPerPeer int `koanf:"http_max_connections_per_peer" validate:"min=1,max=1000000"`
	// HTTPMaxHeader is the maximum size of a request's header, in bytes.
	HTTPMaxHeader int `koanf:"http_max_header" validate:"min=4096,max=1048576"`
	// TrustedProxies lists the addresses and blocks whose HTTP checks are
	// answered, and in place of envoyproxy/ratelimit calls of /json; other peers get 403.
	TrustedProxies []string `koanf:"trusted_proxies" validate:"dive,ip|cidr"`
	// TrustedHops is the number of proxies between the client and the gateway that
	// calls, which is the number of entries to skip at the right end of
	// X-Forwarded-For.
	TrustedHops int `koanf:"trusted_hops" validate:"min=0,max=32"`
	// MalformedPaths determines the handling of a request whose path cannot be
	// decoded, or has a fragment or an encoded dot segment, or whose host is
	// malformed: refuse it, or keep path and host as received and resolve encoded
	// dot segments.
	MalformedPaths string `koanf:"malformed_paths" validate:"oneof=refuse keep"`
	// MissingAddress determines the handling of a request without an address of the
	// client, if rules use a parameter that comes from the address: refuse it, or keep
	// it, although these rules do not match.
	MissingAddress string `koanf:"missing_address" validate:"oneof=refuse keep"`
	// MaxParams is the maximum number of parameters of a request. Parameters that no rule
	// names are dropped first; parameters that rules name are always kept.
	MaxParams int `koanf:"max_params" validate:"min=16,max=1024"`
	// MaxValue is the maximum length of a parameter's value, in bytes. The rest of a
	// longer value is replaced by a digest.
	MaxValue int `koanf:"max_value" validate:"min=64,max=65536"`
	// MaxTokens is the maximum number of valid tokens that are remembered for each line of
	// [tokens], so that they are not verified again. 0 remembers none.
	MaxTokens int `koanf:"max_tokens" validate:"min=0,max=10000000"`
	// RulesMayUse lists the hosts, with ports other than 443, from which published rules may
	// have the keys of tokens fetched.
	RulesMayUse []string `koanf:"rules_may_use" validate:"dive,required,printascii"`
	// MaxDescriptors is the maximum number of descriptors in a call of the rate limit
	// service.
	MaxDescriptors int `koanf:"max_descriptors" validate:"min=1,max=1024"`
	// MaxRules is the maximum number of counting rules that one request may meet.
	MaxRules int `koanf:"max_rules" validate:"min=1,max=2048"`

	// AccelTargets lists the locations to which /v1/accel may send nginx. The
	// first is the default, if the gateway names none.
	AccelTargets []string `koanf:"accel_targets" validate:"min=1,dive,required,printascii"`

	// MaxExceptions is the maximum number of exceptions that operators make for single
	// identities.
	MaxExceptions int `koanf:"max_exceptions" validate:"min=1,max=1000000"`

	// MaxWaiting is the maximum number of calls that wait for their turns at the same
	// time, which rules with wait= grant; further calls are refused. One rule gets at
	// most half of it.
	MaxWaiting int `koanf:"max_waiting" validate:"min=1,max=1000000"`
	// ExtAuthzWait is the longest time that a check at /v1/ext-authz waits for its
	// turn; set it below the timeout of Envoy's http_service. 0s: no check waits.
	// Other checks over HTTP state it themselves: _wait=SECONDS in their URLs.
	ExtAuthzWait time.Duration `koanf:"ext_authz_wait" validate:"min=0s,max=1m"`

	// Modes are the initial modes of doors, as door=mode: observe or off, or
	// enforce, the default. They can be changed later at the admin address.
	Modes []string `koanf:"modes" validate:"dive,mode"`
	// FollowModes follows the modes of doors that operators set for all instances in Redis,
	// although the rules are files. With published rules they are followed anyway, with
	// PublishPublicKey never. Who can write to Redis can then switch limits off.
	FollowModes bool `koanf:"follow_modes"`

	// Headers is the form of the quota headers sent to clients.
	Headers string `koanf:"headers" validate:"oneof=draft10 legacy both none"`
	// RateLimitHeaders adds these headers to answers of the rate limit service,
	// for which Envoy builds x-ratelimit-* and Retry-After itself.
	RateLimitHeaders bool `koanf:"ratelimit_headers"`
	// HideDecisionHeaders omits X-Koala-Decision, X-Koala-Rule and X-Koala-Result
	// from answers to clients.
	HideDecisionHeaders bool `koanf:"hide_decision_headers"`

	// KoalaAPI is the part of Koala's own API to serve on HTTPAddr: auto is full
	// on a loopback address or Unix socket, and read on any other.
	KoalaAPI string `koanf:"koala_api" validate:"oneof=auto full read off"`
	// KoalaHosts lists the host names under which applications call Koala's API, and in
	// place of envoyproxy/ratelimit /json, in addition to IP addresses, localhost and names that only private networks have:
	// one label, or the ending .svc or .svc.cluster.local.
	KoalaHosts []string `koanf:"koala_hosts" validate:"dive,hostname_rfc1123"`
	// KoalaToken is the bearer token required from callers of Koala's API. Empty:
	// none.
	KoalaToken Secret `koanf:"koala_token" validate:"omitempty,min=8,printascii"`
	// KoalaTokenFile is a file that contains KoalaToken.
	KoalaTokenFile string `koanf:"koala_token_file"`

	// AdminAddr is the listen address for health, readiness, metrics and profiles:
	// host:port, or unix:/path.
	AdminAddr string `koanf:"admin_addr" validate:"listen"`
	// AdminTLSCert is the PEM file with the certificate of AdminAddr, as GRPCTLSCert.
	AdminTLSCert string `koanf:"admin_tls_cert" validate:"required_with=AdminTLSKey AdminTLSClientCA"`
	// AdminTLSKey is the PEM file with the certificate's private key.
	AdminTLSKey string `koanf:"admin_tls_key" validate:"required_with=AdminTLSCert"`
	// AdminTLSClientCA is the PEM file with the authorities that must have issued the
	// callers' certificates, health checks included. Empty: callers need none.
	AdminTLSClientCA string `koanf:"admin_tls_client_ca"`
	// AdminHosts lists the host names accepted at the admin address, in addition
	// to localhost and IP addresses.
	AdminHosts []string `koanf:"admin_hosts" validate:"dive,hostname_rfc1123"`
	// AdminMaxConnections is the maximum number of connections. Above it, the
	// connection that has been silent longest is closed.
	AdminMaxConnections int `koanf:"admin_max_connections" validate:"min=1,max=1000000"`
	// AdminToken is the bearer token for everything except health and readiness.
	// Empty: a loopback address or Unix socket serves everything but changes by the API
	// of operators without a token, and any other address only those two. The instance
	// then makes a token for these changes in a file in StateDir or, without one, in the
	// runtime folder of its user.
	AdminToken Secret `koanf:"admin_token" validate:"omitempty,min=8,printascii"`
	// AdminTokenFile is a file that contains AdminToken.
	AdminTokenFile string `koanf:"admin_token_file"`
	// AdminReadToken is the bearer token for everything that changes nothing, for
	// monitoring and for operators who may look only. Empty: none.
	AdminReadToken Secret `koanf:"admin_read_token" validate:"omitempty,min=8,printascii"`
	// AdminReadTokenFile is a file that contains AdminReadToken.
	AdminReadTokenFile string `koanf:"admin_read_token_file"`

	Store

	// UnixSocketMode is the permissions of sockets for unix: addresses, in octal
	// digits. Clients need write permission to connect.
	UnixSocketMode string `koanf:"unix_socket_mode" validate:"filemode"`

	// GCHeadroom is the amount of garbage, in bytes, that may accumulate before it
	// is collected, if that exceeds the memory in use. 0 leaves this to Go, which
	// collects when there is as much garbage as memory in use. GOGC or GOMEMLIMIT
	// in the environment take precedence.
	GCHeadroom int `koanf:"gc_headroom" validate:"min=0,max=17179869184"`

	// NearLimitRatio is the share of a rule's limit above which metrics count an
	// admitted request as near the limit.
	NearLimitRatio float64 `koanf:"near_limit_ratio" validate:"gt=0,lte=1"`

	// LogFormat is json or text.
	LogFormat string `koanf:"log_format" validate:"oneof=json text"`
	// LogLevel is the lowest level that is logged.
	LogLevel string `koanf:"log_level" validate:"oneof=debug info warn error"`
	// LogMaxLines is the maximum number of log lines per second, on average over ten
	// seconds. Further lines are dropped. 0 is no maximum.
	LogMaxLines int `koanf:"log_max_lines" validate:"min=0,max=1000000"`
	// LogRefusals logs, for each rule at each door, one refusal in ten seconds. Values are
	// masked as in the decision log.
	LogRefusals bool `koanf:"log_refusals"`

	// DecisionLog is the file for decisions, one JSON object per line, which
	// `koalagate replay` reads. Empty: none. SIGHUP reopens it.
	DecisionLog string `koanf:"decision_log"`
	// DecisionLogEvery writes one in so many decisions, chosen at random.
	DecisionLogEvery int `koanf:"decision_log_every" validate:"min=1,max=1000000"`
	// DecisionLogParams lists the parameters whose values are written unchanged: all,
	// masked for door, domain, method, scheme, path (without its query), the values that
	// [routes] sets and the outcomes jwt.NAME of [tokens] alone, strict for door alone, or the
	// names of further parameters, such as claims. Other values are replaced by
	// pseudonyms, which are equal for equal values until the process ends.
	DecisionLogParams []string `koanf:"decision_log_params" validate:"min=1,dive,required"`
	// DecisionLogMaxSize is the size at which the file is rotated, in bytes.
	DecisionLogMaxSize int `koanf:"decision_log_max_size" validate:"min=1048576,max=1099511627776"`
	// DecisionLogKeep is the number of rotated files to keep; 0 keeps all.
	DecisionLogKeep int `koanf:"decision_log_keep" validate:"min=0,max=10000"`

	// DrainWait is the time during which the service still accepts calls after it
	// started to report that it is not ready.
	DrainWait time.Duration `koanf:"drain_wait" validate:"min=0s,ltefield=DrainTimeout"`
	// DrainTimeout is the maximum time from the signal to the end of the process,
	// whatever callers keep open.
	DrainTimeout time.Duration `koanf:"drain_timeout" validate:"min=1s,max=5m"`
}
