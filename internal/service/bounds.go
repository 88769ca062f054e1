package service

import (
	"log/slog"
	"net"

	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/rlqs"
)

// The bounds of the service, in addition to the bounds of the packages envoy and mapping.
const (
	boundGRPCConnections  = "grpc_connections"
	boundHTTPConnections  = "http_connections"
	boundAdminConnections = "admin_connections"
	boundGRPCPeer         = "grpc_peer_connections"
	boundHTTPPeer         = "http_peer_connections"
	boundHTTPReceive      = "http_receive"
	boundHTTPSend         = "http_send"
	boundHTTPHeader       = "http_header_size"
	boundDescriptors      = "descriptors"
	boundRules            = "rules"
	boundSettlements      = "settlements"
	boundSettlementTime   = "settlement_time"
	boundWaiting          = "waiting"
	boundLogLines         = "log_lines"
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
	string(envoy.BoundHandshake):       "it did not finish its handshake within grpc_handshake_timeout: find the peer, or check the network",
	string(envoy.BoundPings):           "it pinged more often than grpc_ping_interval: raise the interval of connection_keepalive in the gateway, or lower the setting",
	string(envoy.BoundStreams):         "it made more concurrent calls than grpc_max_streams, and did not delay them: find the peer",
	string(envoy.BoundHeaderSize):      "the header of a call was larger than grpc_max_header: find the peer, or raise it",
	string(mapping.BoundParams):        "a request had more parameters than max_params; parameters that no rule names were dropped: raise it if rules will name them",
	string(mapping.BoundValueSize):     "a value was longer than max_value and ends in a digest: raise it if rules compare longer values",
	boundDescriptors:                   "a call had more descriptors than max_descriptors and was refused: raise it, or have Envoy send fewer",
	boundSettlements:                   "more settlements than max_settlements_waiting wait for Redis, and one was dropped: restore Redis, or raise it",
	boundSettlementTime:                "a settlement failed for a minute although Redis answers, and was given up: the line about it in the log has the reason",
	boundWaiting:                       "more calls than max_waiting, than the half of it for one rule, than half of grpc_max_streams of one connection, or than half of http_max_connections_per_peer of one address wait for their turns, and one was not admitted to the queue: raise it, or shorten the wait of the rule",
	boundRules:                         "a request met more counting rules than max_rules and was refused: raise it, or have fewer rules match",
	rlqs.BoundStreams:                  "an instance had too many streams of Envoy's quota filter, or one of them did not read its assignments: start more instances, or find the peer",
	rlqs.BoundBuckets:                  "the buckets of Envoy's quota filter were too many, and got no assignment: find out whether clients choose the values of bucket ids",
	rlqs.BoundID:                       "the id of a bucket of Envoy's quota filter was too long, or not UTF-8, and the bucket got no assignment: limit the values of bucket ids in bucket_matchers",
	boundGRPCPeer:                      "its address held too many connections: find out who connects, or raise grpc_max_connections_per_peer",
	boundHTTPPeer:                      "its address held too many connections: find out who connects, or raise http_max_connections_per_peer",
	boundHTTPReceive:                   "its request did not arrive within http_header_timeout or http_receive_timeout: find the peer, or check the network",
	boundHTTPSend:                      "it did not read an answer within http_send_timeout: find the peer, or check the network",
	boundHTTPHeader:                    "the header of its request was larger than http_max_header: limit the headers of clients at the gateway to less, or raise it",
	boundGRPCConnections:               "it was silent longest when a connection was needed: find out who connects, raise grpc_max_connections, or " + raiseFiles,
	boundHTTPConnections:               "it was silent longest when a connection was needed: find out who connects, raise http_max_connections, or " + raiseFiles,
	boundAdminConnections:              "it was silent longest when a connection was needed: find out who connects, or raise admin_max_connections",
}

// boundLog counts and logs connections and calls that a bound has ended or refused.
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
