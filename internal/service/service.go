// Package service runs koalagate as a service for gateways. It adds listeners, doors,
// metrics, logs and a graceful end to an app, and configures all of them from the
// settings. Tests start it in process; cmd/koalagate adds flags and signals.
package service

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/internal/admin"
	"github.com/koalagate/koalagate/internal/app"
	"github.com/koalagate/koalagate/internal/audit"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/fleet/minutes"
	"github.com/koalagate/koalagate/internal/fleet/modes"
	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/identities"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/operations"
	redisstore "github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/internal/tokens/keyset"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/internal/traffic"
	"github.com/koalagate/koalagate/nginx"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

// Options are the options of Open. Config and Log are required.
type Options struct {
	Config *config.Loaded
	// Log receives the lines of the log.
	Log io.Writer
	// Version identifies the program on pages, in metrics and in the log.
	Version admin.Version
	// Environ is the environment of the process. If it has GOGC or GOMEMLIMIT,
	// the garbage collector is left alone. NOTIFY_SOCKET names systemd's socket.
	Environ []string
	// Imported makes the service answer as envoyproxy/ratelimit; nil for none.
	Imported *Imported
}

// Service is an open service: its addresses accept connections, which Run serves.
type Service struct {
	config     *config.Config
	zone       string // the time zone that the settings state; "" for none
	version    admin.Version
	environ    []string
	logger     *slog.Logger
	app        *app.App
	desk       *operations.Desk
	tokens     *tokens.Ring
	keys       *keyset.Keeper
	exceptions *exceptions.Keeper
	trail      *audit.Trail
	minutes    *minutes.Records // nil without Redis
	fleetModes *modes.Keeper    // nil unless this instance follows them
	traffic    *traffic.Recorder
	heavy      *heavy.Recorder
	identities *identities.Memory
	trials     *trials
	modes      *engine.Modes
	metrics    *metrics.Metrics
	bounds     *boundLog
	watch      *door.Watch
	draining   atomic.Bool

	listeners *listeners
	front     *envoy.Server
	web       *http.Server
	admin     *http.Server
	decisions *decisionLog
	refusals  *refusalLog // nil unless the settings ask for it
	closers   []func()    // called in reverse order

	imported           *Imported                        // nil for none
	limits             atomic.Pointer[ratelimit.Limits] // of imported limits
	prometheus         *http.Server
	prometheusListener net.Listener
}

// Open reads the rules, opens the counters and the logs, and listens at the addresses. For
// rules with errors the error wraps a *reload.FindingsError; errors of settings name the
// setting and its source. The caller must call Run, or Close if it does not.
func Open(ctx context.Context, o Options) (*Service, error) {
	c := &o.Config.Config
	s := &Service{config: c, zone: statedZone(o.Config), version: o.Version, environ: o.Environ, imported: o.Imported}
	s.metrics = metrics.New(metrics.Build{Version: o.Version.Version, Revision: o.Version.Revision})
	s.logger = newLogger(o.Log, c, s.metrics, o.Imported != nil)
	mask := trace.NewMask(c.DecisionLogParams)
	s.decisions = &decisionLog{logger: s.logger, mask: mask}
	if c.LogRefusals {
		s.refusals = newRefusalLog(s.logger, mask)
	}
	s.bounds = newBoundLog(s.metrics, s.logger)
	s.watch = watchDoors(s.metrics)
	s.metrics.Configured(metrics.Config{Hash: c.Hash(), Store: storeOf(c)})
	if err := s.open(ctx, &o); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Service) open(ctx context.Context, o *Options) (err error) {
	c := s.config
	s.modes = startModes(c, s.metrics, s.logger)
	if err := s.openApp(); err != nil { //nolint:contextcheck // Close ends the background work that it starts
		return nameSettings(o.Config, err)
	}
	// Not earlier: the live heap grows fast while the first word lists load, and a
	// setting for a small heap would then cause many collections.
	s.onClose(calmCollector(c.GCHeadroom, o.Environ))
	if err := s.decisions.open(c, s.metrics); err != nil {
		return err
	}
	s.onClose(s.decisions.close)
	if err := s.openTraces(ctx, o.Environ); err != nil {
		return err
	}
	secured, err := loadCertificates(c, s.imported, s.logger)
	if err != nil {
		return err
	}
	if s.listeners, err = listenAll(ctx, c, s.imported != nil); err != nil {
		return err
	}
	s.onClose(s.listeners.close)
	if err := s.listenPrometheus(ctx); err != nil {
		return err
	}
	limits := s.limitListeners()
	s.watchConnections(secured)
	s.listeners.http = secure(watchingListener{s.listeners.http, s.bounds.exceeded}, secured.http)
	s.listeners.admin = secure(s.listeners.admin, secured.admin)
	if s.front, err = s.grpcDoors(secured.grpc); err != nil { //nolint:contextcheck // the server ends with its Drain
		return err
	}
	rules := s.app.Rules()
	s.front.SetServing(rules.IsReady())
	s.web = newHTTPServer(countAnswers(closeWhileDraining(s.httpDoors(), &s.draining), metrics.HTTP, s.metrics), c, c.HTTPSendTimeout, s.logger)
	s.web.ConnContext = newHTTPWaits(limits.http, c.HTTPMaxConnectionsPerPeer).connect
	s.admin = newHTTPServer(countAnswers(s.adminPages(), metrics.Admin, s.metrics), c, profileTimeout, s.logger)
	return nil
}

// openApp opens the rules, the counters and the engine.
func (s *Service) openApp() error {
	c, m := s.config, s.metrics
	if err := s.openExceptions(); err != nil {
		return err
	}
	s.openTraffic()
	counts, refusals := newRuleCounts(m, s.heavy, c.NearLimitRatio), operations.NewRefusals()
	s.trials = newTrials(s)
	s.watch.Mapped = s.trials.mapped
	s.openTokens()
	o := s.appOptions(counts, refusals)
	if err := s.openPublished(&o); err != nil {
		return err
	}
	opened, err := app.Open(o)
	if err != nil {
		return err
	}
	s.app = opened
	drafts := s.files().Rules
	drafts.OpenToken = s.draftToken()
	s.desk = operations.New(operations.Options{
		Engine: opened.Engine(), Mapping: s.mappingOptions(), MaxHeader: c.HTTPMaxHeader, MaxRules: c.MaxRules, Refusals: refusals, Rules: drafts, Presentation: presentation(c), Imported: s.importedDesk(),
		Log: operations.DecisionLog{Path: c.DecisionLog, Every: c.DecisionLogEvery}, Mask: s.decisions.mask.InIdentity, Identities: s.identities,
	})
	s.onClose(func() {
		if err := opened.Close(); err != nil {
			s.logger.Debug("closing Redis", "error", err)
		}
	})
	if s.fleetModes != nil {
		s.work(s.fleetModes.Run)
	}
	s.work(s.exceptions.Run) // not earlier: the log of the Redis client is set by now
	s.work(s.traffic.Run)
	s.work(s.heavy.Run)
	if err := s.trials.open(); err != nil {
		return err
	}
	s.watchApp()
	return nil
}

// appOptions returns the options of the app, with hooks for metrics and logs.
func (s *Service) appOptions(counts *ruleCounts, refusals *operations.Refusals) app.Options {
	c, m := s.config, s.metrics
	o := app.Options{
		Exceptions: s.exceptions.Engine(),
		Files:      s.files(), WatchInterval: c.WatchInterval, StateDir: c.StateDir,
		RedisName: c.Redis.String(), Supervise: true, MaxIdentities: c.MaxIdentities, MaxReceipts: c.MaxReceipts,
		MaxSettlementsWaiting: c.MaxSettlementsWaiting, RescueShare: c.RescueShare, LeaseTime: c.LeaseTime,
		MaxWaiting: c.MaxWaiting, LimitWaits: waitLimit,
		Policies: failPolicies(c), Modes: s.modes, MaxRules: c.MaxRules, Logger: s.logger,
		Hooks: app.Hooks{
			Rules: s.observeRules(),
			Set: func(set *rules.Set) {
				counts.load(set)
				s.exceptions.Use(set)
				s.decisions.mask.Use(set)
				s.keys.Use(keyset.InForce, set)
				s.keys.Await()
			},
			Expected:           func(ctx context.Context, set *rules.Set) { s.exceptions.Expect(ctx, set); s.keys.Await() },
			Forgotten:          s.exceptions.Forget,
			Matches:            observeMatches(counts, refusals.Observe),
			Reported:           counts.observeReport,
			Decision:           s.trials.observing(observeDecisions(m, newObservedLog(s.logger), s.refusals, s.decisions)),
			Evaluated:          m.Evaluated,
			Degraded:           m.Degraded,
			Damaged:            m.Damaged,
			Lag:                m.Lagged,
			Evicted:            m.Evicted,
			TooManyRules:       func() { s.bounds.exceeded(boundRules, nil) },
			TooManyWaiting:     func() { s.bounds.exceeded(boundWaiting, nil) },
			TooManySettlements: func() { s.bounds.exceeded(boundSettlements, nil) },
			SettlementGivenUp:  func() { s.bounds.exceeded(boundSettlementTime, nil) },
		},
	}
	o.Hooks.Settled, o.Hooks.Renewed = s.trials.settling(observeSettlements(m, s.decisions, s.logger))
	if c.Redis != "" {
		redis := redisOptions(c)
		redis.TLS.AnyName = s.imported != nil && s.imported.AnyRedisName
		m.WatchTrips(redisstore.TripFaults)
		o.Redis, o.Hooks.RoundTrip, o.Hooks.Script = &redis, m.RoundTrip, m.Script
		redisconn.LogClient(func(message string) { s.logger.Debug("message of the Redis client", "message", message) })
	}
	return o
}

// watchApp exports the numbers that the app keeps.
func (s *Service) watchApp() {
	m := s.metrics
	m.WatchMemory(s.app.Identities, s.app.Shared)
	m.WatchReceipts(s.app.Receipts)
	m.WatchReports(nginx.DroppedReasons())
	m.WatchExceptions(s.exceptions.Counts)
	m.WatchSettlements(s.app.SettlementsWaiting)
	m.WatchWaiting(s.app.Engine().Waiting)
	if s.config.Redis != "" {
		watchRedis(m, s.app)
	}
}

// watchRedis exports the use of Redis.
func watchRedis(m *metrics.Metrics, a *app.App) {
	m.WatchRedis(func() metrics.RedisCalls {
		n, _ := a.RedisCalls()
		return metrics.RedisCalls{
			Decisions: n.Plans, Scripts: n.Scripts, Remembered: n.Remembered, Stranded: n.Stranded, PoolTimeouts: a.RedisLoad().PoolTimeout,
		}
	}, func() metrics.RedisLoad {
		l := a.RedisLoad()
		return metrics.RedisLoad{Flying: l.Flying, Waiting: l.Waiting, Idle: l.Idle, Used: l.Used}
	})
	m.WatchLeases(func() metrics.Leases {
		l := a.Leases()
		return metrics.Leases{Held: l.Held, Spent: l.Spent, Returned: l.Returned, Lost: l.Lost, Early: l.Early}
	})
}

func (s *Service) onClose(f func()) { s.closers = append(s.closers, f) }

// Close closes everything that Open opened. Run does so itself.
func (s *Service) Close() {
	for len(s.closers) > 0 {
		last := len(s.closers) - 1
		s.closers[last]()
		s.closers = s.closers[:last]
	}
}

// Addresses are the addresses that a service listens at, as settings name them.
type Addresses struct {
	GRPC, HTTP, Admin string
	Report            string // "" without report_addr
}

// Addresses returns the addresses of the service, with the ports that the system
// chose for port 0.
func (s *Service) Addresses() Addresses {
	return Addresses{GRPC: addressOf(s.listeners.grpc), HTTP: addressOf(s.listeners.http), Admin: addressOf(s.listeners.admin), Report: packetAddress(s.listeners.report)}
}
