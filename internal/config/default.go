package config

import "time"

// Default is the configuration where nothing is said. Listeners are on
// loopback, so that nobody opens a limiter to the world by starting it.
func Default() Config {
	return Config{
		Rules: []string{},
		// Koala's zone: its files mean their days in it.
		Timezone: "Asia/Shanghai",
		// A safety net behind the system's own reports, cheap enough to be
		// often.
		WatchInterval: 2 * time.Second,

		GRPCAddr: "127.0.0.1:9191",
		// An Envoy worker keeps one connection for ever if it may.
		GRPCMaxConnectionAge:      30 * time.Minute,
		GRPCMaxConnectionAgeGrace: 10 * time.Second,
		// An Envoy worker sends all that it has under way over one connection,
		// and holds back what is above.
		GRPCMaxStreams: 1024,
		// Envoy's own bound on request headers is 60 KiB; a buffered body may
		// come with them.
		GRPCMaxMessage: 4 << 20,
		// As many calls as are often under way: an idle one costs a few kB.
		GRPCStreamWorkers: 256,

		HTTPAddr:          "127.0.0.1:9981", // Koala's port
		HTTPHeaderTimeout: 5 * time.Second,
		// Longer than the keepalive of gateways, so that they close first and
		// never send into a connection that just went away.
		HTTPIdleTimeout: 3 * time.Minute,
		HTTPMaxHeader:   64 << 10,
		// Loopback and the private ranges: where gateways usually stand.
		TrustedProxies: []string{
			"127.0.0.0/8", "::1/128",
			"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7",
		},
		MalformedPaths: "refuse",
		AccelTargets:   []string{"@app"},

		Modes: []string{}, // a limiter that limits nothing would be no default

		Headers: "both",

		KoalaAPI: "auto",

		AdminAddr:  "127.0.0.1:9982",
		AdminHosts: []string{},

		// A Cluster is there to share the load out.
		ClusterTag: "subject",

		RedisPrefix: "koala",
		// Far above what Redis needs, and less than a person notices. A
		// caller's own deadline shortens it.
		RedisBudget: 100 * time.Millisecond,
		// At 64 callers it takes Redis a quarter of the time of a call each.
		RedisBatching: "script",
		// It takes Redis half of the time for four counters.
		RedisCountPath: true,
		// So many callers over their limit cost Redis next to nothing, for six
		// megabytes here.
		RedisRefusals: 32768,

		// Some 150 MB with a counter each: more than most gateways see in a
		// window, less than a small machine has.
		MaxIdentities: 1_000_000,
		// A limit that one instance meets is the whole one: how many there are,
		// and how evenly callers spread, only their operator knows.
		RescueShare:  1,
		FailPolicies: []string{},

		// The gateway beside us often runs as another user of the same group.
		UnixSocketMode: "0660",

		// Little beside what a machine has, and without it the few megabytes in
		// use would be looked through a hundred times a second.
		GCHeadroom: 32 << 20,

		LogFormat: "json",
		LogLevel:  "info",

		DecisionLogEvery: 1,
		// Who runs a limiter need not know who was limited.
		DecisionLogParams:  []string{"masked"},
		DecisionLogMaxSize: 100 << 20,
		DecisionLogKeep:    10,

		// Envoy's health checks and nginx's upstreams notice within a second.
		DrainWait: time.Second,
		// Orchestrators kill after ten seconds or more.
		DrainTimeout: 8 * time.Second,
	}
}
