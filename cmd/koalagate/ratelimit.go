package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/dropin"
	"github.com/koalagate/koalagate/internal/dropin/environ"
	"github.com/koalagate/koalagate/internal/dropin/folder"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/dropin/statistics"
	"github.com/koalagate/koalagate/internal/dropin/xds"
	"github.com/koalagate/koalagate/internal/env"
	"github.com/koalagate/koalagate/internal/service"
)

// rateLimitName is the name under which the program answers as envoyproxy/ratelimit.
const rateLimitName = "ratelimit"

// isRateLimit reports whether the program was started under the name ratelimit.
func isRateLimit(name string) bool { return filepath.Base(name) == rateLimitName }

func (p *program) rateLimitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   rateLimitName,
		Short: "Run the service in place of envoyproxy/ratelimit",
		Long: "Run the service with the environment, the addresses and the limits of envoyproxy/ratelimit.\n" +
			"A program file or link named ratelimit does so without this word, and ignores all arguments.\n" +
			"docs/moving/from-envoyproxy-ratelimit.md lists the variables.",
		Example: "  RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit REDIS_SOCKET_TYPE=tcp REDIS_URL=127.0.0.1:6379 koalagate ratelimit",

		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return p.rateLimit(c.Context()) },
	}
}

// rateLimit runs the service in place of envoyproxy/ratelimit until a signal ends it.
func (p *program) rateLimit(ctx context.Context) error {
	signal.Ignore(syscall.SIGPIPE) // a log whose reader has ended must not end the process
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt, syscall.SIGHUP)
	defer signal.Stop(stop)
	return p.rateLimitUntil(ctx, stop)
}

// rateLimitUntil runs the service until a signal arrives on stop.
func (p *program) rateLimitUntil(ctx context.Context, stop <-chan os.Signal) error {
	set, loaded, err := p.rateLimitSettings()
	if err != nil {
		return failure{err}
	}
	logger := service.NewLogger(p.stderr, &loaded.Config)
	for _, note := range set.Ignored(p.environ) {
		logger.Warn("a variable has no effect", "variable", note)
	}
	counted := statistics.New(set.NearLimitRatio)
	keeper := dropin.NewKeeper(set.MergeDomains, counted, logger)
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	defer func() { cancel(); <-watched }()
	source, err := sourceOf(set, keeper, logger)
	if err != nil {
		close(watched)
		return failure{err}
	}
	go func() { defer close(watched); source(ctx) }()
	if !set.ForceStart {
		logger.Info("waiting for the first limits")
		select {
		case <-keeper.First():
		case <-stop:
			return nil
		}
	}
	imported, err := importedOf(set, keeper, counted, logger)
	if err != nil {
		return failure{err}
	}
	s, err := service.Open(ctx, service.Options{
		Config: loaded, Log: p.stderr, Version: thisBuild().page(), Environ: p.environ, Imported: imported,
	})
	if err != nil {
		return p.rulesFailure(err)
	}
	if err := s.Run(ctx, stop, nil); err != nil {
		return failure{err}
	}
	return nil
}

// rateLimitSettings reads the variables of envoyproxy/ratelimit and the settings of
// koalagate.
func (p *program) rateLimitSettings() (*environ.Settings, *config.Loaded, error) {
	set, err := environ.Read(p.environ)
	if err != nil {
		return nil, nil, err
	}
	base, err := set.Base()
	if err != nil {
		return nil, nil, err
	}
	loaded, err := config.Load(config.Input{Base: base, File: env.Value(p.environ, "KOALAGATE_CONFIG"), Environ: environ.Own(p.environ)})
	if err != nil {
		return nil, nil, err
	}
	if limits, _ := service.LimitFiles(loaded.Trial); len(limits) > 0 && set.ConfigType != configFiles {
		return nil, nil, fmt.Errorf("trial (%s): %s has limits, but the limits in force come from a control plane (CONFIG_TYPE is %s); want rule files, or CONFIG_TYPE=%s for limits from files",
			loaded.Sources["trial"], limits[0], set.ConfigType, configFiles)
	}
	return set, loaded, service.CheckRedis(loaded)
}

// configFiles is the value of CONFIG_TYPE with which files have the limits.
const configFiles = "FILE"

// sourceOf returns a function that watches the source of the limits until its context is
// done.
func sourceOf(set *environ.Settings, keeper *dropin.Keeper, logger *slog.Logger) (func(context.Context), error) {
	if set.ConfigType == configFiles {
		f := folder.New(folder.Options{
			Root: set.RuntimeRoot, Sub: set.RuntimeSub, App: set.RuntimeApp, WatchRoot: set.RuntimeWatchRoot, NoDots: set.RuntimeNoDots, Logger: logger,
		})
		return func(ctx context.Context) { f.Run(ctx, keeper.Take) }, nil
	}
	x := &set.XDS
	c, err := xds.New(xds.Options{
		Server: x.Server, NodeID: x.NodeID, NodeMetadata: x.NodeMetadata, Headers: x.Headers, MaxMessage: x.MaxMessage,
		TLS: xds.TLS{Enabled: x.UseTLS, Cert: x.Cert, Key: x.Key, CA: x.CA, ServerName: x.ServerName}, ConnectRetry: x.ConnectRetry,
		Backoff: xds.Backoff{Initial: x.Initial, Max: x.Max, Factor: x.Factor, Jitter: x.Jitter}, Logger: logger,
	})
	if err != nil {
		return nil, fmt.Errorf("the client of the control plane: %w", err)
	}
	return func(ctx context.Context) { c.Run(ctx, keeper) }, nil
}

// importedOf returns what makes a service answer as envoyproxy/ratelimit.
func importedOf(set *environ.Settings, keeper *dropin.Keeper, counted *statistics.Statistics, logger *slog.Logger) (*service.Imported, error) {
	i := &service.Imported{
		Keeper: keeper, Statistics: counted, ClientName: set.GRPCClientName, AnyRedisName: set.Redis.TLS && set.Redis.AnyName,
		Limits: imported.Options{
			Current: keeper.Current, Statistics: counted, Windows: imported.Windows(set.Windows), FreeRefusals: set.Refused == "free",
			StopWhenOver: set.StopWhenOver, Shadow: set.ShadowMode, Quota: set.QuotaMode, Metadata: set.Metadata,
			GroupQuotas: set.Quotas == "groups", Settle: set.Settle,
		},
		Pages: dropin.Pages{
			Keeper: keeper, HealthyWithOne: set.HealthyWithOne, Profiles: set.Profiles,
			Statistics: func(w io.Writer) error { return counted.WriteText(w) },
		},
	}
	if set.Headers {
		i.Limits.Headers = &imported.Headers{Limit: set.LimitHeader, Remaining: set.RemainingHeader, Reset: set.ResetHeader}
	}
	if set.DisableStats {
		return i, nil
	}
	if set.UsePrometheus {
		mapper, err := statistics.LoadMapper(set.PrometheusMapper, set.Milliseconds)
		if err != nil {
			return nil, fmt.Errorf("PROMETHEUS_MAPPER_YAML: %w", err)
		}
		i.PrometheusAddr, i.Prometheus = set.PrometheusAddr, dropin.At(set.PrometheusPath, counted.Handler(mapper))
	}
	if set.UseStatsd {
		i.Statsd = &statistics.Statsd{
			Statistics: counted, Address: net.JoinHostPort(set.StatsdHost, strconv.Itoa(int(set.StatsdPort))),
			Interval: set.FlushInterval, Tags: set.ExtraTags, Logger: logger,
		}
	}
	return i, nil
}
