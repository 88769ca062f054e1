package xds

import (
	"context"
	"errors"
	"fmt"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/koalagate/koalagate/internal/delay"
)

// typeURL is the type of the resources.
const typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// What counts against Client.responses. A refusal counts more, so that a control plane that
// repeats a version that is refused causes fewer lines in the log.
const (
	perStream   = 1
	perResponse = 1
	perRefusal  = 5
)

// errFlood ends a stream whose control plane sends responses too often. The next stream
// begins with its current version.
var errFlood = errors.New("the control plane sends responses too often")

// follow subscribes on a new stream and applies its responses, until the stream or ctx
// ends. It reports whether a response arrived.
func (c *Client) follow(ctx context.Context, conn *grpc.ClientConn, to Applier) (received bool, err error) {
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, metadata.New(c.Headers)))
	defer cancel()
	stream, err := c.open(ctx, cancel, conn)
	if err != nil {
		return false, err
	}
	if err := stream.SendMsg(&discoveryv3.DiscoveryRequest{Node: c.node, TypeUrl: typeURL}); err != nil {
		return false, err
	}
	c.Logger.Info("subscribed to the control plane", "server", c.Server)
	cost := float64(perStream)
	for accepted := ""; ; { // the version
		if c.responses.add(cost, time.Now()) > 0 {
			return received, errFlood
		}
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return received, err
		}
		received, cost = true, perResponse
		begun := time.Now()
		r, err := readResponse(message)
		if err != nil {
			return received, err
		}
		answer := &discoveryv3.DiscoveryRequest{Node: c.node, TypeUrl: typeURL, ResponseNonce: r.nonce}
		if err := apply(r, to); err != nil {
			answer.ErrorDetail = &statusv3.Status{Message: err.Error()}
			cost = perRefusal
		} else {
			accepted = r.version
		}
		answer.VersionInfo = accepted
		if err := stream.SendMsg(answer); err != nil {
			return received, err
		}
		now := time.Now()
		delay.Wait(ctx, c.busy.add(now.Sub(begun).Seconds(), now))
	}
}

// open opens a stream. It calls cancel if there is no connection within the time of two
// attempts, so that the log names the reason.
func (c *Client) open(ctx context.Context, cancel func(), conn *grpc.ClientConn) (grpc.ClientStream, error) {
	patience := 2*c.ConnectTimeout + c.connectRetry()
	late := time.AfterFunc(patience, cancel)
	defer late.Stop()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		discoveryv3.AggregatedDiscoveryService_StreamAggregatedResources_FullMethodName, grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		return nil, fmt.Errorf("no stream within %v: %w", patience, err)
	}
	return stream, nil
}

// apply applies a response as a whole.
func apply(r *response, to Applier) error {
	configs, err := r.configs()
	if err != nil {
		to.Reject(fmt.Errorf("version %q of the control plane: %w", r.version, err))
		return err
	}
	return to.Apply(configs)
}
