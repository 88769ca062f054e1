package service

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
)

// run runs a service until the test ends.
func run(t *testing.T, s *Service) {
	t.Helper()
	stop, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() { ended <- s.Run(context.Background(), stop, nil) }()
	t.Cleanup(func() {
		stop <- syscall.SIGTERM
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func dialGRPC(t *testing.T, s *Service) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.Addresses().GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Requests that are too large or too slow fail, are counted and are logged.
func TestBoundsOfCallsAreCountedAndLogged(t *testing.T) {
	s, text := open(t, map[string]any{"grpc_max_message": 100_000, "grpc_receive_timeout": "100ms"})
	run(t, s)
	conn := dialGRPC(t, s)
	check := func(size int) error {
		_, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
				Method: "POST", Path: "/", HeaderMap: &corev3.HeaderMap{}, RawBody: make([]byte, size),
			}},
		}})
		return err
	}
	if err := check(90_000); err != nil {
		t.Errorf("a request below the maximum: %v", err)
	}
	if err := check(110_000); grpcstatus.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request above the maximum: %v", err)
	}
	// A call without a request, from a caller that sets no deadline.
	method := "/envoy.service.auth.v3.Authorization/Check"
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := stream.RecvMsg(new(authv3.CheckResponse)); grpcstatus.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a call without a request: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	_, body := get(t, s.Addresses().Admin, "/metrics")
	for _, want := range []string{
		`koalagate_bounds_total{bound="message_size"} 1`, `koalagate_bounds_total{bound="call_timeout"} 1`, `koalagate_bounds_total{bound="resets"} 0`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	for _, want := range []string{"bound=message_size remedy=", "bound=call_timeout remedy="} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, text)
		}
	}
}
