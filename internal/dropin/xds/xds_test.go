package xds_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/koalagate/koalagate/internal/dropin/xds"
	"github.com/koalagate/koalagate/internal/envoylimits"
)

// server is a control plane whose script is a test.
type server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	streams chan *stream
}

// stream is one stream of a client.
type stream struct {
	discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer
	end chan error
}

// StreamAggregatedResources hands the stream to the test.
func (s *server) StreamAggregatedResources(got discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	one := &stream{got, make(chan error, 1)}
	select {
	case s.streams <- one:
	case <-got.Context().Done():
		return nil
	}
	select {
	case err := <-one.end:
		return err
	case <-got.Context().Done():
		return nil
	}
}

// applied is an Applier that compiles, like a Keeper.
type applied struct {
	mu      sync.Mutex
	domains int
}

func (a *applied) Apply(configs []*envoylimits.Config) error {
	set, err := envoylimits.Compile(configs, false)
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.domains = set.Domains()
	}
	return err
}

func (a *applied) Reject(error) {}

func (a *applied) loaded() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.domains
}

// start serves a control plane and runs a client of it.
func start(t *testing.T, change func(*xds.Options)) (*server, *applied) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{streams: make(chan *stream)}
	g := grpc.NewServer(grpc.MaxSendMsgSize(256 << 20))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	o := xds.Options{
		Server: l.Addr().String(), NodeID: "node", NodeMetadata: "a=b,c=d", Headers: map[string]string{"x-own": "1"},
		Backoff: xds.Backoff{Initial: time.Millisecond, Max: 10 * time.Millisecond, Factor: 2},
	}
	if change != nil {
		change(&o)
	}
	client, err := xds.New(o)
	if err != nil {
		t.Fatal(err)
	}
	to := &applied{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); client.Run(ctx, to) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		g.Stop()
		<-served
	})
	return s, to
}

// next returns the next stream with its first request.
func (s *server) next(t *testing.T) (*stream, *discoveryv3.DiscoveryRequest) {
	t.Helper()
	select {
	case one := <-s.streams:
		first, err := one.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return one, first
	case <-time.After(time.Minute):
		t.Fatal("no stream within a minute")
		return nil, nil
	}
}

// send sends a response and returns the answer.
func (s *stream) send(t *testing.T, version string, resources ...*anypb.Any) *discoveryv3.DiscoveryRequest {
	t.Helper()
	if err := s.Send(&discoveryv3.DiscoveryResponse{VersionInfo: version, Nonce: "nonce " + version, Resources: resources}); err != nil {
		t.Fatal(err)
	}
	answer, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if answer.GetResponseNonce() != "nonce "+version {
		t.Errorf("the nonce of the answer to %s is %q", version, answer.GetResponseNonce())
	}
	return answer
}

// resource returns a configuration with one limit.
func resource(t *testing.T, name, domain string, d ...*configv3.RateLimitDescriptor) *anypb.Any {
	t.Helper()
	packed, err := anypb.New(&configv3.RateLimitConfig{Name: name, Domain: domain, Descriptors: d})
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func limited(key string, unit configv3.RateLimitUnit) *configv3.RateLimitDescriptor {
	return &configv3.RateLimitDescriptor{Key: key, RateLimit: &configv3.RateLimitPolicy{Unit: unit, RequestsPerUnit: 1}}
}

func TestFirstRequestIdentifiesTheClient(t *testing.T) {
	s, _ := start(t, nil)
	one, first := s.next(t)
	if first.GetNode().GetId() != "node" || first.GetNode().GetMetadata().GetFields()["c"].GetStringValue() != "d" ||
		first.GetTypeUrl() != "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig" ||
		first.GetVersionInfo() != "" || first.GetResponseNonce() != "" || len(first.GetResourceNames()) != 0 {
		t.Errorf("the first request is %v", first)
	}
	if headers, _ := metadata.FromIncomingContext(one.Context()); len(headers["x-own"]) != 1 {
		t.Errorf("the headers are %v", headers)
	}
}

func TestResponsesAreAppliedOrRefusedAsAWhole(t *testing.T) {
	s, to := start(t, nil)
	one, _ := s.next(t)
	foreign, err := anypb.New(structpb.NewStringValue("x"))
	if err != nil {
		t.Fatal(err)
	}
	replaces := limited("k", configv3.RateLimitUnit_DAY)
	replaces.RateLimit.Name, replaces.RateLimit.Replaces = "n", []*configv3.RateLimitReplace{{Name: "n"}}
	empty := limited("k", configv3.RateLimitUnit_DAY)
	empty.RateLimit.Replaces = []*configv3.RateLimitReplace{{}}
	unlimited := limited("k", configv3.RateLimitUnit_DAY)
	unlimited.RateLimit.Unlimited = true
	good := resource(t, "good", "good", limited("k", configv3.RateLimitUnit_WEEK))
	if answer := one.send(t, "0", good); answer.GetVersionInfo() != "0" || answer.GetErrorDetail() != nil || to.loaded() != 1 {
		t.Fatalf("the answer is %v, with %d domains", answer, to.loaded())
	}
	for i, c := range []struct {
		resource *anypb.Any
		want     string
	}{
		{resource(t, "bad", "bad", limited("k", configv3.RateLimitUnit_UNKNOWN)), "bad: invalid rate limit unit 'UNKNOWN'"},
		{resource(t, "bad", "good"), "bad: duplicate domain 'good' in config file"},
		{resource(t, "bad", ""), "bad: config file cannot have empty domain"},
		{resource(t, "bad", "d", limited("", configv3.RateLimitUnit_DAY)), "bad: descriptor has empty key"},
		{resource(t, "bad", "d", limited("k", configv3.RateLimitUnit_DAY), limited("k", configv3.RateLimitUnit_DAY)), "bad: duplicate descriptor composite key 'd.k'"},
		{resource(t, "bad", "d", unlimited), "bad: should not specify rate limit unit when unlimited"},
		{resource(t, "bad", "d", replaces), "bad: replaces should not contain name of same descriptor"},
		{resource(t, "bad", "d", empty), "bad: should not have an empty replaces entry"},
		{&anypb.Any{TypeUrl: good.GetTypeUrl(), Value: []byte{0xFF}}, "proto"},
		{foreign, "mismatched message type"},
	} {
		answer := one.send(t, strconv.Itoa(i+1), good, c.resource)
		if got := answer.GetErrorDetail().GetMessage(); !strings.Contains(got, c.want) || answer.GetVersionInfo() != "0" || to.loaded() != 1 {
			t.Errorf("the answer is %v, with %d domains; want %q", answer, to.loaded(), c.want)
		}
	}
	// The same version twice, and a state without any limit.
	one.send(t, "20", good)
	one.send(t, "20", good)
	if answer := one.send(t, "21"); answer.GetVersionInfo() != "21" || to.loaded() != 0 {
		t.Errorf("the answer is %v, with %d domains; want none", answer, to.loaded())
	}
}

func TestLostStreamIsOpenedAgain(t *testing.T) {
	s, to := start(t, nil)
	for i := range 5 {
		one, first := s.next(t)
		if first.GetVersionInfo() != "" || first.GetResponseNonce() != "" {
			t.Errorf("stream %d begins with %v", i, first)
		}
		one.send(t, strconv.Itoa(i), resource(t, "r", "d", limited("k", configv3.RateLimitUnit_DAY)))
		one.end <- errors.New("lost")
	}
	if to.loaded() != 1 {
		t.Error("the limits were lost with the stream")
	}
}

func TestLargeResponses(t *testing.T) {
	s, to := start(t, nil)
	one, _ := s.next(t)
	const domains = 100_000
	many := make([]*anypb.Any, domains)
	for i := range many {
		many[i] = resource(t, "r", "d"+strconv.Itoa(i), limited("k", configv3.RateLimitUnit_DAY))
	}
	if one.send(t, "many", many...); to.loaded() != domains {
		t.Errorf("%d domains; want %d", to.loaded(), domains)
	}
	large := &configv3.RateLimitDescriptor{Key: strings.Repeat("k", 50<<20)}
	if one.send(t, "large", resource(t, "r", "d", large)); to.loaded() != 1 {
		t.Errorf("%d domains; want 1", to.loaded())
	}
}

func TestTooLargeResponseKeepsTheLimits(t *testing.T) {
	s, to := start(t, func(o *xds.Options) { o.MaxMessage = 1 << 10 })
	one, _ := s.next(t)
	one.send(t, "1", resource(t, "r", "d"))
	if err := one.Send(&discoveryv3.DiscoveryResponse{VersionInfo: "2", Resources: []*anypb.Any{resource(t, strings.Repeat("r", 2<<10), "d")}}); err != nil {
		t.Fatal(err)
	}
	if s.next(t); to.loaded() != 1 {
		t.Error("the limits were lost")
	}
}
