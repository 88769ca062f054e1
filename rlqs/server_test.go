package rlqs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	rlqsv3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rlqs"
	"github.com/koalagate/koalagate/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limited has a limit that can be shared, and rules for what else a bucket may meet.
const limited = `
[rules]
rule : [direct] [tenant=free] [] [result=1; return=101]
rule : [direct] [tenant=blocked] [] [result=2; return=102]
rule : [count] [tenant=plain] [time=3600; count=100] [result=2; return=103]
rule : [token] [tenant=shadowed] [time=1; count=5] [result=2; return=104; shadow=1]
rule : [token] [door=rlqs; tenant=+] [time=1; count=100; burst=200; lease=20%] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

func parse(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{Timezone: "UTC"})
	if findings.HasErrors() {
		t.Fatalf("the rules have errors: %v", findings)
	}
	return set
}

// script is a store whose shares the test determines, and that records the usages.
type script struct {
	*memory.Store
	mu     sync.Mutex
	usages []store.Usage
	answer func(*store.Usage) (store.Assignment, error)
}

// granted is a share of 20 hits per second in a bucket of 10.
var granted = store.Assignment{Send: true, Rate: 200, Burst: 10, Lasts: 7000, Lent: 200, Limit: 1000, Holders: 1}

func (s *script) Assign(_ context.Context, u *store.Usage) (store.Assignment, error) {
	if err := u.Validate(); err != nil {
		return store.Assignment{}, err
	}
	s.mu.Lock()
	s.usages = append(s.usages, *u)
	answer := s.answer
	s.mu.Unlock()
	return answer(u)
}

// set changes the answer of the store.
func (s *script) set(a store.Assignment, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = func(*store.Usage) (store.Assignment, error) { return a, err }
}

// take returns the usages since the last call.
func (s *script) take() []store.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.usages
	s.usages = nil
	return list
}

// door is a running door.
type door struct {
	t      *testing.T
	engine *engine.Engine
	modes  *engine.Modes
	banned *engine.Exceptions
	store  *script
	server *envoy.Server
	rlqs   *rlqs.Server
	client rlqsv3.RateLimitQuotaServiceClient
	bounds []string
	log    bytes.Buffer
	mu     sync.Mutex // guards bounds and log
}

func (d *door) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(line)
}

func (d *door) logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

func (d *door) exceeded() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.bounds)
}

// open serves the door in memory, in a bubble with a clock of its own.
func open(t *testing.T, text string) *door {
	t.Helper()
	d := &door{t: t, modes: new(engine.Modes), banned: new(engine.Exceptions), store: &script{Store: memory.New(memory.Options{})}}
	d.store.set(granted, nil)
	d.engine = engine.New(parse(t, text), wiring.CountIn(d.store), engine.WithModes(d.modes), engine.WithExceptions(d.banned))
	d.server = envoy.NewServer(envoy.Options{})
	d.rlqs = rlqs.New(rlqs.Options{
		Engine: d.engine, Logger: slog.New(slog.NewTextHandler(d, nil)),
		Certificate: func(ctx context.Context) []byte {
			md, _ := metadata.FromIncomingContext(ctx)
			return []byte(strings.Join(md.Get("certificate"), ""))
		},
		Exceeded: func(bound string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.bounds = append(d.bounds, bound)
		},
	})
	d.rlqs.Register(d.server)
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- d.server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:door",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20))) // as Envoy
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		d.server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		d.store.Close()
	})
	d.client = rlqsv3.NewRateLimitQuotaServiceClient(conn)
	return d
}

// gateway is an Envoy with a stream.
type gateway struct {
	t      *testing.T
	stream rlqsv3.RateLimitQuotaService_StreamRateLimitQuotasClient
	leave  context.CancelFunc

	mu      sync.Mutex
	actions []*rlqsv3.RateLimitQuotaResponse_BucketAction
	err     error
}

// connect opens a stream, of the Envoy with this name, or with this certificate if the name
// begins with certificate=, if it is not "".
func (d *door) connect(name string) *gateway {
	d.t.Helper()
	ctx, leave := context.WithCancel(d.t.Context())
	if certificate, found := strings.CutPrefix(name, "certificate="); found {
		ctx = metadata.AppendToOutgoingContext(ctx, "certificate", certificate)
	} else if name != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "koala-envoy", name)
	}
	stream, err := d.client.StreamRateLimitQuotas(ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	g := &gateway{t: d.t, stream: stream, leave: leave}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.receive()
	}()
	d.t.Cleanup(func() { leave(); <-ended })
	return g
}

func (g *gateway) receive() {
	for {
		r, err := g.stream.Recv()
		g.mu.Lock()
		g.actions, g.err = append(g.actions, r.GetBucketAction()...), err
		g.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// used is a usage of a bucket of a tenant.
func used(tenant string, elapsed int64, allowed, denied uint64) *rlqsv3.RateLimitQuotaUsageReports_BucketQuotaUsage {
	return &rlqsv3.RateLimitQuotaUsageReports_BucketQuotaUsage{
		BucketId:    &rlqsv3.BucketId{Bucket: map[string]string{"tenant": tenant}},
		TimeElapsed: &durationpb.Duration{Seconds: elapsed}, NumRequestsAllowed: allowed, NumRequestsDenied: denied,
	}
}

// report sends a report, and waits until everything that follows is done.
func (g *gateway) report(usages ...*rlqsv3.RateLimitQuotaUsageReports_BucketQuotaUsage) {
	g.t.Helper()
	if err := g.stream.Send(&rlqsv3.RateLimitQuotaUsageReports{Domain: "edge", BucketQuotaUsages: usages}); err != nil {
		g.t.Fatal(err)
	}
	synctest.Wait()
}

// code returns the code with which the stream has ended, OK while it has not.
func (g *gateway) code() codes.Code {
	g.mu.Lock()
	defer g.mu.Unlock()
	return status.Code(g.err)
}

// got returns the actions since the last call in words, one a line.
func (g *gateway) got() string {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	var lines []string
	for _, a := range g.actions {
		lines = append(lines, words(a))
	}
	g.actions = nil
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// words describes an action.
func words(a *rlqsv3.RateLimitQuotaResponse_BucketAction) string {
	tenant := a.GetBucketId().GetBucket()["tenant"]
	if a.GetAbandonAction() != nil {
		return tenant + ": abandon"
	}
	q := a.GetQuotaAssignmentAction()
	end := q.GetAssignmentTimeToLive().AsDuration()
	if b := q.GetRateLimitStrategy().GetTokenBucket(); b != nil {
		return fmt.Sprintf("%s: %d, %d per %v, for %v", tenant, b.GetMaxTokens(), b.GetTokensPerFill().GetValue(), b.GetFillInterval().AsDuration(), end)
	}
	return fmt.Sprintf("%s: %v for %v", tenant, q.GetRateLimitStrategy().GetBlanketRule(), end)
}

func (g *gateway) want(what, actions string) {
	g.t.Helper()
	if got := g.got(); got != actions {
		g.t.Errorf("%s: got %q; want %q", what, got, actions)
	}
}

var errAway = errors.New("away")

// What a bucket gets depends on the rules that it meets.
func TestBucketsGetWhatTheirRulesSay(t *testing.T) {
	for tenant, test := range map[string]struct{ want, log string }{
		"ann":      {want: "ann: 10, 20 per 1s, for 7s"},
		"shadowed": {want: "shadowed: 10, 20 per 1s, for 7s"},
		"free":     {want: "free: ALLOW_ALL for 7s"},
		"blocked":  {want: "blocked: DENY_ALL for 7s"},
		"plain":    {log: "rule=103 word=lease"},
		"":         {want: ": ALLOW_ALL for 7s"},
	} {
		t.Run(tenant, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, limited)
				g := d.connect("edge-1")
				g.report(used(tenant, 0, 1, 0))
				g.want("a new bucket", test.want)
				if (test.log == "") != (d.logged() == "") || !strings.Contains(d.logged(), test.log) {
					t.Errorf("the log is %q; want %q", d.logged(), test.log)
				}
			})
		})
	}
}
