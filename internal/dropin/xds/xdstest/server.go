// Package xdstest is a control plane for tests: it serves versions of limits over xDS, as
// Envoy Gateway and Agent Router do, and records what its clients answer.
package xdstest

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"
)

// Server is a control plane. It sends its current version to every new stream, and each
// further version to all streams.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	// Address is host:port, the same after a restart.
	Address string

	t   testing.TB
	tls *tls.Config

	mu       sync.Mutex
	grpc     *grpc.Server
	served   chan struct{}
	number   int    // of the last version that Publish has named
	version  string // the current one; "" for none
	state    []*anypb.Any
	streams  map[chan struct{}]bool // which are signaled when there is a version, and closed by Drop
	requests []*discoveryv3.DiscoveryRequest
	changed  chan struct{} // closed at the next request
	headers  metadata.MD   // of the last stream
}

// Headers returns the headers of the last stream.
func (s *Server) Headers() metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headers
}

// Start starts a control plane without a version, which ends with the test. secured is
// nil for a connection without TLS.
func Start(t testing.TB, secured *tls.Config) *Server {
	t.Helper()
	s := &Server{Address: "127.0.0.1:0", t: t, tls: secured, streams: make(map[chan struct{}]bool), changed: make(chan struct{})}
	s.Resume()
	t.Cleanup(s.Pause)
	return s
}

// Resume serves after a Pause, at the same address.
func (s *Server) Resume() {
	s.t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", s.Address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Address = l.Addr().String()
	options := []grpc.ServerOption{grpc.MaxSendMsgSize(256 << 20)}
	if s.tls != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.tls)))
	}
	g, served := grpc.NewServer(options...), make(chan struct{})
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
	go func() {
		defer close(served)
		_ = g.Serve(l) // it ends with Pause
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grpc, s.served = g, served
}

// Pause ends all streams and connections, until Resume.
func (s *Server) Pause() {
	s.mu.Lock()
	g, served := s.grpc, s.served
	s.mu.Unlock()
	g.Stop()
	<-served
}

// Drop ends all streams. Clients may open others.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for stream := range s.streams {
		close(stream)
		delete(s.streams, stream)
	}
}

// Publish makes resources the current version, and returns its name.
func (s *Server) Publish(resources ...*anypb.Any) string {
	s.mu.Lock()
	s.number++
	version := strconv.Itoa(s.number)
	s.mu.Unlock()
	s.PublishAs(version, resources...)
	return version
}

// PublishAs does the same with a name for the version, which an earlier one may have had: a
// control plane that restarts may begin to count again.
func (s *Server) PublishAs(version string, resources ...*anypb.Any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.state = version, resources
	s.signal()
}

// Repeat sends the current version to all streams once more.
func (s *Server) Repeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal()
}

// signal makes all streams send the current version.
func (s *Server) signal() {
	for stream := range s.streams {
		select {
		case stream <- struct{}{}:
		default: // it is signaled already
		}
	}
}

// Answer waits until a client has answered a version, and returns its answer.
func (s *Server) Answer(version string) *discoveryv3.DiscoveryRequest {
	s.t.Helper()
	return s.Answers(version, 1)[0]
}

// Answers waits until clients have answered a version n times, and returns the answers.
func (s *Server) Answers(version string, n int) (answers []*discoveryv3.DiscoveryRequest) {
	s.t.Helper()
	s.await("fewer answers to version "+version+" than "+strconv.Itoa(n), func() bool {
		answers = answers[:0]
		for _, r := range s.requests {
			if r.GetResponseNonce() == nonceOf(version) {
				answers = append(answers, r)
			}
		}
		return len(answers) >= n
	})
	return answers
}

// First waits until n streams have begun, and returns their first requests.
func (s *Server) First(n int) (first []*discoveryv3.DiscoveryRequest) {
	s.t.Helper()
	s.await("fewer streams than "+strconv.Itoa(n), func() bool {
		first = first[:0]
		for _, r := range s.requests {
			if r.GetResponseNonce() == "" {
				first = append(first, r)
			}
		}
		return len(first) >= n
	})
	return first
}

// await waits until done, which is called under the lock, returns true.
func (s *Server) await(complaint string, done func() bool) {
	s.t.Helper()
	late := time.After(time.Minute)
	for {
		s.mu.Lock()
		isDone, changed := done(), s.changed
		s.mu.Unlock()
		if isDone {
			return
		}
		select {
		case <-changed:
		case <-late:
			s.t.Fatal("control plane, after a minute: " + complaint)
		}
	}
}

// record records a request of a client. The caller holds the lock.
func (s *Server) record(r *discoveryv3.DiscoveryRequest) {
	s.requests = append(s.requests, r)
	close(s.changed)
	s.changed = make(chan struct{})
}

func nonceOf(version string) string { return "nonce of " + version }

// StreamAggregatedResources sends versions until the stream is dropped.
func (s *Server) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	due := make(chan struct{}, 1)
	s.mu.Lock()
	s.headers, _ = metadata.FromIncomingContext(stream.Context())
	s.record(first)
	s.streams[due] = true
	if s.version != "" {
		due <- struct{}{}
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.streams, due)
		s.mu.Unlock()
	}()
	go s.receive(stream)
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case _, open := <-due:
			if !open {
				return nil
			}
		}
		s.mu.Lock()
		response := &discoveryv3.DiscoveryResponse{VersionInfo: s.version, Nonce: nonceOf(s.version), TypeUrl: first.GetTypeUrl(), Resources: s.state}
		s.mu.Unlock()
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

// receive records the answers of a stream until its end.
func (s *Server) receive(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) {
	for {
		answer, err := stream.Recv()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.record(answer)
		s.mu.Unlock()
	}
}
