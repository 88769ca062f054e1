package xds_test

import (
	"bytes"
	"flag"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/koalagate/koalagate/internal/dropin/xds"
)

var long = flag.Bool("long", false, "let control planes flood their clients for longer")

const ratelimitType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// hostile is a control plane that does what serve does, with each stream.
type hostile struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	serve   func(*hostile, stream) error
	streams atomic.Int64
	sent    atomic.Int64
}

type stream = discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer

// StreamAggregatedResources counts the stream.
func (h *hostile) StreamAggregatedResources(s stream) error {
	h.streams.Add(1)
	if _, err := s.Recv(); err != nil {
		return err
	}
	return h.serve(h, s)
}

// send sends a response, without waiting for its answer.
func (h *hostile) send(s stream, version string, resources ...*anypb.Any) error {
	h.sent.Add(1)
	return s.Send(&discoveryv3.DiscoveryResponse{VersionInfo: version, Nonce: "n" + version, TypeUrl: ratelimitType, Resources: resources})
}

// startHostile starts a control plane at an address until the test ends.
func startHostile(t *testing.T, serve func(*hostile, stream) error) (h *hostile, address string) {
	t.Helper()
	h = &hostile{serve: serve}
	l := listen(t)
	g := grpc.NewServer(grpc.MaxSendMsgSize(256 << 20))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, h)
	served := make(chan struct{})
	go func() { defer close(served); _ = g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-served })
	return h, l.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// log keeps the lines of a logger.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// runLogging is run with the lines of the client's log, and asserts that the client ends at
// once.
func runLogging(t *testing.T, address string, change func(*xds.Options)) (*applied, *log) {
	t.Helper()
	lines := &log{}
	to := run(t, address, func(o *xds.Options) {
		o.Logger = lines.logger()
		if change != nil {
			change(o)
		}
	})
	return to, lines
}

// waitFor waits until done returns true.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("after a minute: not yet " + what)
		}
	}
}

// good is a resource with one limit.
func good(t *testing.T) *anypb.Any {
	return resource(t, "good", "good", limited("k", configv3.RateLimitUnit_DAY))
}

// A control plane that sends as fast as it can is read at the pace of the client, whether
// it is accepted, refused, changes its mind, or ends its streams. The last valid limits stay.
func TestFloodsAreReadAtThePaceOfTheClient(t *testing.T) {
	t.Parallel()
	more := int64(1)
	if *long {
		more = 30
	}
	for name, c := range map[string]struct {
		serve func(t *testing.T) func(*hostile, stream) error
		// atOnce and refused are the numbers of responses that are processed and refused at
		// once. More are read at two a second at most.
		atOnce, refused int64
	}{
		"one version without end": {func(t *testing.T) func(*hostile, stream) error {
			return func(h *hostile, s stream) error {
				for {
					if err := h.send(s, "1", good(t)); err != nil {
						return err
					}
				}
			}
		}, 100, 0},
		"a refused version without end": {func(t *testing.T) func(*hostile, stream) error {
			return func(h *hostile, s stream) error {
				if err := h.send(s, "1", good(t)); err != nil {
					return err
				}
				for {
					if err := h.send(s, "2", good(t), good(t)); err != nil {
						return err
					}
				}
			}
		}, 21, 20},
		"versions that change": {func(t *testing.T) func(*hostile, stream) error {
			return func(h *hostile, s stream) error {
				for i := 0; ; i++ {
					if err := h.send(s, strconv.Itoa(i%2), good(t), resource(t, "r", "d"+strconv.Itoa(i%2))); err != nil {
						return err
					}
				}
			}
		}, 100, 0},
		"answers that return": {func(t *testing.T) func(*hostile, stream) error {
			return func(_ *hostile, s stream) error { // each NACK is answered with the same nonce, an empty one, or another's
				for i := 0; ; i++ {
					r := &discoveryv3.DiscoveryResponse{VersionInfo: "1", Nonce: []string{"n", "", "m"}[i%3], TypeUrl: ratelimitType, Resources: []*anypb.Any{good(t)}}
					if i > 0 {
						r.Resources = append(r.Resources, good(t))
					}
					if err := s.Send(r); err != nil {
						return err
					}
					if _, err := s.Recv(); err != nil {
						return err
					}
				}
			}
		}, 21, 20},
		"streams that end at once": {func(t *testing.T) func(*hostile, stream) error {
			return func(h *hostile, s stream) error { return h.send(s, "1", good(t)) }
		}, 11, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			h, address := startHostile(t, c.serve(t))
			to, lines := runLogging(t, address, nil)
			waitFor(t, "more responses processed than at once", func() bool {
				processed, _ := to.counts()
				return processed >= c.atOnce+more
			})
			processed, refused := to.counts()
			written, took := int64(strings.Count(lines.String(), "\n")), time.Since(begun)
			t.Logf("%d streams, %d responses sent, %d processed, %d of them refused, %d log lines in %v", h.streams.Load(), h.sent.Load(), processed, refused, written, took)
			seconds := int64(took/time.Second) + 1
			if processed > c.atOnce+2*seconds || refused > c.refused+seconds || refused == 0 && c.refused > 0 {
				t.Errorf("%d responses processed, %d of them refused; want at most %d and %d", processed, refused, c.atOnce+2*seconds, c.refused+seconds)
			}
			if took < time.Duration(more)*time.Second/2 {
				t.Errorf("%d responses were processed in %v; want at most %d at once, and two a second", processed, took, c.atOnce)
			}
			if written > 100+4*seconds {
				t.Errorf("%d log lines", written)
			}
			if to.loaded() == 0 {
				t.Error("the limits were lost")
			}
		})
	}
}

// A response about resources of another type has none of this type, and is no reason to
// drop the limits.
func TestResponseOfAnotherTypeKeepsTheLimits(t *testing.T) {
	const clusters = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	answers := make(chan *discoveryv3.DiscoveryRequest, 10)
	_, address := startHostile(t, func(h *hostile, s stream) error {
		if err := h.send(s, "1", good(t)); err != nil {
			return err
		}
		for _, url := range []string{clusters, "", strings.Repeat("u", 1<<20)} {
			if err := s.Send(&discoveryv3.DiscoveryResponse{VersionInfo: "2", Nonce: "n2", TypeUrl: url}); err != nil {
				return err
			}
		}
		for {
			r, err := s.Recv()
			if err != nil {
				return err
			}
			answers <- r
		}
	})
	to, _ := runLogging(t, address, nil)
	<-answers
	for range 3 {
		if r := <-answers; r.GetVersionInfo() != "1" || !strings.Contains(r.GetErrorDetail().GetMessage(), "the type of the response is") || len(r.GetErrorDetail().GetMessage()) > 1000 {
			t.Errorf("the answer is %.2000v", r)
		}
	}
	if to.loaded() != 1 {
		t.Error("the limits were lost")
	}
}
