package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/internal/dropin"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/dropin/statistics"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

// Imported makes a service answer as envoyproxy/ratelimit: with limits of its
// configuration, its pages and its statistics.
type Imported struct {
	Keeper *dropin.Keeper
	// Limits are the options of the door. The service sets whether rules decide, too.
	Limits imported.Options
	Pages  dropin.Pages
	// ClientName is the DNS name that the certificates of gRPC callers must have; "" for
	// any.
	ClientName string
	// AnyRedisName accepts certificates of Redis for other hosts.
	AnyRedisName bool
	// Statistics are the statistics of the door; the service adds its connections to Redis.
	Statistics *statistics.Statistics
	// Prometheus serves the statistics at PrometheusAddr; nil for none.
	Prometheus     http.Handler
	PrometheusAddr string
	// Statsd receives the statistics; nil for none.
	Statsd *statistics.Statsd
}

// NoRules returns the rule files of a program without any, which allow everything.
func NoRules() reload.Files {
	return reload.Files{Own: []rules.Source{{Name: "no rules", Text: []byte(allowAll)}}, Rules: rules.Options{AllowEmpty: true}}
}

// allowAll are the rules of a service that has imported limits only.
const allowAll = `[rules]
[result]
0 : {"Err_no":0, "Err_msg":"", "Str_reason":"Allow"}
1 : {"Err_no":0, "Err_msg":"", "Str_reason":"Allow"}
`

// files returns the configured rule files. With imported limits there may be none, which
// allows everything.
func (s *Service) files() reload.Files {
	if s.imported != nil && len(s.config.Rules) == 0 {
		return NoRules()
	}
	return s.ruleFiles()
}

// importedDoor registers the door of imported limits instead of the door of the rules.
func (s *Service) importedDoor(front *envoy.Server, own *ratelimit.Server) error {
	o := s.imported.Limits
	o.Logger, o.Rules = s.logger, len(s.config.Rules) > 0
	s.imported.Statistics.WatchConnections(func() statistics.Connections {
		l := s.app.RedisLoad()
		return statistics.Connections{Open: uint64(l.Idle + l.Used), Closed: uint64(l.Closed)}
	})
	o.Statistics = &limitCounts{Statistics: o.Statistics, metrics: s.metrics, current: o.Current, near: s.config.NearLimitRatio}
	limits, err := ratelimit.NewLimits(o, own)
	if err != nil {
		return err
	}
	s.limits.Store(limits)
	s.imported.Keeper.Watch(s.exceptions.UseLimits)
	limits.Register(front)
	front.Announce("ratelimit")
	s.imported.Pages.Decide, s.imported.Pages.Draining = limits.Decide, s.draining.Load
	return nil
}

// importedDesk returns the desk for questions about imported limits, nil for none.
func (s *Service) importedDesk() *operations.Imported {
	if s.imported == nil {
		return nil
	}
	return &operations.Imported{
		Current: s.imported.Keeper.Current,
		Look: func(ctx context.Context, domain string, entries []mapping.Entry) (*imported.Look, error) {
			return s.limits.Load().Look(ctx, domain, entries)
		},
	}
}

// limitsOf returns the function by which exceptions find imported limits, nil without any.
func (s *Service) limitsOf() exceptions.Limits {
	if s.imported == nil {
		return nil
	}
	return func(path string, values map[string]string) (rules.Match, map[string]string, error) {
		if limits := s.limits.Load(); limits != nil {
			return limits.Identify(path, values)
		}
		return rules.Match{}, nil, errors.New("the limits are not open yet")
	}
}

// valuesOf returns the parameters of the identity of a rule or an imported limit.
func (s *Service) valuesOf(m *rules.Match) []rules.Param {
	if limits := s.limits.Load(); limits != nil && isImported(m.Rule) {
		return limits.Values(m)
	}
	return m.Values()
}

// listenPrometheus opens the address of the statistics for Prometheus.
func (s *Service) listenPrometheus(ctx context.Context) error {
	if s.imported == nil || s.imported.Prometheus == nil {
		return nil
	}
	l, err := listen(ctx, s.imported.PrometheusAddr, true)
	if err != nil {
		return fmt.Errorf("PROMETHEUS_ADDR: %w%s", err, listenRemedy(err))
	}
	s.prometheusListener = l
	s.prometheus = newHTTPServer(countAnswers(s.imported.Pages.Operators.Scraped(s.imported.Prometheus), metrics.Admin, s.metrics), s.config, s.config.HTTPSendTimeout, s.logger)
	s.onClose(func() { _ = l.Close() })
	return nil
}

// importedParts returns the parts of imported limits that run with the doors.
func (s *Service) importedParts(ctx context.Context) (parts []func() error) {
	if s.imported == nil {
		return nil
	}
	if s.prometheus != nil {
		parts = append(parts, func() error { return serveHTTP(s.prometheus, s.prometheusListener) })
	}
	if s.imported.Statsd != nil {
		parts = append(parts, func() error { s.imported.Statsd.Run(ctx); return nil })
	}
	return parts
}

// endImported ends the server of the statistics.
func (s *Service) endImported() {
	if s.prometheus != nil {
		if err := s.prometheus.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.logger.Debug("closing the address of the statistics", "error", err)
		}
	}
}
