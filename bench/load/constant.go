package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
)

// constant gives every call the same answer, which shows the cost of any Go service
// with these protocols. Its settings are the fastest ones.
type constant struct {
	rlsv3.UnimplementedRateLimitServiceServer
	authv3.UnimplementedAuthorizationServer
}

// ShouldRateLimit admits every call.
func (constant) ShouldRateLimit(_ context.Context, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	if len(r.GetDescriptors()) == len(admittedFour.Statuses) {
		return admittedFour, nil
	}
	return admitted, nil
}

// Check allows every request.
func (constant) Check(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	return authorized, nil
}

// The minimal answers that are useful to a caller.
var (
	okStatus     = &rlsv3.RateLimitResponse_DescriptorStatus{Code: rlsv3.RateLimitResponse_OK}
	admitted     = &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK, Statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{okStatus}}
	admittedFour = &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK, Statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{okStatus, okStatus, okStatus, okStatus}}
	authorized   = &authv3.CheckResponse{Status: new(status.Status), HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: new(authv3.OkHttpResponse)}}
)

// serveConstant serves constant answers until ctx is done. HTTP answers have the
// headers of the answer at the URL like; "" for none.
func serveConstant(ctx context.Context, grpcAddress, httpAddress, like string) error {
	debug.SetGCPercent(800)
	headers, err := headersOf(ctx, like)
	if err != nil {
		return err
	}
	var listen net.ListenConfig
	calls, err := listen.Listen(ctx, "tcp", grpcAddress)
	if err != nil {
		return err
	}
	web, err := listen.Listen(ctx, "tcp", httpAddress)
	if err != nil {
		return err
	}
	fmt.Println("serving", calls.Addr(), web.Addr())
	server := grpc.NewServer(grpc.NumStreamWorkers(256))
	rlsv3.RegisterRateLimitServiceServer(server, constant{})
	authv3.RegisterAuthorizationServer(server, constant{})
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(calls) }()
	pages := &http.Server{
		ReadHeaderTimeout: maxWait * 100,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			maps.Copy(w.Header(), headers)
			w.WriteHeader(http.StatusOK)
		}),
	}
	go func() { ended <- pages.Serve(web) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	server.Stop()
	over, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return errors.Join(err, pages.Shutdown(over))
}

// headersOf returns the headers that a handler adds to its answer to a GET, without
// those of net/http.
func headersOf(ctx context.Context, address string) (http.Header, error) {
	if address == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{
		"X-Original-Method": {http.MethodGet}, "X-Original-Uri": {"/"}, "X-Real-Ip": {"198.51.100.7"},
		"X-Forwarded-Host": {"shop.example"}, "X-Forwarded-Proto": {"https"},
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	if err := answer.Body.Close(); err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s; want 200", address, answer.Status)
	}
	answer.Header.Del("Date")
	answer.Header.Del("Content-Length")
	return answer.Header, nil
}
