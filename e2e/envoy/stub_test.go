package envoy_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// stub is a service with scripted answers for Envoy, to show how Envoy treats valid
// and invalid answers, and what it sends.
type stub struct {
	Address     string
	connections atomic.Int64

	mu     sync.Mutex
	checks map[string]checkScript // by the request's path
	limits map[string]limitScript // by the value of the entry `script`
	calls  map[string][]call
}

type (
	checkScript func(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error)
	limitScript func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error)
)

// call is one call by Envoy.
type call struct {
	check *authv3.CheckRequest
	limit *rlsv3.RateLimitRequest
	// hasDeadline reports whether the caller set a deadline, and left is the time
	// until it, negative once it has passed.
	hasDeadline bool
	left        time.Duration
}

func newStub(t *testing.T) *stub {
	t.Helper()
	s := &stub{checks: map[string]checkScript{}, limits: map[string]limitScript{}, calls: map[string][]call{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Address = l.Addr().String()
	server := grpc.NewServer()
	authv3.RegisterAuthorizationServer(server, s)
	rlsv3.RegisterRateLimitServiceServer(server, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(counted{l, &s.connections}) // returns after Stop
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	return s
}

// counted is a listener that counts its connections.
type counted struct {
	net.Listener
	connections *atomic.Int64
}

// Accept implements net.Listener.
func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.connections.Add(1)
	}
	return conn, err
}

func (s *stub) note(ctx context.Context, name string, c call) {
	if deadline, ok := ctx.Deadline(); ok {
		c.hasDeadline, c.left = true, time.Until(deadline)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[name] = append(s.calls[name], c)
}

// Check answers by the script of the path, and allows without a script.
func (s *stub) Check(ctx context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	name := r.GetAttributes().GetRequest().GetHttp().GetPath()
	s.note(ctx, name, call{check: r})
	s.mu.Lock()
	script := s.checks[name]
	s.mu.Unlock()
	if script == nil {
		return checkReply(0, nil), nil
	}
	return script(ctx, r)
}

// ShouldRateLimit answers by the script named in the entry `script` of the first
// descriptor, and with OK without a script.
func (s *stub) ShouldRateLimit(ctx context.Context, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	name := ""
	for _, d := range r.GetDescriptors() {
		for _, e := range d.GetEntries() {
			if e.GetKey() == "script" {
				name = e.GetValue()
			}
		}
	}
	s.note(ctx, name, call{limit: r})
	s.mu.Lock()
	script := s.limits[name]
	s.mu.Unlock()
	if script == nil {
		return &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK}, nil
	}
	return script(ctx, r)
}

// onCheck sets the answer to checks of a path.
func (s *stub) onCheck(path string, reply *authv3.CheckResponse, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks[path] = func(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) { return reply, err }
}

// onCheckDo sets a function to call before checks of a path are allowed.
func (s *stub) onCheckDo(path string, do func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks[path] = func(ctx context.Context, _ *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		do(ctx)
		return allowed(), nil
	}
}

// onLimit sets the answer to calls with a script's name.
func (s *stub) onLimit(name string, reply *rlsv3.RateLimitResponse, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits[name] = func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) { return reply, err }
}

// callsOf returns the calls with a path or a script's name.
func (s *stub) callsOf(name string) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]call(nil), s.calls[name]...)
}

// last returns the last call with a name, and fails the test if there is none.
func (s *stub) last(t *testing.T, name string) call {
	t.Helper()
	calls := s.callsOf(name)
	if len(calls) == 0 {
		t.Fatalf("Envoy has not called for %q", name)
	}
	return calls[len(calls)-1]
}

// mirror is an application that records requests by path.
type mirror struct {
	Address string
	mu      sync.Mutex
	got     map[string][]mirrored
}

type mirrored struct {
	*http.Request
	size   int
	digest string // of the body
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	m := &mirror{got: map[string][]mirrored{}}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.Address = server.Listener.Addr().String()
	return m
}

// ServeHTTP records the request and answers 200.
func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sum := sha256.Sum256(body)
	m.mu.Lock()
	m.got[r.URL.Path] = append(m.got[r.URL.Path], mirrored{r, len(body), hex.EncodeToString(sum[:])})
	m.mu.Unlock()
	w.Header().Set("X-From-App", "app")
	_, _ = io.WriteString(w, "app")
}

// reached returns the requests for a path that reached the application.
func (m *mirror) reached(path string) []mirrored {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]mirrored(nil), m.got[path]...)
}
