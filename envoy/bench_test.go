package envoy_test

import (
	"context"
	"net"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/koalagate/koalagate/envoy"
)

// BenchmarkCall measures calls with a constant answer over one connection, as an Envoy
// worker makes them: with a deadline.
func BenchmarkCall(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := envoy.NewServer(envoy.Options{StreamWorkers: 256})
	authv3.RegisterAuthorizationServer(server, handler(allow))
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	client := authv3.NewAuthorizationClient(conn)
	for _, c := range []struct {
		name    string
		timeout time.Duration
	}{{"deadline", time.Second}, {"no deadline", 0}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					ctx, cancel := context.Background(), func() {}
					if c.timeout > 0 {
						ctx, cancel = context.WithTimeout(ctx, c.timeout)
					}
					if _, err := client.Check(ctx, &authv3.CheckRequest{}); err != nil {
						b.Error(err)
					}
					cancel()
				}
			})
		})
	}
}
