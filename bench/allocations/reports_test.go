//go:build !race

package allocations

import (
	"context"
	"io"
	"testing"

	rlqsv3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/wire"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rlqs"
)

// reports is a stream of reports, and the front that it arrives at.
type reports struct {
	grpc.ServerStream
	ctx      context.Context //nolint:containedctx // of the stream
	service  *wire.Streams
	received chan []byte
	sent     chan struct{}
}

// RegisterStreams registers the service of the stream.
func (r *reports) RegisterStreams(s *wire.Streams) { r.service = s }

// Context returns the context of the stream.
func (r *reports) Context() context.Context { return r.ctx }

// RecvMsg receives the next report.
func (r *reports) RecvMsg(m any) error {
	content, more := <-r.received
	if !more {
		return io.EOF
	}
	return m.(*wire.Message).UnmarshalBinary(content)
}

// SendMsg notes an answer.
func (r *reports) SendMsg(any) error {
	r.sent <- struct{}{}
	return nil
}

// measureReport measures a report of one bucket, and its answer.
func measureReport(t *testing.T, s store.Store) float64 {
	t.Helper()
	r := &reports{ctx: t.Context(), received: make(chan []byte), sent: make(chan struct{})}
	rlqs.New(rlqs.Options{Engine: engine.New(parse(t), wiring.CountIn(s)), Logger: quiet}).Register(r)
	ended := make(chan error, 1)
	go func() { ended <- r.service.Describe().Streams[0].Handler(nil, r) }()
	message := wiretest.Marshal(t, &rlqsv3.RateLimitQuotaUsageReports{Domain: "edge", BucketQuotaUsages: []*rlqsv3.RateLimitQuotaUsageReports_BucketQuotaUsage{{
		BucketId:    &rlqsv3.BucketId{Bucket: map[string]string{"quota": "acme"}},
		TimeElapsed: durationpb.New(0), NumRequestsAllowed: 1,
	}}})
	got := measure(t, "a report", func() bool {
		r.received <- message
		<-r.sent
		return true
	}, true)
	close(r.received)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return got
}
