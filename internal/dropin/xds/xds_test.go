package xds_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/koalagate/koalagate/internal/dropin/xds"
	"github.com/koalagate/koalagate/internal/dropin/xds/xdstest"
	"github.com/koalagate/koalagate/internal/envoylimits"
)

// applied is an Applier that compiles, like a Keeper.
type applied struct {
	mu                 sync.Mutex
	domains            int
	accepted, rejected int64
	reason             string // of the last rejection
}

func (a *applied) Apply(configs []*envoylimits.Config) error {
	set, err := envoylimits.Compile(configs, false)
	if err != nil {
		a.Reject(err)
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.domains = set.Domains()
	a.accepted++
	return nil
}

func (a *applied) Reject(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rejected++
	a.reason = err.Error()
}

// counts returns the number of responses, and of the refused ones.
func (a *applied) counts() (processed, refused int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.accepted + a.rejected, a.rejected
}

// rejection returns the reason of the last rejection.
func (a *applied) rejection() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reason
}

func (a *applied) loaded() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.domains
}

// run runs a client of a control plane until the test ends.
func run(t *testing.T, address string, change func(*xds.Options)) *applied {
	t.Helper()
	o := xds.Options{
		Server: address, NodeID: "node", NodeMetadata: "a=b,c=d", Headers: map[string]string{"x-own": "1"},
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
	t.Cleanup(func() { cancel(); <-ended })
	return to
}

// resource returns a configuration.
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
	s := xdstest.Start(t, nil)
	run(t, s.Address, nil)
	first := s.First(1)[0]
	if first.GetNode().GetId() != "node" || first.GetNode().GetMetadata().GetFields()["c"].GetStringValue() != "d" ||
		first.GetTypeUrl() != "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig" ||
		first.GetVersionInfo() != "" || first.GetResponseNonce() != "" || len(first.GetResourceNames()) != 0 {
		t.Errorf("the first request is %v", first)
	}
	if got := s.Headers()["x-own"]; len(got) != 1 {
		t.Errorf("the headers are %v", s.Headers())
	}
}

func TestResponsesAreAppliedOrRefusedAsAWhole(t *testing.T) {
	s := xdstest.Start(t, nil)
	to := run(t, s.Address, nil)
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
	accepted := s.Publish(good)
	if answer := s.Answer(accepted); answer.GetVersionInfo() != accepted || answer.GetErrorDetail() != nil || to.loaded() != 1 {
		t.Fatalf("the answer is %v, with %d domains", answer, to.loaded())
	}
	for _, c := range []struct {
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
		answer := s.Answer(s.Publish(good, c.resource))
		if got := answer.GetErrorDetail(); !strings.Contains(got.GetMessage(), c.want) || got.GetCode() != 0 || answer.GetVersionInfo() != accepted || to.loaded() != 1 {
			t.Errorf("the answer is %v, with %d domains; want %q", answer, to.loaded(), c.want)
		}
	}
	twice := s.Publish(good)
	s.Answer(twice)
	s.Repeat()
	for _, answer := range s.Answers(twice, 2) {
		if answer.GetVersionInfo() != twice || answer.GetErrorDetail() != nil {
			t.Errorf("the same version twice: %v", answer)
		}
	}
	none := s.Publish()
	if answer := s.Answer(none); answer.GetVersionInfo() != none || to.loaded() != 0 {
		t.Errorf("the answer is %v, with %d domains; want none", answer, to.loaded())
	}
}

func TestLargeResponses(t *testing.T) {
	s := xdstest.Start(t, nil)
	to := run(t, s.Address, nil)
	domains, length := 10_000, 5<<20
	if *long {
		domains, length = 100_000, 50<<20
	}
	many := make([]*anypb.Any, domains)
	for i := range many {
		many[i] = resource(t, "r", "d"+strconv.Itoa(i), limited("k", configv3.RateLimitUnit_DAY))
	}
	if s.Answer(s.Publish(many...)); to.loaded() != domains {
		t.Errorf("%d domains; want %d", to.loaded(), domains)
	}
	large := &configv3.RateLimitDescriptor{Key: strings.Repeat("k", length)}
	if s.Answer(s.Publish(resource(t, "r", "d", large))); to.loaded() != 1 {
		t.Errorf("%d domains; want 1", to.loaded())
	}
}

func TestTooLargeResponseKeepsTheLimits(t *testing.T) {
	s := xdstest.Start(t, nil)
	to := run(t, s.Address, func(o *xds.Options) { o.MaxMessage = 1 << 10 })
	s.Answer(s.Publish(resource(t, "r", "d")))
	s.Publish(resource(t, strings.Repeat("r", 2<<10), "d"))
	if s.First(2); to.loaded() != 1 {
		t.Error("the limits were lost")
	}
}
