package service

import (
	"log/slog"
	"net"

	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/metrics"
)

// The bounds on connections, in addition to those of package envoy.
const (
	boundGRPCConnections  = "grpc_connections"
	boundHTTPConnections  = "http_connections"
	boundAdminConnections = "admin_connections"
)

// raiseFiles is the remedy for too few descriptors.
const raiseFiles = "raise the limit of open files (ulimit -n, LimitNOFILE)"

// boundRemedies are the remedies for connections and calls that exceed a bound, by its
// name in metrics and logs.
var boundRemedies = map[string]string{
	string(envoy.BoundUnfinished):      "it sent requests without completing them: find the peer, or raise grpc_max_unfinished",
	string(envoy.BoundUnfinishedTotal): "it held the most of the requests that are not complete: find the peer, or raise grpc_max_unfinished_total",
	string(envoy.BoundResets):          "it canceled calls faster than grpc_max_resets: find the peer; if it is a gateway whose calls time out, raise its timeout",
	string(envoy.BoundSettings):        "it changed its HTTP/2 settings too often: find the peer",
	string(envoy.BoundCallTimeout):     "a request did not arrive within grpc_receive_timeout: check the network and the gateway",
	string(envoy.BoundMessageSize):     "a request was larger than grpc_max_message: raise it if the gateway sends bodies",
	boundGRPCConnections:               "it was silent longest when a connection was needed: find out who connects, raise grpc_max_connections, or " + raiseFiles,
	boundHTTPConnections:               "it was silent longest when a connection was needed: find out who connects, raise http_max_connections, or " + raiseFiles,
	boundAdminConnections:              "it was silent longest when a connection was needed: find out who connects",
}

// boundLog counts and logs connections and calls that a bound has ended.
type boundLog struct {
	metrics *metrics.Metrics
	warners map[string]*loglimit.Warner // by bound
}

func newBoundLog(m *metrics.Metrics, logger *slog.Logger) *boundLog {
	b := &boundLog{metrics: m, warners: make(map[string]*loglimit.Warner, len(boundRemedies))}
	for name := range boundRemedies {
		m.WatchBound(name)
		b.warners[name] = &loglimit.Warner{Logger: logger}
	}
	return b
}

// exceeded records that the bound of this name ended a connection of the peer or, if
// the peer is nil, a call.
func (b *boundLog) exceeded(name string, peer net.Addr) {
	attributes := []any{"bound", name, "remedy", boundRemedies[name]}
	if peer != nil {
		attributes = append(attributes, "peer", peer.String())
	}
	b.warners[name].Warn("a peer exceeded a bound", attributes...)
	b.metrics.Bounded(name)
}
