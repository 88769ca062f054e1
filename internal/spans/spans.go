// Package spans exports a span of OpenTelemetry for each decision, by OTLP.
package spans

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/mapping"
)

// Exporter sends spans to a collector. It is safe for concurrent use.
type Exporter struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	context  propagation.TraceContext
}

// Enabled reports whether the environment names a collector: OTEL_EXPORTER_OTLP_ENDPOINT
// or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, unless OTEL_SDK_DISABLED is true or
// OTEL_TRACES_EXPORTER is none.
func Enabled(lookup func(string) string) bool {
	if strings.EqualFold(lookup("OTEL_SDK_DISABLED"), "true") || lookup("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return lookup("OTEL_EXPORTER_OTLP_ENDPOINT")+lookup("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Open returns an exporter that the OTEL_* variables of the environment configure. It
// does not wait for the collector. The caller must close it.
func Open(ctx context.Context, version string) (*Exporter, error) {
	var client sdktrace.SpanExporter
	var err error
	switch protocol := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") + os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"); {
	case strings.HasPrefix(protocol, "grpc"):
		client, err = otlptracegrpc.New(ctx)
	default:
		client, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("the exporter of traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "koalagate"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("the resource of traces: %w", err)
	}
	e := &Exporter{provider: sdktrace.NewTracerProvider(sdktrace.WithBatcher(client), sdktrace.WithResource(about))}
	e.tracer = e.provider.Tracer("github.com/koalagate/koalagate")
	return e, nil
}

// Close sends the buffered spans, until ctx is done.
func (e *Exporter) Close(ctx context.Context) error { return e.provider.Shutdown(ctx) }

// Decided exports the span of a decision that began at a time; see door.Watch.
func (e *Exporter) Decided(ctx context.Context, q *door.Question, began time.Time, d *engine.Decision, err error) {
	parent := e.context.Extract(ctx, carrier{q})
	_, span := e.tracer.Start(parent, "decide "+q.Request.Door, trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("koalagate.door", q.Request.Door))
	if id := q.RequestID(); id != "" {
		span.SetAttributes(attribute.String("koalagate.request_id", id))
	}
	if err != nil {
		span.SetStatus(codes.Error, "not decided")
		return
	}
	span.SetAttributes(
		attribute.String("koalagate.verdict", verdictOf(d)),
		attribute.Float64("koalagate.store_seconds", d.StoreTime.Seconds()),
		attribute.Bool("koalagate.degraded", d.Degraded))
	for i := range d.Answers {
		if rule := d.Answers[i].Decider; rule != nil {
			span.SetAttributes(attribute.Int64("koalagate.rule", rule.Return), attribute.String("koalagate.rule_name", rule.Name))
			return
		}
	}
}

// verdictOf returns the verdict of a decision in words.
func verdictOf(d *engine.Decision) string {
	if d.Unavailable {
		return "unavailable"
	}
	return d.Verdict.String()
}

// carrier has the headers of a gateway's call and of its request.
type carrier struct{ q *door.Question }

// Get returns the value of the gateway's own metadata, else of the request's header.
func (c carrier) Get(name string) string {
	for _, from := range []mapping.Headers{c.q.Metadata, c.q.Request.Headers} {
		if from == nil {
			continue
		}
		if value, found := from.Header(name); found {
			return value
		}
	}
	return ""
}

// Set does nothing: the headers are only read.
func (carrier) Set(string, string) {}

// Keys returns the names that are read.
func (carrier) Keys() []string { return []string{"traceparent", "tracestate"} }
