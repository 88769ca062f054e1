package main

import (
	"context"
	"fmt"
	"net"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/koalagate/koalagate/bench/traffic"
)

// connections is the number of connections that callers share: Envoy has one per
// worker.
const connections = 1

// dialAll opens the connections to a gRPC server.
func dialAll(ctx context.Context, address string, callers int) ([]*grpc.ClientConn, func(), error) {
	all := make([]*grpc.ClientConn, min(connections, callers))
	end := func() {
		for _, c := range all {
			if c != nil {
				_ = c.Close() // no call is in progress
			}
		}
	}
	for i := range all {
		var err error
		open := func(_ context.Context, address string) (net.Conn, error) { return dial(ctx, address) }
		if all[i], err = grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(open)); err != nil {
			end()
			return nil, nil, err
		}
	}
	return all, end, nil
}

// askRateLimit returns callers of a rate limit service.
func askRateLimit(ctx context.Context, address string, t traffic.Kind, callers int) ([]ask, func(), error) {
	return rateLimitCallers(ctx, address, t, callers, func(_ context.Context, _ rlsv3.RateLimitServiceClient, reply *rlsv3.RateLimitResponse) error {
		if reply.GetOverallCode() == rlsv3.RateLimitResponse_UNKNOWN {
			return fmt.Errorf("the rate limit service at %s answered without a code", address)
		}
		return nil
	})
}

// rateLimitCallers returns callers of a rate limit service, who call then with each reply.
func rateLimitCallers(ctx context.Context, address string, t traffic.Kind, callers int, then func(context.Context, rlsv3.RateLimitServiceClient, *rlsv3.RateLimitResponse) error) ([]ask, func(), error) {
	connections, end, err := dialAll(ctx, address, callers)
	if err != nil {
		return nil, nil, err
	}
	requests := rateLimitRequests(t)
	asks := make([]ask, callers)
	for i := range asks {
		client, next := rlsv3.NewRateLimitServiceClient(connections[i%len(connections)]), turns(i, callers)
		asks[i] = func(ctx context.Context) (bool, error) {
			reply, err := client.ShouldRateLimit(ctx, requests[next()])
			if err == nil {
				err = then(ctx, client, reply)
			}
			return reply.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT, err
		}
	}
	return asks, end, nil
}

// rateLimitRequests returns one request per identity.
func rateLimitRequests(t traffic.Kind) []*rlsv3.RateLimitRequest {
	requests := make([]*rlsv3.RateLimitRequest, traffic.Identities)
	for i, descriptors := range t.Requests() {
		requests[i] = traffic.RateLimitRequest(descriptors)
	}
	return requests
}

// headers contains the headers of an ordinary request, as sent by Envoy.
var headers = map[string]string{
	":authority": "shop.example", ":method": "GET", ":path": "/", ":scheme": "http", "accept": "*/*",
	"user-agent": "curl/7.88.1", "x-forwarded-for": "192.0.2.2", "x-forwarded-proto": "http",
	"x-request-id": "21122033-bafb-4964-838a-9b60fba400f1",
}

// askAuthorization returns callers of an ext_authz service.
func askAuthorization(ctx context.Context, address string, t traffic.Kind, callers int) ([]ask, func(), error) {
	connections, end, err := dialAll(ctx, address, callers)
	if err != nil {
		return nil, nil, err
	}
	requests := make([]*authv3.CheckRequest, traffic.Identities)
	for i, descriptors := range t.Requests() {
		about := map[string]string{}
		for _, d := range descriptors {
			about[d.Name] = d.Value
		}
		requests[i] = &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
				Method: "GET", Path: "/", Host: "shop.example", Scheme: "http", Headers: headers,
			}},
			ContextExtensions: about,
		}}
	}
	asks := make([]ask, callers)
	for i := range asks {
		client, next := authv3.NewAuthorizationClient(connections[i%len(connections)]), turns(i, callers)
		asks[i] = func(ctx context.Context) (bool, error) {
			reply, err := client.Check(ctx, requests[next()])
			return codes.Code(reply.GetStatus().GetCode()) != codes.OK, err
		}
	}
	return asks, end, nil
}
