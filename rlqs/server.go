// Package rlqs is the door of Envoy's rate limit quota filters, the service
// envoy.service.rate_limit_quota.v3.RateLimitQuotaService.
//
// Such an Envoy decides by itself. It opens one stream per domain, reports every five
// seconds how many requests each of its buckets admitted and denied, and gets a token bucket
// for each. The store reserves what is assigned, so that the limits hold over all Envoys and
// all other doors.
//
// A report takes these steps: stream.go receives it; request.go reads it in wire form;
// bucket.go keeps what is known of a bucket, derives its parameters as the rate limit
// service does from a descriptor, and has the engine assign its share; response.go appends
// the RateLimitQuotaResponse in wire form. Once a second the same happens for all buckets in
// use, so that shares follow the demand and changed rules.
//
// The package serves package internal/service: its API may change in any release. Go
// programs use the packages koalagate, engine, rules and middleware.
package rlqs

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	rlqsv3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/wire"
)

// The bounds of the door. A bucket with an id of 100 bytes takes about 1 kB.
const (
	maxStreams         = 1000
	maxBuckets         = 50_000
	maxBucketsOfStream = 10_000
	maxID              = 1024 // bytes
	maxIdentity        = 256  // bytes of koala-envoy
)

// The names of bounds that Options.Exceeded is called with.
const (
	BoundStreams = "quota_streams" // too many streams, or one whose peer does not read
	BoundBuckets = "quota_buckets" // too many buckets
	BoundID      = "quota_id"      // an id that is too long, or not UTF-8
)

// Options configure the door. Only Engine is required.
type Options struct {
	Engine  *engine.Engine
	Mapping mapping.Options
	// Certificate returns the certificate of a call's peer in DER form, nil without one.
	// It may be nil.
	Certificate func(context.Context) []byte
	// Exceeded is called with the name of each bound that is exceeded. It must return at
	// once. It may be nil.
	Exceeded func(bound string)
	// Logger receives what cannot be assigned. The default is slog.Default.
	Logger *slog.Logger
}

// Server is the door. It is safe for concurrent use. It has no goroutine without a stream.
type Server struct {
	gate        door.Gate
	certificate func(context.Context) []byte
	exceeded    func(string)
	unassigned  unassigned
	failed      loglimit.Warner
	questions   door.Pool[door.Question]
	buckets     atomic.Int64
	counts      counts

	mu      sync.Mutex
	streams map[*stream]struct{}
}

// New returns the door to an engine.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Certificate == nil {
		o.Certificate = func(context.Context) []byte { return nil }
	}
	if o.Exceeded == nil {
		o.Exceeded = func(string) {}
	}
	return &Server{
		gate:        door.Gate{Engine: o.Engine, Mapping: o.Mapping},
		certificate: o.Certificate, exceeded: o.Exceeded,
		unassigned: unassigned{logger: o.Logger}, failed: loglimit.Warner{Logger: o.Logger},
		streams: make(map[*stream]struct{}),
	}
}

// Register registers the door on a front, which is an envoy.Server.
func (s *Server) Register(front wire.StreamFront) {
	front.RegisterStreams(wire.NewStreams(&rlqsv3.RateLimitQuotaService_ServiceDesc, s.serve))
}

// serve answers the reports of a stream until it ends.
func (s *Server) serve(g grpc.ServerStream) error {
	t := s.open(g)
	if t == nil {
		s.exceeded(BoundStreams)
		return status.Errorf(codes.ResourceExhausted, "%d streams are open; want fewer gateways for an instance", maxStreams)
	}
	defer s.close(t)
	return t.run()
}

// open returns a new stream, nil if there are too many.
func (s *Server) open(g grpc.ServerStream) *stream {
	t := &stream{server: s, grpc: g, identity: s.identityOf(g.Context()), buckets: make(map[string]*bucket)}
	t.nonce = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) >= maxStreams {
		return nil
	}
	s.streams[t] = struct{}{}
	return t
}

// close forgets a stream. What its Envoy has stays reserved in the store, so that the Envoy can
// go on with it through another stream.
func (s *Server) close(t *stream) {
	s.buckets.Add(-int64(len(t.buckets)))
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, t)
}

// identityKey is the key of the metadata that names an Envoy.
const identityKey = "koala-envoy"

// identityOf returns what identifies the Envoy of a call, "" if nothing does. A name and a
// certificate are never equal.
func (s *Server) identityOf(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, name := range md.Get(identityKey) {
		if name != "" {
			return "name " + name[:min(len(name), maxIdentity)]
		}
	}
	if certificate := s.certificate(ctx); len(certificate) > 0 {
		return "certificate " + string(certificate)
	}
	return ""
}

// reserve counts a bucket more, and reports whether there is room for it.
func (s *Server) reserve() bool {
	if s.buckets.Add(1) > maxBuckets {
		s.buckets.Add(-1)
		return false
	}
	return true
}

// assign has the engine answer a usage of a bucket in a domain.
func (s *Server) assign(ctx context.Context, domain string, b *bucket, u *engine.Usage) (*engine.Assignment, error) {
	q := s.questions.Get()
	defer s.questions.Put(q)
	defer q.Reset()
	q.Request = mapping.Request{Door: doorname.Quota, Domain: domain, Entries: b.entries}
	a, err := s.gate.Assign(ctx, q, s.gate.Hit(q), u)
	s.counts.add(u, a)
	return a, err
}

// Stats are what the door holds now, and counts since the start.
type Stats struct {
	Streams, Buckets int64
	Rate             float64          // hits per second of all shares
	Lent             float64          // the largest part of a limit that gateways hold
	Assigned         map[string]int64 // answers, by the word for their kind
	Allowed, Denied  int64            // reported hits
	Forfeited, Debt  int64            // as in an engine.Assignment
	Received, Sent   int64            // messages
}

// counts are the counts in Stats.
type counts struct {
	assigned                         [engine.AssignmentKinds]atomic.Int64
	allowed, denied, forfeited, debt atomic.Int64
	received, sent                   atomic.Int64
}

// add counts a usage and its answer, nil after an error.
func (c *counts) add(u *engine.Usage, a *engine.Assignment) {
	const most = 1 << 40 // of a report
	c.allowed.Add(int64(min(u.Allowed, most)))
	c.denied.Add(int64(min(u.Denied, most)))
	if a == nil {
		return
	}
	c.assigned[a.Kind].Add(1)
	c.forfeited.Add(a.Forfeited)
	c.debt.Add(a.Debt)
}

// Stats returns the statistics.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	streams := slices.Collect(maps.Keys(s.streams))
	s.mu.Unlock()
	c := &s.counts
	all := Stats{
		Streams: int64(len(streams)), Buckets: s.buckets.Load(), Assigned: make(map[string]int64, len(c.assigned)),
		Allowed: c.allowed.Load(), Denied: c.denied.Load(), Forfeited: c.forfeited.Load(), Debt: c.debt.Load(),
		Received: c.received.Load(), Sent: c.sent.Load(),
	}
	for kind := range c.assigned {
		all.Assigned[engine.AssignmentKind(kind).String()] = c.assigned[kind].Load()
	}
	now := time.Now()
	for _, t := range streams {
		t.addTo(&all, now)
	}
	return all
}
