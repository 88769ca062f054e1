package config

import (
	"time"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// Default returns the configuration without any settings. Listeners use
// loopback addresses, so that starting the service does not expose it.
func Default() Config {
	c := Config{
		Rules: []string{},
		Trial: []string{},
		// The same days everywhere; rule files that need another zone state it.
		Timezone: "UTC",
		// A fallback for missed notifications of the operating system; cheap
		// enough to run often.
		WatchInterval: 2 * time.Second,
		// Ten million words. Redis holds it in addition to the counters.
		MaxVersionBytes: 256 << 20,
		// Weeks of daily changes.
		KeepVersions: 50,

		MalformedPaths: "refuse",
		MissingAddress: "refuse",
		AccelTargets:   []string{"@app"},
		// Rule sets name far fewer, so only parameters without effect are dropped.
		MaxParams: 64,
		// Longer values are tokens, of which a digest says as much.
		MaxValue:    4 << 10,
		RulesMayUse: []string{}, // who publishes rules reaches no host
		// About 10 MB, and as many users at a time.
		MaxTokens: 10_000,
		// A request is one step in the store, which delays all other requests
		// while it takes. Envoy sends a few descriptors.
		MaxDescriptors: 1024,
		// A step with as many counters takes Redis several milliseconds.
		MaxRules: 2048,

		// About 100 MB of calls and their goroutines.
		MaxWaiting: 10_000,
		// Some 40 MB, and far more than operators make by hand.
		MaxExceptions: 100_000,

		Modes: []string{}, // every door enforces

		Headers: "both",

		KoalaAPI:   "auto",
		KoalaHosts: []string{},

		AdminAddr:  "127.0.0.1:9982",
		AdminHosts: []string{},
		// Health checks, monitoring and operators.
		AdminMaxConnections: 64,

		// A gateway on the same machine often runs as another user of the same
		// group.
		UnixSocketMode: "0660",

		// Little compared with a machine's memory. Without it the collector
		// would scan the few megabytes in use a hundred times per second.
		GCHeadroom: 32 << 20,

		// The default of envoyproxy/ratelimit.
		NearLimitRatio: 0.8,

		LogFormat: "json",
		LogLevel:  "info",
		// Callers cause a line of a kind at most every ten seconds, so only a
		// defect or the level debug comes close.
		LogMaxLines: 200,

		DecisionLogEvery: 1,
		// Operators usually need not know which users were limited.
		DecisionLogParams:  []string{"masked"},
		DecisionLogMaxSize: 100 << 20,
		DecisionLogKeep:    10,

		// Envoy's health checks and nginx's upstreams react within a second.
		DrainWait: time.Second,
		// Orchestrators kill after ten seconds or more.
		DrainTimeout: 8 * time.Second,
	}
	c.setGRPCDefaults()
	c.setHTTPDefaults()
	c.setStoreDefaults()
	return c
}

// setGRPCDefaults sets the defaults of the gRPC address.
func (c *Config) setGRPCDefaults() {
	c.GRPCAddr = "127.0.0.1:9191"
	// An Envoy worker otherwise keeps one connection forever.
	c.GRPCMaxConnectionAge = 30 * time.Minute
	c.GRPCMaxConnectionAgeGrace = 10 * time.Second
	// Each Envoy worker has one: 64 Envoys with 16 workers.
	c.GRPCMaxConnections = 1024
	// So that one address cannot take the connections of all others: 512
	// workers behind one address.
	c.GRPCMaxConnectionsPerPeer = 512
	// An Envoy worker sends all its concurrent calls over one connection,
	// and queues calls above this number.
	c.GRPCMaxStreams = 1024
	// Clients must not be able to exceed it, because gateways may let
	// rejected calls pass. Envoy limits request headers to 60 KiB, sends the
	// path twice to ext_authz, and may send one header in several
	// descriptors.
	c.GRPCMaxMessage = 512 << 10
	// Envoy sends less than 1 kB; gRPC's own default is 16 MiB.
	c.GRPCMaxHeader = 64 << 10
	// A handshake takes a few round trips. A drain waits for handshakes in
	// progress, so it is well below DrainTimeout.
	c.GRPCHandshakeTimeout = 3 * time.Second
	// gRPC's own default, 5 min, would disconnect an Envoy with a common
	// connection_keepalive.
	c.GRPCPingInterval = 5 * time.Second
	// Envoy reconnects within a millisecond when it needs to.
	c.GRPCIdleTimeout = 5 * time.Minute
	// Gateways send a message as a whole.
	c.GRPCReceiveTimeout = 5 * time.Second
	// 1024 calls of 64 KiB each.
	c.GRPCMaxUnfinished = 64 << 20
	// With the garbage of the messages the process stays below 300 MB.
	c.GRPCMaxUnfinishedTotal = 128 << 20
	// An Envoy worker cancels the calls that time out: with all of its 1024
	// concurrent calls and the usual timeout of 200 ms, 5120 per second. A
	// flood has ten times as many.
	c.GRPCMaxResets = 10_000
	// A peer changes its settings when a connection begins, and hardly ever
	// later.
	c.GRPCMaxSettings = 10
	// A common number of concurrent calls; an idle worker costs a few kB.
	c.GRPCStreamWorkers = 256
}

// setHTTPDefaults sets the defaults of the HTTP address.
func (c *Config) setHTTPDefaults() {
	c.HTTPAddr = "127.0.0.1:9981" // Koala's port
	c.HTTPHeaderTimeout = 5 * time.Second
	// Forms of Koala's API are small.
	c.HTTPReceiveTimeout = 10 * time.Second
	// Answers fit into the buffers of a connection.
	c.HTTPSendTimeout = 10 * time.Second
	// Longer than the keepalive of gateways, so that they close first and
	// never send on a connection that was just closed.
	c.HTTPIdleTimeout = 3 * time.Minute
	// Gateways without keepalive use one per concurrent request.
	c.HTTPMaxConnections = 8192
	// So that one address cannot take the connections of all others.
	c.HTTPMaxConnectionsPerPeer = 4096
	// Gateways limit the headers of clients to less, and add their own.
	c.HTTPMaxHeader = 64 << 10
	// Loopback and the private ranges, where gateways usually run.
	c.TrustedProxies = []string{
		"127.0.0.0/8", "::1/128",
		"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7",
	}
}

// setStoreDefaults sets the defaults of the stores.
func (c *Config) setStoreDefaults() {
	// A Cluster is meant to distribute the load.
	c.ClusterTag = "subject"

	c.RedisPrefix = "koala"
	// Far more than Redis needs, and too short for users to notice. A
	// caller's own deadline shortens it.
	c.RedisBudget = 100 * time.Millisecond
	// Operators wait for it, and an instance that cannot be told from one that is gone
	// delays a publish.
	c.RedisCallTimeout = redisconn.DefaultCallTimeout
	// With 64 callers it takes a quarter of the Redis time of separate calls.
	c.RedisBatching = "script"
	// So many callers over their limit cost Redis almost nothing, at the
	// price of six megabytes here.
	c.RedisRefusals = 32768

	// About 150 MB with one counter each: more identities than most
	// gateways see in a window, less memory than a small machine has.
	c.MaxIdentities = 1_000_000
	// About 50 MB with one rule each.
	c.MaxReceipts = 100_000
	// Some seconds of a busy instance; requests that last longer end their holds by time.
	c.MaxSettlementsWaiting = 10_000
	// The whole limit for each instance: only the operator knows the number
	// of instances and how evenly callers are spread.
	c.RescueShare = 1
	// What an instance holds when it is killed stays spent, so parts are short; a second
	// or two without Redis passes unnoticed.
	c.LeaseTime = 2 * time.Second
	c.FailPolicies = []string{}
}
