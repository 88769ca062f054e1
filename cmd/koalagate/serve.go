package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/extauthz"
	"github.com/koalagate/koalagate/internal/admin"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

func (p *program) serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve --rules PATH…",
		Short: "Answer gateways",
		Long: "Answer gateways by the rules until SIGTERM, which drains; a second one ends at once.\n" +
			"SIGHUP reads the rules again; changes of the files are seen without.\n" +
			"Every flag is also KOALAGATE_…: KOALAGATE_RULES for --rules. The other options, most of them,\n" +
			"are KOALAGATE_… and keys of the --config file; `koalagate config print` shows all.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q means nothing here; rule files are given by --rules PATH", args[0])
			}
			return nil
		},
	}
	s := addSettings(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		loaded, err := s.load(p.environ)
		if err != nil {
			return err
		}
		if len(loaded.Rules) == 0 {
			return errors.New("there are no rules; give --rules PATH, KOALAGATE_RULES, or rules in the --config file")
		}
		return p.serve(c.Context(), loaded)
	}
	return c
}

// serve wires the service and runs it to its end.
func (p *program) serve(ctx context.Context, loaded *config.Loaded) error {
	c := &loaded.Config
	logger := newLogger(p.stderr, c)
	// Else the next line of the log would end the process once its reader is gone.
	signal.Ignore(syscall.SIGPIPE)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)

	b := thisBuild()
	m := metrics.New(metrics.Build{Version: b.version, Revision: b.revision})
	loader := reload.New(reload.Options{Files: ruleFiles(c), Interval: c.WatchInterval, StateDir: c.StateDir, Notify: observeRules(m), Logger: logger})
	set, err := p.firstRules(loader)
	if err != nil {
		return err
	}
	// Not before: what is in use grows fast while the first word lists load, and
	// a setting for the little would have as much garbage gather many times over.
	defer p.calmCollector(c)()
	store, err := openCounters(c, m, logger) //nolint:contextcheck // what it starts ends with close
	if err != nil {
		return failure{naming(loaded, err)}
	}
	defer store.close()
	decisions, err := openDecisionLog(c, m, logger)
	if err != nil {
		return failure{err}
	}
	defer decisions.close()
	modes := startModes(c, m, logger)
	decide := engine.New(set, wiring.CountIn(store), engine.WithModes(modes), engine.WithPolicies(failPolicies(c)), engine.Observe(observeDecisions(m, newObservedLog(logger), decisions)))

	certificates, err := grpcCertificates(c, logger)
	if err != nil {
		return failure{err}
	}
	l, err := listenAll(ctx, c)
	if err != nil {
		return failure{err}
	}
	defer l.close()
	var draining atomic.Bool
	s := &service{
		logger: logger, drainWait: c.DrainWait, drainTimeout: c.DrainTimeout,
		listeners: l, draining: &draining, loader: loader, apply: decide.Swap, hangup: hangup, reopen: decisions.reopen,
		front: grpcDoors(c, decide, certificates, logger), //nolint:contextcheck // the front ends with its Drain
		web:   newHTTPServer(closing(httpDoors(c, decide, store, isLocal(l.http), logger), &draining), c, writeTimeout, logger),
		admin: newHTTPServer(adminPages(c, m, modes, b, !isLocal(l.admin), func() admin.Status {
			return status(loader.State(), store, draining.Load())
		}), c, profileTimeout, logger),
	}
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(stop)
	// Now that a signal drains: whoever waits for this line may send one at once.
	logger.Info("serving", "grpc", addressOf(l.grpc), "http", addressOf(l.http), "admin", addressOf(l.admin),
		"store", store.kind(), "redis", c.Redis.String(), "generation", loader.State().Generation, "version", b.version)
	return s.run(ctx, stop)
}

// ruleFiles says where the rules are.
func ruleFiles(c *config.Config) reload.Files {
	return reload.Files{
		Paths: c.Rules, DictRoot: c.DictRoot,
		Rules: rules.Options{Timezone: c.Timezone, RequireEnd: c.RequireEnd, AllowEmpty: c.AllowEmptyRules},
	}
}

// firstRules loads the rules of the start. A service without them would let
// everything through, so it does not start with faulty ones.
func (p *program) firstRules(loader *reload.Reloader) (*rules.Set, error) {
	set, list, err := loader.First()
	if err != nil {
		return nil, failed("the rules cannot be read: %w", err)
	}
	if list.HasErrors() {
		findings.WriteText(p.stderr, list)
		return nil, failed("the rules are faulty, so there is nothing to serve by")
	}
	return set, nil
}

// grpcCertificates are those of the gRPC address, nil where it has none.
func grpcCertificates(c *config.Config, logger *slog.Logger) (*envoy.Certificates, error) {
	if c.GRPCTLSCert == "" {
		return nil, nil
	}
	files := envoy.CertificateFiles{Cert: c.GRPCTLSCert, Key: c.GRPCTLSKey, ClientCA: c.GRPCTLSClientCA}
	certificates, err := envoy.LoadCertificates(files, logger)
	if err != nil {
		return nil, fmt.Errorf("the TLS of grpc_addr: %w", err)
	}
	return certificates, nil
}

// grpcDoors is everything that the gRPC address serves.
func grpcDoors(c *config.Config, e *engine.Engine, certificates *envoy.Certificates, logger *slog.Logger) *envoy.Server {
	front := envoy.NewServer(envoy.Options{
		MaxConnectionAge:      c.GRPCMaxConnectionAge,
		MaxConnectionAgeGrace: c.GRPCMaxConnectionAgeGrace,
		MaxMessageBytes:       c.GRPCMaxMessage,
		MaxStreams:            c.GRPCMaxStreams,
		StreamWorkers:         c.GRPCStreamWorkers,
		DrainWait:             c.DrainWait,
		Certificates:          certificates,
		Logger:                logger,
	})
	extauthz.New(extauthz.Options{
		Engine: e, Mapping: mappingOptions(c), Presentation: presentation(c), Logger: logger,
	}).Register(front)
	ratelimit.New(ratelimit.Options{
		Engine: e, Mapping: mappingOptions(c), Presentation: presentation(c), SendHeaders: c.RateLimitHeaders, Logger: logger,
	}).Register(front)
	return front
}

// adminPages is everything that the admin address serves.
func adminPages(c *config.Config, m *metrics.Metrics, modes *engine.Modes, b build, isExposed bool, status func() admin.Status) http.Handler {
	return admin.New(admin.Options{
		Status: status, Metrics: m.Handler(), Modes: modes, Version: b.page(),
		Hosts: c.AdminHosts, Token: c.AdminToken.Reveal(), Exposed: isExposed,
	})
}

// status is what /readyz says.
func status(s reload.State, store *counters, isDraining bool) admin.Status {
	now := admin.Status{
		Ready: s.Generation > 0 && !isDraining, Generation: s.Generation, Hash: s.Hash, Rules: s.Rules,
		LoadedAt: s.LoadedAt, LastError: s.LastError, Store: store.kind(), StoreError: store.fault(),
	}
	if s.Restored {
		now.RestoredFrom = &s.SavedAt
	}
	switch {
	case isDraining:
		now.Reason = "draining"
	case s.Generation == 0:
		now.Reason = "the rules are not loaded"
	}
	return now
}
