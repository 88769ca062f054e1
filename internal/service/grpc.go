package service

import (
	"context"
	"net"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/extauthz"
	"github.com/koalagate/koalagate/internal/certificates"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rlqs"
)

// grpcDoors returns the server of the gRPC address with its doors.
func (s *Service) grpcDoors(own *certificates.Certificates) (*envoy.Server, error) {
	c, e := s.config, s.app.Engine()
	front := envoy.NewServer(envoy.Options{
		MaxConnectionAge:      c.GRPCMaxConnectionAge,
		MaxConnectionAgeGrace: c.GRPCMaxConnectionAgeGrace,
		IdleTimeout:           c.GRPCIdleTimeout,
		CallTimeout:           c.GRPCReceiveTimeout,
		MaxMessageBytes:       c.GRPCMaxMessage,
		MaxUnfinished:         int64(c.GRPCMaxUnfinished),
		MaxUnfinishedTotal:    int64(c.GRPCMaxUnfinishedTotal),
		MaxResets:             c.GRPCMaxResets,
		MaxSettings:           c.GRPCMaxSettings,
		MaxStreams:            c.GRPCMaxStreams,
		MaxHeaderBytes:        c.GRPCMaxHeader,
		HandshakeTimeout:      c.GRPCHandshakeTimeout,
		KeepaliveMinTime:      c.GRPCPingInterval,
		StreamWorkers:         c.GRPCStreamWorkers,
		DrainWait:             c.DrainWait,
		Exceeded:              func(b envoy.Bound, peer net.Addr) { s.bounds.exceeded(string(b), peer) },
		Certificates:          own,
		Watch:                 watchFront(s.metrics),
		Logger:                s.logger,
	})
	extauthz.New(extauthz.Options{
		Engine: e, Mapping: s.mappingOptions(), Presentation: presentation(c), Watch: s.watch, Logger: s.logger,
	}).Register(front)
	limits := ratelimit.New(ratelimit.Options{
		Engine: e, Mapping: s.mappingOptions(), Presentation: presentation(c), SendHeaders: c.RateLimitHeaders, Watch: s.watch, Logger: s.logger,
		MaxDescriptors: c.MaxDescriptors, TooManyDescriptors: func() { s.bounds.exceeded(boundDescriptors, nil) },
		PlainEntries: s.imported != nil && !s.imported.Limits.Settle,
	})
	if s.imported != nil {
		return front, s.importedDoor(front, limits)
	}
	limits.Register(front)
	quotas := rlqs.New(rlqs.Options{
		Engine: e, Mapping: s.mappingOptions(), Certificate: envoy.CertificateOf,
		Exceeded: func(bound string) { s.bounds.exceeded(bound, nil) }, Logger: s.logger,
	})
	quotas.Register(front)
	watchQuotas(s.metrics, quotas)
	return front, nil
}

// watchQuotas exports what Envoys have by quotas.
func watchQuotas(m *metrics.Metrics, quotas *rlqs.Server) {
	var kinds []string
	for kind := range engine.AssignmentKind(engine.AssignmentKinds) {
		kinds = append(kinds, kind.String())
	}
	m.WatchQuotas(kinds, func() metrics.Quotas { return metrics.Quotas(quotas.Stats()) })
}

// waitLimit returns the limit of the connection of a call.
func waitLimit(ctx context.Context) engine.WaitLimit {
	if waits := envoy.WaitsOf(ctx); waits != nil {
		return waits
	}
	return httpWaitLimit(ctx)
}
