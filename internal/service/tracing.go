package service

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/koalagate/koalagate/internal/env"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/spans"
)

// tracesTimeout is the time that the last spans have to reach the collector at the end.
const tracesTimeout = time.Second

// openTraces exports spans of decisions if the environment names a collector.
func (s *Service) openTraces(ctx context.Context, environ []string) error {
	if !spans.Enabled(func(name string) string { return env.Value(environ, name) }) {
		return nil
	}
	exporter, err := spans.Open(ctx, s.version.Version)
	if err != nil {
		return err
	}
	failed := &loglimit.Warner{Logger: s.logger}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		failed.Warn("spans of decisions could not be sent", "error", err)
	}))
	s.watch.Decided = exporter.Decided
	s.onClose(func() { //nolint:contextcheck // the context of Open has ended by then
		ctx, cancel := context.WithTimeout(context.Background(), tracesTimeout)
		defer cancel()
		if err := exporter.Close(ctx); err != nil {
			s.logger.Debug("closing the exporter of spans", "error", err)
		}
	})
	return nil
}
