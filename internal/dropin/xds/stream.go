package xds

import (
	"context"
	"errors"
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	statusv3 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/koalagate/koalagate/internal/envoylimits"
)

// typeURL is the type of the resources.
const typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// follow subscribes on a new stream and applies its responses, until the stream or ctx
// ends. It reports whether a response arrived.
func (c *Client) follow(ctx context.Context, conn *grpc.ClientConn, to Applier) (received bool, err error) {
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, metadata.New(c.Headers)))
	defer cancel()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, err
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{Node: c.node, TypeUrl: typeURL}); err != nil {
		return false, err
	}
	c.Logger.Info("subscribed to the control plane", "server", c.Server)
	accepted := "" // the version
	for {
		response, err := stream.Recv()
		if err != nil {
			return received, err
		}
		received = true
		answer := &discoveryv3.DiscoveryRequest{Node: c.node, TypeUrl: typeURL, ResponseNonce: response.GetNonce()}
		if err := apply(response, to); err != nil {
			answer.ErrorDetail = &statusv3.Status{Message: err.Error()}
		} else {
			accepted = response.GetVersionInfo()
		}
		answer.VersionInfo = accepted
		if err := stream.Send(answer); err != nil {
			return received, err
		}
	}
}

// apply applies a response as a whole.
func apply(response *discoveryv3.DiscoveryResponse, to Applier) error {
	configs, err := configsOf(response.GetResources())
	if err != nil {
		to.Reject(fmt.Errorf("version %q of the control plane: %w", response.GetVersionInfo(), err))
		return err
	}
	return to.Apply(configs)
}

// configsOf reads the resources of a response.
func configsOf(resources []*anypb.Any) ([]*envoylimits.Config, error) {
	configs := make([]*envoylimits.Config, len(resources))
	for i, r := range resources {
		if r == nil {
			return nil, errors.New("a resource is empty")
		}
		m := new(configv3.RateLimitConfig)
		if err := r.UnmarshalTo(m); err != nil {
			return nil, err
		}
		configs[i] = envoylimits.FromProto(m)
	}
	return configs, nil
}
