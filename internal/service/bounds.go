package service

import (
	"net"

	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/internal/loglimit"
)

// remedies are the remedies for connections and calls that exceed a bound of the gRPC
// address.
var remedies = map[envoy.Bound]string{
	envoy.BoundUnfinished:      "it sent requests without completing them: find the peer, or raise grpc_max_unfinished",
	envoy.BoundUnfinishedTotal: "it held the most of the requests that are not complete: find the peer, or raise grpc_max_unfinished_total",
	envoy.BoundResets:          "it canceled calls faster than grpc_max_resets: find the peer; if it is a gateway whose calls time out, raise its timeout",
	envoy.BoundSettings:        "it changed its HTTP/2 settings too often: find the peer",
	envoy.BoundCallTimeout:     "a request did not arrive within grpc_receive_timeout: check the network and the gateway",
	envoy.BoundMessageSize:     "a request was larger than grpc_max_message: raise it if the gateway sends bodies",
}

// observeBounds returns a function that counts and logs connections and calls that a
// bound has ended.
func (s *Service) observeBounds() func(envoy.Bound, net.Addr) {
	warners := make(map[envoy.Bound]*loglimit.Warner, len(remedies))
	for _, b := range envoy.Bounds() {
		s.metrics.WatchBound(string(b))
		warners[b] = &loglimit.Warner{Logger: s.logger}
	}
	return func(b envoy.Bound, peer net.Addr) {
		s.metrics.Bounded(string(b))
		attributes := []any{"bound", string(b), "remedy", remedies[b]}
		if peer != nil {
			attributes = append(attributes, "peer", peer.String())
		}
		warners[b].Warn("a gRPC peer exceeded a bound", attributes...)
	}
}
